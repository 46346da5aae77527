package nfstest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"capstan/export"
	"capstan/server/nfs3"
	"capstan/server/nfs4/nfsv4"
)

// fakeClock is a lease clock that stands still until it is moved.
type fakeClock struct {
	start time.Time
	moved atomic.Int64
}

func newFakeClock() *fakeClock { return &fakeClock{start: time.Now()} }

func (c *fakeClock) now() time.Time          { return c.start.Add(time.Duration(c.moved.Load())) }
func (c *fakeClock) advance(d time.Duration) { c.moved.Add(int64(d)) }

// Trial 15: an exclusive create may be sent again, also after a restart, makes
// a file with times that are true, and is told from others.
func TestTrial15ExclusiveCreate(t *testing.T) {
	eachMinor(t, func(t *testing.T, minor uint32) {
		for _, how := range []string{"EXCLUSIVE4", "EXCLUSIVE4_1"} {
			t.Run(how, func(t *testing.T) { trialExclusive(t, minor, how) })
		}
	})
}

func trialExclusive(t *testing.T, minor uint32, how string) {
	b := newBed(t, Options{})
	create := func(v byte) CreateHow {
		if how == "EXCLUSIVE4" {
			return Exclusive(nfsv4.Verifier{v, 0xff, 0x80})
		}
		return Exclusive41(nfsv4.Verifier{v, 0xff, 0x80}, Mode(0o640))
	}
	s := mount(t, b.srv, minor, "trial")
	dir, err := s.Walk(t.Context(), "data")
	if err != nil {
		t.Fatal(err)
	}
	open := func(slot uint32, how CreateHow) (*Opened, error) {
		return s.OpenOn(t.Context(), slot, dir, OpenArgs{Owner: "o", How: how, Claim: ByName("f")})
	}
	first, err := open(0, create(1))
	if err != nil {
		t.Fatal(err)
	}
	if how == "EXCLUSIVE4_1" && first.Attrset != nfsv4.BitmapOf(nfsv4.AttrMode) {
		t.Errorf("attrset %v", first.Attrset)
	}
	for slot := range uint32(2) {
		if again, err := open(slot, create(1)); err != nil || string(again.FH) != string(first.FH) {
			t.Errorf("the same again on slot %d: %v", slot, err)
		}
	}
	b.restart()
	s = mount(t, b.srv, minor, "trial")
	again, err := open(0, create(1))
	if err != nil || string(again.FH) != string(first.FH) {
		t.Fatalf("the same again after a restart: %v", err)
	}
	for name, how := range map[string]CreateHow{"another verifier": create(2), "GUARDED": Guarded(Attrs{})} {
		var st *StatusError
		if _, err := open(0, how); !errors.As(err, &st) || st.Status != nfsv4.ErrExist {
			t.Errorf("%s: %v", name, err)
		}
	}

	// UNCHECKED takes the file as it is, but for its size.
	do(t, s, s.Begin().PutFH(again.FH).Write(again.ID, 0, nfsv4.FileSync, make([]byte, 1<<20)).SetAttr(nfsv4.AnonymousStateID, Mode(0o640)))
	if _, err := open(0, Unchecked(SetAttrs(Size(0), Mode(0o777)))); err != nil {
		t.Fatal(err)
	}
	for attr, want := range map[uint32]uint64{nfsv4.AttrSize: 0, nfsv4.AttrMode: 0o640} {
		if got, err := s.Attr(t.Context(), again.FH, attr); err != nil || got != want {
			t.Errorf("%s is %o, want %o: %v", nfsv4.AttrName(attr), got, want, err)
		}
	}
	trueTimes(t, b)
}

// trueTimes checks that the times of "f" are of now, as the filesystem itself
// sees them.
func trueTimes(t *testing.T, b *bed) {
	t.Helper()
	root, err := b.vol.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, a, err := b.vol.Lookup(t.Context(), export.System(), root, "f", export.MaskAll)
	if err != nil {
		t.Fatal(err)
	}
	for name, when := range map[string]export.Timespec{"atime": a.Atime, "mtime": a.Mtime, "ctime": a.Ctime} {
		if at := when.Time(); at.Before(b.born.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
			t.Errorf("%s is %v, the test began at %v", name, at, b.born)
		}
	}
}

func TestTrial15ExclusiveCreateV3(t *testing.T) {
	b := newBed(t, Options{})
	d := b.speak(t, "v3").(*v3Dialect)
	v := [8]byte{1, 0xff, 0x80}
	fh, st, err := d.c.CreateExclusive(t.Context(), d.top, "f", v)
	d.ok("CREATE", st, err)
	b.restart()
	d = b.speak(t, "v3").(*v3Dialect)
	again, st, err := d.c.CreateExclusive(t.Context(), d.top, "f", v)
	d.ok("CREATE again", st, err)
	if string(fh) != string(again) {
		t.Error("the retry answers another file")
	}
	if _, st, err := d.c.CreateExclusive(t.Context(), d.top, "f", [8]byte{2}); err != nil || st != nfs3.ErrExist {
		t.Errorf("another verifier: %v %v", st, err)
	}
	if _, st, err := d.c.Create(t.Context(), d.top, "f", export.SetAttr{}); err != nil || st != nfs3.ErrExist {
		t.Errorf("GUARDED: %v %v", st, err)
	}
	d.setSize(fh, 1<<20)
	st, err = d.c.SetAttr(t.Context(), fh, export.SetAttr{Set: export.SetMode, Mode: 0o640})
	d.ok("SETATTR", st, err)
	_, st, err = d.c.CreateUnchecked(t.Context(), d.top, "f", export.SetAttr{Set: export.SetSize | export.SetMode, Mode: 0o777})
	d.ok("UNCHECKED", st, err)
	if a, st, err := d.c.GetAttr(t.Context(), fh); err != nil || st != nfs3.OK || a.Size != 0 || a.Mode&0o7777 != 0o640 {
		t.Errorf("after UNCHECKED: %+v %v %v", a, st, err)
	}
	trueTimes(t, b)
}

// Trial 18: after a restart stateids of before are bad one by one, and opens
// wait for RECLAIM_COMPLETE and for nothing else.
func TestTrial18AfterARestart(t *testing.T) {
	eachMinor(t, func(t *testing.T, minor uint32) {
		b := newBed(t, Options{})
		s := mount(t, b.srv, minor, "trial")
		dir, err := s.Walk(t.Context(), "data")
		if err != nil {
			t.Fatal(err)
		}
		o, err := s.Open(t.Context(), dir, OpenArgs{Owner: "o", How: Guarded(Attrs{}), Claim: ByName("f")})
		if err != nil {
			t.Fatal(err)
		}
		lock := Get[LockRes](do(t, s, s.Begin().PutFH(o.FH).LockOp(LockArgs{Length: 1, Open: o.ID, Owner: "l"}))).ID
		b.restart()
		if r, err := connect(t, b.srv).Send(t.Context(), s.Begin()); err != nil || r.Status != nfsv4.ErrBadSession {
			t.Fatalf("the old session: %v %v", r.Status, err)
		}
		c, err := NewClient(t.Context(), connect(t, b.srv), minor, ExchangeIDArgs{Owner: "trial", Verifier: nfsv4.Verifier{1}})
		if err != nil {
			t.Fatal(err)
		}
		if s, err = c.NewSession(t.Context(), Channel{}); err != nil {
			t.Fatal(err)
		}
		tested := Get[TestStateIDRes](do(t, s, s.Begin().TestStateID(o.ID, lock, nfsv4.AnonymousStateID, nfsv4.CurrentStateID)))
		for i, st := range tested.Statuses {
			if st != nfsv4.ErrBadStateID {
				t.Errorf("stateid %d: %v", i, st)
			}
		}
		if r := send(t, s, s.Begin().PutFH(o.FH).Read(o.ID, 0, 1)); r.Status != nfsv4.ErrBadStateID {
			t.Errorf("READ with a stateid of before: %v", r.Status)
		}
		again := OpenArgs{Owner: "o", Claim: ByName("f")}
		if r := send(t, s, s.Begin().PutFH(dir).Open(again)); r.Status != nfsv4.ErrGrace {
			t.Errorf("OPEN before RECLAIM_COMPLETE: %v", r.Status)
		}
		do(t, s, s.Begin().ReclaimComplete(false))
		do(t, s, s.Begin().PutFH(dir).Open(again))
	})
}

// Trial 18: SEQUENCE in the very moment in which the lease is over and another
// client wants the lock: one of them has it, wholly, and the one that lost
// starts again.
func TestTrial18TheSecondOfExpiry(t *testing.T) {
	eachMinor(t, func(t *testing.T, minor uint32) {
		clock := newFakeClock()
		var o Options
		o.State.Now, o.State.Lease = clock.now, 90*time.Second
		b := newBed(t, o)
		other := mount(t, b.srv, minor, "other")
		dir, err := other.Walk(t.Context(), "data")
		if err != nil {
			t.Fatal(err)
		}
		const lease = 90 * time.Second
		kept, lost := 0, 0
		for round := range 50 {
			// silent for L-2, L-1, L, L+1, L+2 s in turn
			silence := lease + time.Duration(round%5-2)*time.Second
			holder := mount(t, b.srv, minor, fmt.Sprintf("holder %d", round))
			name := fmt.Sprintf("f%d", round)
			mine, err := holder.Open(t.Context(), dir, OpenArgs{Owner: "o", How: Guarded(Attrs{}), Claim: ByName(name)})
			if err != nil {
				t.Fatal(err)
			}
			lock := LockArgs{Type: nfsv4.LockWrite, Length: 10, Open: mine.ID, Owner: "l"}
			do(t, holder, holder.Begin().PutFH(mine.FH).LockOp(lock))
			do(t, other, other.Begin())
			clock.advance(silence / 2)
			do(t, other, other.Begin())
			clock.advance(silence - silence/2)
			theirs, err := other.Open(t.Context(), dir, OpenArgs{Owner: "o", Claim: ByName(name)})
			if err != nil {
				t.Fatal(err)
			}
			var wait sync.WaitGroup
			var wrote, locked *Reply
			var werr, lerr error
			write := holder.Begin().PutFH(mine.FH).Write(mine.ID, 0, nfsv4.Unstable, []byte("x"))
			take := other.Begin().PutFH(theirs.FH).LockOp(LockArgs{Type: nfsv4.LockWrite, Length: 1, Open: theirs.ID, Owner: "l"})
			wait.Go(func() { wrote, werr = holder.Send(t.Context(), write) })
			wait.Go(func() { locked, lerr = other.Send(t.Context(), take) })
			wait.Wait()
			if werr != nil || lerr != nil {
				t.Fatal(werr, lerr)
			}
			switch {
			case wrote.Status == nfsv4.OK && locked.Status == nfsv4.ErrDenied:
				kept++
				do(t, holder, holder.Begin().PutFH(mine.FH).Close(mine.ID))
			case wrote.Status == nfsv4.ErrBadSession && locked.Status == nfsv4.OK:
				lost++
				if silence <= lease {
					t.Errorf("silent for %v, and all is lost", silence)
				}
				mount(t, b.srv, minor, fmt.Sprintf("holder %d", round))
			case wrote.Status == nfsv4.OK && locked.Status == nfsv4.OK:
				// The write came first and was over before the lease was looked at: it
				// renewed it. So the lock must not have been given away.
				t.Errorf("silent for %v: written and locked by the other", silence)
			default:
				t.Errorf("silent for %v: %v, the other %v", silence, wrote.Results, locked.Results)
			}
			do(t, other, other.Begin().PutFH(theirs.FH).Close(theirs.ID))
		}
		t.Logf("kept %d times, lost %d times", kept, lost)
		if kept < 30 {
			t.Errorf("kept only %d times", kept)
		}
	})
}

// Trial 19: two machines of one name.
func TestTrial19TwoOfOneName(t *testing.T) {
	eachMinor(t, func(t *testing.T, minor uint32) {
		var log lineLog
		var o Options
		o.State.Logger = slog.New(slog.NewTextHandler(&log, nil))
		b := newBed(t, o)
		s := mount(t, b.srv, minor, "twin")
		third := mount(t, b.srv, minor, "third")
		dir, err := s.Walk(t.Context(), "data")
		if err != nil {
			t.Fatal(err)
		}
		held, err := s.Open(t.Context(), dir, OpenArgs{Owner: "o", How: Guarded(Attrs{}), Claim: ByName("f")})
		if err != nil {
			t.Fatal(err)
		}
		stillThere := func() {
			t.Helper()
			do(t, s, s.Begin().PutFH(held.FH).Write(held.ID, 0, nfsv4.FileSync, []byte("twin")))
			do(t, third, third.Begin().PutFH(held.FH).Read(nfsv4.AnonymousStateID, 0, 4))
		}

		// (c) The same verifier over another connection: the same client.
		same, err := NewClient(t.Context(), connect(t, b.srv), minor, ExchangeIDArgs{Owner: "twin", Verifier: nfsv4.Verifier{1}})
		if err != nil || same.ID != s.Client.ID || same.Exchange.Flags&nfsv4.ExchangeConfirmed == 0 {
			t.Errorf("the same client is answered %+v, %v", same, err)
		}
		stillThere()

		// (b) Another principal: refused while the first holds state.
		stranger, err := b.srv.Connect(User(77, 77))
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
		for range 10 {
			var st *StatusError
			_, err = NewClient(t.Context(), stranger, minor, ExchangeIDArgs{Owner: "twin", Verifier: nfsv4.Verifier{2}})
			if !errors.As(err, &st) || st.Status != nfsv4.ErrClIDInUse {
				t.Fatalf("another principal: %v", err)
			}
		}
		if n := log.count("twin"); n > 2 { // its arrival, and one clash a minute
			t.Errorf("%d lines about it:\n%s", n, log.String())
		}
		stillThere()

		// (a) Another verifier, the same principal: a restart by the letter. What is
		// held goes when the new one is confirmed, and not before; many that never
		// are take no memory.
		var twin *Client
		for i := range 3000 {
			if twin, err = NewClient(t.Context(), same.Conn, minor, ExchangeIDArgs{Owner: "twin", Verifier: nfsv4.Verifier{3, byte(i), byte(i >> 8)}}); err != nil {
				t.Fatal(err)
			}
		}
		stillThere()
		if _, err := twin.NewSession(t.Context(), Channel{}); err != nil {
			t.Fatal(err)
		}
		if r := send(t, s, s.Begin().PutFH(held.FH).Read(held.ID, 0, 4)); r.Status != nfsv4.ErrBadSession {
			t.Errorf("the first of the twins is answered %v", r.Results)
		}
		r := do(t, third, third.Begin().PutFH(held.FH).Read(nfsv4.AnonymousStateID, 0, 4))
		if got := Get[ReadRes](r); string(got.Data) != "twin" {
			t.Errorf("the data are %q", got.Data)
		}
	})
}

// lineLog counts what is logged.
type lineLog struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (l *lineLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(p))
	return len(p), nil
}

func (l *lineLog) count(word string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, word) {
			n++
		}
	}
	return n
}

func (l *lineLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "")
}

// A lock for reading on a read-only export is granted, one for writing needs an
// open for writing, which is refused.
func TestTrialLocksOnAReadOnlyExport(t *testing.T) {
	eachMinor(t, func(t *testing.T, minor uint32) {
		b := newBed(t, Options{})
		s := mount(t, b.srv, minor, "trial")
		dir, err := s.Walk(t.Context(), "data")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Open(t.Context(), dir, OpenArgs{Owner: "o", How: Guarded(Mode(0o666)), Claim: ByName("f")}); err != nil {
			t.Fatal(err)
		}
		ro := Export(2, "/ro", b.vol)
		ro.ReadOnly = true
		table, err := export.NewTable(context.Background(), []*export.Export{Export(1, "/data", b.vol), ro}, export.After(b.srv.Exports.Current()))
		if err != nil {
			t.Fatal(err)
		}
		b.srv.Exports.Swap(table)
		if dir, err = s.Walk(t.Context(), "ro"); err != nil {
			t.Fatal(err)
		}
		var st *StatusError
		if _, err := s.Open(t.Context(), dir, OpenArgs{Owner: "r", Claim: ByName("f")}); !errors.As(err, &st) || st.Status != nfsv4.ErrROFS {
			t.Errorf("open for writing: %v", err)
		}
		o, err := s.Open(t.Context(), dir, OpenArgs{Owner: "r", Access: nfsv4.ShareAccessRead, Claim: ByName("f")})
		if err != nil {
			t.Fatal(err)
		}
		do(t, s, s.Begin().PutFH(o.FH).LockOp(LockArgs{Length: 10, Open: o.ID, Owner: "l"}))
		if r := send(t, s, s.Begin().PutFH(o.FH).LockOp(LockArgs{Type: nfsv4.LockWrite, Length: 10, Open: o.ID, Owner: "w"})); r.Status != nfsv4.ErrOpenMode {
			t.Errorf("lock for writing: %v", r.Results)
		}
	})
}
