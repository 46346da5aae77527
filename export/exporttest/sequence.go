package exporttest

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"capstan/export"

	"pgregory.net/rapid"
)

// op is one call of a random sequence. Objects are named by the order in which
// the sequence made them; 0 is the directory it works in.
type op struct {
	kind    opKind
	cred    *export.Cred
	obj, to int    // objects
	name    string // of an entry or an extended attribute
	newName string
	mode    uint32
	off, n  int
	arg     int // what else the kind needs
}

type opKind string

// machine runs a sequence. do returns all that is to be compared of the
// outcome: the status, and what the call returned.
type machine interface {
	do(o *op) string
	// dump describes everything below the directory of the sequence.
	dump() string
}

// kinds are the operations that a Volume with these features can do, likelier
// ones several times.
func kinds(have need) []opKind {
	all := []opKind{"create", "create", "create", "mkdir", "mkdir", "lookup", "list", "remove", "remove", "rename", "rename",
		"rename", "rename", "chmod", "chown", "truncate", "write", "write", "write", "read", "getattr", "parent"}
	for _, x := range []struct {
		n need
		k []opKind
	}{
		{hardLinks, []opKind{"link", "link"}}, {symlinks, []opKind{"symlink", "readlink"}},
		{deallocate, []opKind{"deallocate"}}, {xattrs, []opKind{"setx", "getx", "removex"}},
	} {
		if have&x.n != 0 {
			all = append(all, x.k...)
		}
	}
	return all
}

// genOp draws an operation.
func genOp(t *rapid.T, kinds []opKind, creds []*export.Cred) *op {
	name := rapid.SampledFrom([]string{"a", "b", "c"})
	obj := rapid.IntRange(0, 30)
	return &op{
		kind: rapid.SampledFrom(kinds).Draw(t, "op"),
		cred: rapid.SampledFrom(creds).Draw(t, "who"),
		obj:  obj.Draw(t, "obj"), to: obj.Draw(t, "to"),
		name: name.Draw(t, "name"), newName: name.Draw(t, "new"),
		mode: rapid.SampledFrom([]uint32{0o644, 0o755, 0o777, 0o600, 0o070, 0o1777, 0o2775, 0o6775, 0o444}).Draw(t, "mode"),
		off:  rapid.SampledFrom([]int{0, 1, 100, 511, 4096, 65530, 65536, 70000}).Draw(t, "off"),
		n:    rapid.SampledFrom([]int{1, 10, 512, 5000, 65536}).Draw(t, "n"),
		arg:  rapid.IntRange(0, 5).Draw(t, "arg"),
	}
}

func (o *op) String() string {
	return fmt.Sprintf("%s by %d: obj %d %q, to %d %q, mode %o, off %d, n %d, arg %d",
		o.kind, o.cred.UID, o.obj, o.name, o.to, o.newName, o.mode, o.off, o.n, o.arg)
}

// RunModel compares random sequences of calls on a Volume with a model of a
// filesystem that is as simple as can be.
func RunModel(t *testing.T, c Config) {
	f := newFixture(t, &c)
	compare(t, kinds(offers(&c, f.feat)), credsFor(&c),
		func() machine { return newVolumeMachine(f) },
		func() machine { return newModel() },
		func(got, want string) bool { return slices.Contains(strings.Split(want, either), got) })
}

// either joins what a model takes for equally right, where a call has two
// faults and nothing says which counts.
const either = " | "

// RunPair compares random sequences of calls on two Volumes, as far as both
// have the features. Which error a call fails with does not count: [RunModel]
// sees to that.
func RunPair(t *testing.T, a, b Config) {
	fa, fb := newFixture(t, &a), newFixture(t, &b)
	creds := credsFor(&a)
	if b.Unprivileged {
		creds = credsFor(&b)
	}
	compare(t, kinds(offers(&a, fa.feat)&offers(&b, fb.feat)), creds,
		func() machine { return newVolumeMachine(fa) },
		func() machine { return newVolumeMachine(fb) },
		func(got, want string) bool {
			return got == want || !strings.HasPrefix(got, "ok ") && !strings.HasPrefix(want, "ok ")
		})
}

func credsFor(c *Config) []*export.Cred {
	if c.Unprivileged {
		return []*export.Cred{root}
	}
	return []*export.Cred{root, root, alice, bob}
}

func compare(t *testing.T, kinds []opKind, creds []*export.Cred, newA, newB func() machine, agree func(got, want string) bool) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := newA(), newB()
		var history []string
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			o := genOp(t, kinds, creds)
			got, want := a.do(o), b.do(o)
			history = append(history, o.String()+" -> "+got)
			if !agree(got, want) {
				t.Fatalf("%s\ngot:  %s\nwant: %s", strings.Join(history, "\n"), got, want)
			}
		}
		if got, want := a.dump(), b.dump(); got != want {
			t.Fatalf("%s\nleft:\n%s\nwant:\n%s", strings.Join(history, "\n"), got, want)
		}
	})
}

// describe returns what a sequence compares of attributes. The links of
// directories and the sizes of anything but files have rows of their own.
func describe(a *export.Attr) string {
	s := fmt.Sprintf("type %d mode %o of %d:%d", a.Type, a.Mode, a.UID, a.GID)
	if a.Type != export.TypeDirectory {
		s += fmt.Sprintf(" links %d", a.Nlink)
	}
	if a.Type == export.TypeRegular {
		s += fmt.Sprintf(" size %d", a.Size)
	}
	return s
}

// createMode and removeKind translate op.arg.
func (o *op) createMode() (export.CreateMode, bool) {
	truncate := o.arg >= 4
	return []export.CreateMode{export.CreateUnchecked, export.CreateGuarded, export.CreateExclusive}[o.arg%3], truncate
}

func (o *op) removeKind() export.RemoveKind {
	return []export.RemoveKind{export.RemoveAny, export.RemoveAny, export.RemoveFile, export.RemoveDir}[o.arg%4]
}

func (o *op) verifier() [8]byte { return [8]byte{byte(o.n), 1} }

func (o *op) createArgs() *export.Create {
	m, truncate := o.createMode()
	args := &export.Create{Mode: m, Verifier: o.verifier(), Attr: *mode(o.mode)}
	if truncate {
		args.Attr.Set |= export.SetSize
	}
	return args
}

func (o *op) owner() *export.SetAttr {
	s := &export.SetAttr{UID: alice.UID, GID: staff}
	s.Set = []export.SetMask{export.SetUID, export.SetGID, export.SetUID | export.SetGID}[o.arg%3]
	if o.arg >= 3 {
		s.UID, s.GID = bob.UID, bob.GID
	}
	return s
}

// bytes returns the data that the operation writes.
func (o *op) bytes() []byte {
	return bytes.Repeat([]byte{byte('1' + o.arg), byte('a' + o.n%26), 'x'}, o.n/3+1)[:o.n]
}

// digest names data so that a difference shows.
func digest(p []byte) string {
	return fmt.Sprintf("%d bytes %08x", len(p), crc32.ChecksumIEEE(p))
}

// volumeMachine runs a sequence on a Volume.
type volumeMachine struct {
	f    *fixture
	top  export.Object // where the sequence works
	objs []export.Object
}

func newVolumeMachine(f *fixture) *volumeMachine {
	f.removeAll(f.base) // the one before
	top := f.mkdir("sequence", 0o777)
	return &volumeMachine{f: f, top: top, objs: []export.Object{top}}
}

func (m *volumeMachine) obj(i int) export.Object { return m.objs[i%len(m.objs)] }

// number returns which of its objects o is, adding it if it is new.
func (m *volumeMachine) number(o export.Object) int {
	if i := slices.Index(m.objs, o); i >= 0 {
		return i
	}
	m.objs = append(m.objs, o)
	return len(m.objs) - 1
}

func (m *volumeMachine) do(o *op) string {
	out, err := m.call(o)
	if err != nil {
		return export.StatusOf(err).Error()
	}
	return "ok " + out
}

func (m *volumeMachine) call(o *op) (string, error) {
	v, x, to := m.f.v, m.obj(o.obj), m.obj(o.to)
	made := func(res export.Created, err error) (string, error) {
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("#%d new %v %s", m.number(res.Object), res.New, describe(&res.Attr)), nil
	}
	found := func(got export.Object, a export.Attr, err error) (string, error) {
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("#%d %s", m.number(got), describe(&a)), nil
	}
	set := func(s *export.SetAttr) (string, error) {
		ch, err := v.SetAttr(ctx, o.cred, x, nil, s)
		return describe(&ch.Post), err
	}
	switch o.kind {
	case "create":
		return made(v.Create(ctx, o.cred, x, o.name, o.createArgs()))
	case "mkdir":
		return made(v.Mkdir(ctx, o.cred, x, o.name, mode(o.mode)))
	case "symlink":
		return made(v.Symlink(ctx, o.cred, x, o.name, "to/"+o.newName, &export.SetAttr{}))
	case "link":
		res, err := v.Link(ctx, o.cred, x, to, o.name)
		return made(res, err)
	case "lookup":
		return found(v.Lookup(ctx, o.cred, x, o.name, export.MaskAll))
	case "parent":
		if x == m.top {
			return "", nil
		}
		return found(v.Parent(ctx, o.cred, x, export.MaskAll))
	case "readlink":
		return v.Readlink(ctx, o.cred, x)
	case "list":
		var names []string
		_, err := v.ReadDir(ctx, o.cred, x, 0, export.MaskAll, func(e *export.Dirent) bool {
			names = append(names, e.Name+" "+describe(&e.Attr))
			return true
		})
		slices.Sort(names)
		return fmt.Sprint(names), err
	case "remove":
		gone, _, err := v.Remove(ctx, o.cred, x, o.name, o.removeKind())
		if err != nil {
			return "", err
		}
		return fmt.Sprint("#", m.number(gone)), nil
	case "rename":
		res, err := v.Rename(ctx, o.cred, x, o.name, to, o.newName)
		if err != nil {
			return "", err
		}
		if res.Replaced != nil {
			return fmt.Sprint("#", m.number(*res.Replaced)), nil
		}
		return "", nil
	case "chmod":
		return set(mode(o.mode))
	case "chown":
		return set(o.owner())
	case "truncate":
		return set(&export.SetAttr{Set: export.SetSize, Size: uint64(o.off + o.arg)})
	case "getattr":
		a, err := v.GetAttr(ctx, o.cred, x, export.MaskAll)
		return describe(&a), err
	case "write", "deallocate":
		return m.write(o, x)
	case "read":
		file, err := v.Open(ctx, o.cred, x, export.OpenRead)
		if err != nil {
			return "", err
		}
		defer file.Close()
		p := make([]byte, o.n)
		n, eof, err := file.ReadAt(ctx, p, uint64(o.off))
		return fmt.Sprint(digest(p[:n]), " eof ", eof), err
	case "setx":
		_, err := v.SetXattr(ctx, o.cred, x, o.name, []byte(o.newName), export.XattrMode(o.arg%3))
		return "", err
	case "getx":
		value, err := v.GetXattr(ctx, o.cred, x, o.name)
		return string(value), err
	case "removex":
		_, err := v.RemoveXattr(ctx, o.cred, x, o.name)
		return "", err
	}
	panic("unknown operation " + o.kind)
}

func (m *volumeMachine) write(o *op, x export.Object) (string, error) {
	file, err := m.f.v.Open(ctx, o.cred, x, export.OpenWrite)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if o.kind == "deallocate" {
		err = file.Deallocate(ctx, uint64(o.off), uint64(o.n))
	} else {
		_, _, err = file.WriteAt(ctx, o.cred, o.bytes(), uint64(o.off), export.Unstable)
	}
	if err != nil {
		return "", err
	}
	a, err := file.GetAttr(ctx, export.MaskAll)
	return describe(&a), err
}

func (m *volumeMachine) dump() string {
	var b strings.Builder
	m.dumpDir(&b, m.top, "")
	return b.String()
}

func (m *volumeMachine) dumpDir(b *strings.Builder, dir export.Object, path string) {
	v := m.f.v
	var ents []export.Dirent
	if _, err := v.ReadDir(ctx, root, dir, 0, export.MaskAll, func(e *export.Dirent) bool { ents = append(ents, *e); return true }); err != nil {
		fmt.Fprintln(b, path, err)
		return
	}
	slices.SortFunc(ents, func(a, b export.Dirent) int { return strings.Compare(a.Name, b.Name) })
	for _, e := range ents {
		fmt.Fprintf(b, "%s/%s #%d %s", path, e.Name, m.number(e.Object), describe(&e.Attr))
		switch e.Attr.Type {
		case export.TypeRegular:
			file, err := v.Open(ctx, root, e.Object, export.OpenRead)
			if err != nil {
				fmt.Fprint(b, err)
				break
			}
			p := make([]byte, e.Attr.Size)
			n, _, err := file.ReadAt(ctx, p, 0)
			fmt.Fprintf(b, " %s %v", digest(p[:n]), err)
			file.Close()
		case export.TypeSymlink:
			target, err := v.Readlink(ctx, root, e.Object)
			fmt.Fprintf(b, " %q %v", target, err)
		}
		fmt.Fprintln(b)
		if e.Attr.Type == export.TypeDirectory {
			m.dumpDir(b, e.Object, path+"/"+e.Name)
		}
	}
}
