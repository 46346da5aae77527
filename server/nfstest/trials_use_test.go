package nfstest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"capstan/export"
	"capstan/server/nfs3"
	"capstan/server/nfs4/nfsv4"
)

// Office programs save to a temporary file and rename it over the document, in
// an order that is macOS's own: look for "._" companions, create exclusively,
// write, set both times, rename, look again.
func TestTrialMacOSSave(t *testing.T) {
	const saves = 500
	stamp := func(i int) export.Timespec { return export.Timespec{Sec: 1_600_000_000 + int64(i), Nsec: 500} }
	eachMinor(t, func(t *testing.T, minor uint32) {
		b := newBed(t, Options{})
		s := mount(t, b.srv, minor, "trial")
		dir, err := s.Walk(t.Context(), "data")
		if err != nil {
			t.Fatal(err)
		}
		missing := func(name string) {
			t.Helper()
			if r := send(t, s, s.Begin().PutFH(dir).Lookup(name)); r.Status != nfsv4.ErrNoEnt {
				t.Fatalf("LOOKUP of %s: %v", name, r.Status)
			}
		}
		var doc []byte
		for i := range saves {
			tmp := fmt.Sprintf(".sb-%d", i)
			content := fmt.Sprintf("content %d", i)
			missing("._document")
			missing(tmp)
			missing("._" + tmp)
			o, err := s.Open(t.Context(), dir, OpenArgs{Owner: "mac", How: Exclusive41(nfsv4.Verifier{byte(i), byte(i >> 8), 1}, Mode(0o644)), Claim: ByName(tmp)})
			if err != nil {
				t.Fatal(err)
			}
			do(t, s, s.Begin().PutFH(o.FH).Write(o.ID, 0, nfsv4.Unstable, []byte(content)).Commit(0, 0))
			do(t, s, s.Begin().PutFH(o.FH).SetAttr(nfsv4.AnonymousStateID, SetAttrs(AccessTime(stamp(i)), ModifyTime(stamp(i)))).Close(o.ID))
			do(t, s, s.Begin().PutFH(dir).SaveFH().Rename(tmp, "document"))
			missing(tmp)
			missing("._document")
			do(t, s, s.Begin().PutFH(dir).Lookup("document").GetFH().GetAttr(nfsv4.AttrSize, nfsv4.AttrTimeModify))
			if i%10 == 9 { // and now and then the old one goes first
				do(t, s, s.Begin().PutFH(dir).Remove("document"))
				o, err := s.Open(t.Context(), dir, OpenArgs{Owner: "mac", How: Exclusive41(nfsv4.Verifier{byte(i), byte(i >> 8), 2}, Mode(0o644)), Claim: ByName("document")})
				if err != nil {
					t.Fatal(err)
				}
				do(t, s, s.Begin().PutFH(o.FH).Write(o.ID, 0, nfsv4.FileSync, []byte(content)).
					SetAttr(o.ID, SetAttrs(AccessTime(stamp(i)), ModifyTime(stamp(i)))).Close(o.ID))
				doc = o.FH
			}
		}
		r := do(t, s, s.Begin().PutFH(dir).Lookup("document").GetFH().Read(nfsv4.AnonymousStateID, 0, 100).GetAttr(nfsv4.AttrTimeModify))
		if got := Get[GetFHRes](r).FH; string(got) != string(doc) {
			t.Error("the document is another file")
		}
		if got := string(Get[ReadRes](r).Data); got != fmt.Sprintf("content %d", saves-1) {
			t.Errorf("the document holds %q", got)
		}
		when := Get[GetAttrRes](r).Values
		if d := decoderOf(when); d.Int64("seconds") != stamp(saves-1).Sec || d.Uint32("nseconds") != 500 {
			t.Errorf("its time is %x", when)
		}
	})
	t.Run("v3", func(t *testing.T) {
		b := newBed(t, Options{})
		d := b.speak(t, "v3").(*v3Dialect)
		missing := func(name string) {
			t.Helper()
			if _, st, err := d.c.Lookup(t.Context(), d.top, name); err != nil || st != nfs3.ErrNoEnt {
				t.Fatalf("LOOKUP of %s: %v %v", name, st, err)
			}
		}
		for i := range saves {
			tmp := fmt.Sprintf(".sb-%d", i)
			missing("._document")
			missing(tmp)
			fh, st, err := d.c.CreateExclusive(t.Context(), d.top, tmp, [8]byte{byte(i), byte(i >> 8), 1})
			d.ok("CREATE", st, err)
			st, err = d.c.SetAttr(t.Context(), fh, export.SetAttr{Set: export.SetMode | export.SetAtimeNow | export.SetMtimeNow, Mode: 0o644})
			d.ok("SETATTR of what exclusive create left open", st, err)
			if _, _, _, err := d.write(fh, 0, nfsv4.Unstable, fmt.Appendf(nil, "content %d", i)); err != nil {
				t.Fatal(err)
			}
			if _, st := d.commit(fh); st != "" {
				t.Fatal(st)
			}
			st, err = d.c.SetAttr(t.Context(), fh, export.SetAttr{Set: export.SetAtime | export.SetMtime, Atime: stamp(i), Mtime: stamp(i)})
			d.ok("SETATTR", st, err)
			if st := d.rename(d.top, tmp, "document"); st != "" {
				t.Fatal(st)
			}
			missing(tmp)
		}
		fh, st, err := d.c.Lookup(t.Context(), d.top, "document")
		d.ok("LOOKUP", st, err)
		a, st, err := d.c.GetAttr(t.Context(), fh)
		d.ok("GETATTR", st, err)
		if a.Mtime != stamp(saves-1) || a.Atime != stamp(saves-1) {
			t.Errorf("its times are %v and %v", a.Atime, a.Mtime)
		}
		if data, _, err := d.read(fh, 0, 100); err != nil || string(data) != fmt.Sprintf("content %d", saves-1) {
			t.Errorf("the document holds %q, %v", data, err)
		}
	})
}

// Reload under load: exports come, change and go 500 times, one time in ten by
// a list that is wrong, while others work on an export that stays. It goes on
// until they have done their share, however the machine divides its time.
func TestTrialReloadUnderLoad(t *testing.T) {
	b := newBed(t, Options{})
	stays := b.srv.Exports.Current().Export(1)
	other, err := NewVolume()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	load, failed := errgroup.WithContext(ctx)
	var done, entered atomic.Int64
	var stop atomic.Bool
	for _, version := range []string{"v3", "v4.1", "v4.2"} {
		d := b.speak(t, version)
		fh := d.create(d.root(), "file on "+version)
		for i := range 4 {
			load.Go(func() error {
				for n := uint64(0); !stop.Load(); n++ {
					if _, _, _, err := d.write(fh, n%64*100, nfsv4.Unstable, []byte(version)); err != nil {
						return fmt.Errorf("%s, writer %d: %w", version, i, err)
					}
					if _, _, err := d.read(fh, n%64*100, 100); err != nil {
						return fmt.Errorf("%s, reader %d: %w", version, i, err)
					}
					done.Add(1)
				}
				return nil
			})
		}
	}
	// One that holds state in the export that stays, and one in those that go.
	s := mount(t, b.srv, 1, "holder")
	dir, err := s.Walk(ctx, "data")
	if err != nil {
		t.Fatal(err)
	}
	held, err := s.Open(ctx, dir, OpenArgs{Owner: "o", How: Guarded(Attrs{}), Claim: ByName("held")})
	if err != nil {
		t.Fatal(err)
	}
	passing := mount(t, b.srv, 2, "passing")
	load.Go(func() error {
		for !stop.Load() {
			r, err := passing.Send(ctx, passing.Begin().PutRootFH().Lookup("comes").Open(OpenArgs{Owner: "p", How: Unchecked(Attrs{}), Claim: ByName("f")}))
			if err != nil {
				return err
			}
			switch r.Status {
			case nfsv4.OK, nfsv4.ErrROFS:
				entered.Add(1)
			case nfsv4.ErrNoEnt:
			default:
				return fmt.Errorf("on an export that comes and goes: %v", r.Results)
			}
		}
		return nil
	})

	for i := 0; i < 500 || done.Load() < 100 || entered.Load() == 0; i++ {
		if failed.Err() != nil {
			break // Wait says why
		}
		exports := []*export.Export{stays}
		wrong := i%10 == 9
		if i%2 == 0 {
			comes := Export(2, "/comes", other)
			comes.ReadOnly = i%4 == 0
			exports = append(exports, comes)
		}
		if wrong {
			exports = append(exports, Export(3, "/data/inside", other), Export(2, "not clean/", other))
		}
		table, err := export.NewTable(ctx, exports, export.After(b.srv.Exports.Current()))
		if wrong {
			if err == nil {
				t.Fatal("a wrong list is taken")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		old := b.srv.Exports.Swap(table)
		wait, end := context.WithTimeout(ctx, 2*time.Minute)
		err = old.WaitIdle(wait)
		end()
		if err != nil {
			t.Fatalf("calls on the exports as they were do not end: %v", err)
		}
		b.srv.State.KeepExports(ctx, func(id uint32) bool { return table.Export(id) != nil })
	}
	stop.Store(true)
	if err := load.Wait(); err != nil {
		t.Error(err)
	}
	do(t, s, s.Begin().PutFH(held.FH).Write(held.ID, 0, nfsv4.FileSync, []byte("still")).Close(held.ID))
}

// A flood of clients on many connections, each doing what mounts do, while one
// of them is wrong in every way: nobody else notices.
func TestTrialWrongAmongMany(t *testing.T) {
	b := newBed(t, Options{})
	var wait sync.WaitGroup
	var stop atomic.Bool
	bad, err := b.srv.Connect(Root)
	if err != nil {
		t.Fatal(err)
	}
	defer bad.Close()
	wait.Go(func() {
		for n := 0; !stop.Load(); n++ {
			c := NewTagged(uint32(n%4), "wrong")
			switch n % 6 {
			case 0:
				c.Op(nfsv4.Op(n))
			case 1:
				c.Sequence(SequenceArgs{Session: nfsv4.SessionID{byte(n)}, Sequence: uint32(n), Slot: 1 << 31})
			case 2:
				c.ExchangeID(ExchangeIDArgs{Owner: "wrong", Verifier: nfsv4.Verifier{byte(n)}}).Cut(n % 40)
			case 3:
				c.PutRootFH().SetCount(1 << 31)
			case 4:
				c.Op(nfsv4.OpTestStateID, 1<<31)
			case 5:
				c.CreateSession(CreateSessionArgs{Client: nfsv4.ClientID(n), Fore: Channel{MaxRequests: 1 << 31}})
			}
			if _, err := bad.Send(t.Context(), c); err != nil {
				t.Errorf("%d: %v", n, err)
				return
			}
		}
	})
	for i := range 20 {
		s := mount(t, b.srv, uint32(1+i%2), fmt.Sprintf("client %d", i))
		dir, err := s.Walk(t.Context(), "data")
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			do(t, s, s.Begin().PutFH(dir).ReadDir(0, nfsv4.Verifier{}, 1000, 4000, nfsv4.AttrFileID))
		}
	}
	stop.Store(true)
	wait.Wait()
}
