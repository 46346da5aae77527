package nfs4_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"capstan/server/nfs4"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfstest"
)

var updateMatrix = flag.Bool("update-matrix", false, "write testdata/errors.txt anew")

// cell is one error that one operation may answer.
type cell struct {
	op  nfsv4.Op
	err nfsv4.Status
}

// rule fills cells of one error: with a scenario, which makes an operation
// answer it, or with the reason why this server never does.
type rule struct {
	err nfsv4.Status
	// ops names the operations; "*" stands for those no other rule of the error
	// names.
	ops    string
	name   string
	run    func(*world, cell) nfstest.Result
	with   func(*worldOptions)
	reason string
}

// operations is the operation table with the operation that stands for numbers
// that are none.
func operations(testing.TB) []nfs4.OperationInfo {
	return append(nfs4.Operations(), nfs4.OperationInfo{
		Op: nfsv4.OpIllegal, LastMinor: 2, Errors: []nfsv4.Status{nfsv4.ErrBadXDR, nfsv4.ErrOpIllegal},
	})
}

// matrix finds the rule of every cell.
type matrix struct {
	named map[cell]*rule
	rest  map[nfsv4.Status]*rule
	used  map[*rule]bool
}

func newMatrix(t *testing.T) *matrix {
	t.Helper()
	m := &matrix{named: map[cell]*rule{}, rest: map[nfsv4.Status]*rule{}, used: map[*rule]bool{}}
	numbers := map[string]nfsv4.Op{}
	for _, o := range operations(t) {
		numbers[o.Op.String()] = o.Op
	}
	all := slices.Concat(sessionRules, handleRules, nameRules, attrRules, openRules, dataRules, lockRules, clientRules, xattrRules)
	for i := range all {
		r := &all[i]
		if (r.run == nil) == (r.reason == "") {
			t.Fatalf("%v of %s: a scenario, or a reason", r.err, r.ops)
		}
		if r.ops == "*" {
			if m.rest[r.err] != nil {
				t.Fatalf("%v: two rules for the rest", r.err)
			}
			m.rest[r.err] = r
			continue
		}
		for name := range strings.FieldsSeq(r.ops) {
			op, ok := numbers[name]
			if !ok {
				t.Fatalf("%v: no operation %q", r.err, name)
			}
			if m.named[cell{op, r.err}] != nil {
				t.Fatalf("%v of %s: two rules", r.err, name)
			}
			m.named[cell{op, r.err}] = r
		}
	}
	return m
}

func (m *matrix) rule(c cell) *rule {
	r := m.named[c]
	if r == nil {
		r = m.rest[c.err]
	}
	m.used[r] = true
	return r
}

// TestErrorMatrix goes through every operation, every error that it may answer
// and every minor version: the scenario of the cell must bring about just that
// error, or there is a reason why it cannot occur. testdata/errors.txt shows the
// table.
func TestErrorMatrix(t *testing.T) {
	m := newMatrix(t)
	var table bytes.Buffer
	fmt.Fprintln(&table, "# What each operation may answer, and the scenario of TestErrorMatrix that makes it,")
	fmt.Fprintln(&table, "# or why it never does. Made by: go test -run TestErrorMatrix -update-matrix")
	for _, o := range operations(t) {
		for _, err := range o.Errors {
			c := cell{o.Op, err}
			r := m.rule(c)
			first := max(o.FirstMinor, 1)
			versions := fmt.Sprintf("4.%d-4.%d", first, o.LastMinor)
			switch {
			case r == nil:
				t.Errorf("%v: %v has no test and no reason", o.Op, err)
			case r.reason != "":
				fmt.Fprintf(&table, "%-21s %-34s %s never: %s\n", o.Op, err, versions, r.reason)
			default:
				fmt.Fprintf(&table, "%-21s %-34s %s test: %s\n", o.Op, err, versions, r.name)
				for minor := first; minor <= o.LastMinor; minor++ {
					t.Run(fmt.Sprintf("4.%d/%v/%v", minor, o.Op, err), func(t *testing.T) { r.check(t, minor, c) })
				}
			}
		}
	}
	for _, r := range slices.Concat(slices.Collect(valuesOf(m.named)), slices.Collect(valuesOf(m.rest))) {
		if !m.used[r] {
			t.Errorf("%v of %s: a rule for no cell (%s%s)", r.err, r.ops, r.name, r.reason)
		}
	}
	compareTable(t, table.Bytes())
}

func valuesOf[K comparable](m map[K]*rule) func(yield func(*rule) bool) {
	return func(yield func(*rule) bool) {
		for _, r := range m {
			if !yield(r) {
				return
			}
		}
	}
}

func (r *rule) check(t *testing.T, minor uint32, c cell) {
	var options []func(*worldOptions)
	if r.with != nil {
		options = append(options, r.with)
	}
	got := r.run(newWorld(t, minor, options...), c)
	if got.Op != c.op || got.Status != c.err {
		t.Errorf("%s: got %v", r.name, got)
	}
}

func compareTable(t *testing.T, table []byte) {
	t.Helper()
	path := filepath.Join("testdata", "errors.txt")
	if *updateMatrix {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, table, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(was, table) {
		t.Errorf("%s is not what the rules say; see its head", path)
	}
}

// The building blocks of scenarios.

// result runs a request of the session and returns its last result.
func (w *world) result(req *nfstest.Compound) nfstest.Result { return w.send(req).Last() }

// alone runs a request without a session, over a new connection.
func (w *world) alone(f func(*nfstest.Compound)) nfstest.Result {
	return w.aloneOn(w.conn, f)
}

func (w *world) aloneOn(conn *nfstest.Conn, f func(*nfstest.Compound)) nfstest.Result {
	w.Helper()
	c := nfstest.NewCompound(w.minor)
	f(c)
	r, err := conn.Send(w.ctx, c)
	w.check(err)
	return r.Last()
}

// standing is a session's request, or one without for operations that stand
// alone.
func (w *world) standing(op nfsv4.Op) *nfstest.Compound {
	switch op {
	case nfsv4.OpExchangeID, nfsv4.OpCreateSession, nfsv4.OpDestroySession, nfsv4.OpBindConnToSession, nfsv4.OpDestroyClientID:
		return nfstest.NewCompound(w.minor)
	}
	return w.ses.Begin()
}

// with is a scenario: what stands before an operation, and the operation.
func with(before func(*world, *nfstest.Compound), op func(*world, *nfstest.Compound)) func(*world, cell) nfstest.Result {
	return func(w *world, c cell) nfstest.Result {
		return w.result(act{before, op}.append(w, w.standing(c.op)))
	}
}

// usual is a scenario with the usual call of an operation behind something
// else than usual.
func usual(before func(*world, *nfstest.Compound)) func(*world, cell) nfstest.Result {
	return func(w *world, c cell) nfstest.Result {
		return w.result(act{before, acts[c.op].op}.append(w, w.standing(c.op)))
	}
}

// by is a scenario with other arguments behind what is usual.
func by(op func(*world, *nfstest.Compound)) func(*world, cell) nfstest.Result {
	return func(w *world, c cell) nfstest.Result {
		return w.result(act{acts[c.op].before, op}.append(w, w.standing(c.op)))
	}
}

// volume is a scenario in which the Volume fails with err whatever it is asked.
func volume(err error) func(*world, cell) nfstest.Result {
	return func(w *world, c cell) nfstest.Result {
		req := acts[c.op].append(w, w.standing(c.op))
		w.vol.Fail("*", err)
		defer w.vol.Fail("*", nil)
		return w.result(req)
	}
}

// method is a scenario in which one method of the Volume fails.
func method(name string, err error) func(*world, cell) nfstest.Result {
	return func(w *world, c cell) nfstest.Result {
		req := acts[c.op].append(w, w.standing(c.op))
		w.vol.Fail(name, err)
		defer w.vol.Fail(name, nil)
		return w.result(req)
	}
}
