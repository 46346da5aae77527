package nfstest

import (
	"context"
	"errors"
	"testing"

	"capstan/server/nfs4/nfsv4"
)

// start runs a server for one test.
func start(tb testing.TB, o Options) *Server {
	tb.Helper()
	s, err := NewServer(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func connect(tb testing.TB, s *Server) *Conn {
	tb.Helper()
	c, err := s.Connect(Root)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

func mount(tb testing.TB, s *Server, minor uint32, owner string) *Session {
	tb.Helper()
	ses, err := Mount(tb.Context(), connect(tb, s), minor, owner)
	if err != nil {
		tb.Fatal(err)
	}
	return ses
}

// do sends a COMPOUND that must succeed.
func do(tb testing.TB, s *Session, req *Compound) *Reply {
	tb.Helper()
	r, err := s.Do(tb.Context(), req)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// send sends a COMPOUND that may fail.
func send(tb testing.TB, s *Session, req *Compound) *Reply {
	tb.Helper()
	r, err := s.Send(tb.Context(), req)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func eachMinor(t *testing.T, f func(t *testing.T, minor uint32)) {
	t.Run("v4.1", func(t *testing.T) { f(t, 1) })
	t.Run("v4.2", func(t *testing.T) { f(t, 2) })
}

func TestSessionOpenWriteRead(t *testing.T) {
	eachMinor(t, func(t *testing.T, minor uint32) {
		s := mount(t, start(t, Options{}), minor, "client")
		dir, err := s.Walk(t.Context(), "data")
		if err != nil {
			t.Fatal(err)
		}
		o, err := s.Open(t.Context(), dir, OpenArgs{Owner: "o", How: Guarded(Mode(0o644)), Claim: ByName("f")})
		if err != nil {
			t.Fatal(err)
		}
		r := do(t, s, s.Begin().PutFH(o.FH).Write(o.ID, 0, nfsv4.FileSync, []byte("hello")).Read(o.ID, 0, 100).
			GetAttr(nfsv4.AttrSize).LockOp(LockArgs{Type: nfsv4.LockWrite, Length: 5, Open: o.ID, Owner: "l"}))
		if got := Get[ReadRes](r); string(got.Data) != "hello" || !got.EOF {
			t.Errorf("READ answers %q, eof %v", got.Data, got.EOF)
		}
		if got := Get[GetAttrRes](r).Uint64(); got != 5 {
			t.Errorf("size %d", got)
		}
		lock := Get[LockRes](r).ID
		do(t, s, s.Begin().PutFH(o.FH).LockU(LockArgs{Length: 5, Lock: lock}).Close(o.ID))
	})
}

// The same bytes again, over another connection, get the same reply.
func TestSessionReplay(t *testing.T) {
	eachMinor(t, func(t *testing.T, minor uint32) {
		srv := start(t, Options{})
		s := mount(t, srv, minor, "client")
		req := s.BeginOn(3, true).PutRootFH().Lookup("data").Mkdir("d", Attrs{}).GetFH()
		first := do(t, s, req)
		again, err := connect(t, srv).Bytes(t.Context(), nil, req.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if string(first.Raw) != string(again.Raw) {
			t.Errorf("retry is answered %v", again.Results)
		}
		mallory := User(99, 99)
		if again, err = s.SendAs(t.Context(), &mallory, req); err != nil {
			t.Fatal(err)
		}
		if again.Status != nfsv4.ErrSeqFalseRetry {
			t.Errorf("retry by somebody else is answered %v", again.Results)
		}
	})
}

// A refused SEQUENCE does not use the slot up, in the client either.
func TestSessionKeepsStep(t *testing.T) {
	s := mount(t, start(t, Options{}), 1, "client")
	s.SetSequence(0, 77)
	if r := send(t, s, s.Begin().PutRootFH()); r.Status != nfsv4.ErrSeqMisordered {
		t.Fatalf("wrong number is answered %v", r.Results)
	}
	if got := s.Sequence(0); got != 77 {
		t.Fatalf("the slot is at %d", got)
	}
	s.SetSequence(0, 1) // RECLAIM_COMPLETE was 1
	do(t, s, s.Begin().PutRootFH())
}

func TestCompoundWrong(t *testing.T) {
	s := mount(t, start(t, Options{}), 2, "client")
	for name, row := range map[string]struct {
		req  *Compound
		op   nfsv4.Op
		want nfsv4.Status
	}{
		"truncated":         {s.BeginOn(0, false).PutRootFH().Lookup("data").Cut(4), nfsv4.OpLookup, nfsv4.ErrBadXDR},
		"unknown":           {s.BeginOn(1, false).PutRootFH().Op(9999, 1, 2, 3), nfsv4.OpIllegal, nfsv4.ErrOpIllegal},
		"fewer than said":   {s.BeginOn(2, false).PutRootFH().SetCount(9), nfsv4.OpIllegal, nfsv4.ErrBadXDR},
		"bitmap of bitmaps": {s.BeginOn(3, false).PutRootFH().Op(nfsv4.OpGetAttr, 1000), nfsv4.OpGetAttr, nfsv4.ErrBadXDR},
		"long handle":       {s.BeginOn(4, false).PutFH(make([]byte, 129)), nfsv4.OpPutFH, nfsv4.ErrBadXDR},
		"not offered":       {s.BeginOn(5, false).PutRootFH().Missing(nfsv4.OpCopy), nfsv4.OpCopy, nfsv4.ErrNotSupp},
	} {
		if last := send(t, s, row.req).Last(); last.Op != row.op || last.Status != row.want {
			t.Errorf("%s: %v", name, last)
		}
	}
}

func TestMustNamesTheOperation(t *testing.T) {
	s := mount(t, start(t, Options{}), 1, "client")
	_, err := s.Walk(t.Context(), "data", "none")
	var st *StatusError
	if !errors.As(err, &st) || st.Op != nfsv4.OpLookup || st.Status != nfsv4.ErrNoEnt {
		t.Errorf("got %v", err)
	}
}
