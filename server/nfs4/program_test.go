package nfs4

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

// wire is a connection to a server on loopback.
type wire struct {
	tb  testing.TB
	nc  net.Conn
	xid uint32
}

// listen serves s on loopback until the test ends.
func (s *site) listen() (dial func() *wire) {
	s.tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.tb.Fatal(err)
	}
	srv := rpc.NewServer(rpc.Options{})
	srv.Register(s.srv)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	s.tb.Cleanup(func() {
		if err := srv.Shutdown(context.Background()); err != nil {
			s.tb.Error(err)
		}
		<-done
	})
	return func() *wire {
		nc, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			s.tb.Fatal(err)
		}
		s.tb.Cleanup(func() { nc.Close() })
		return &wire{tb: s.tb, nc: nc}
	}
}

// call sends a request and returns the result.
func (w *wire) call(cred rpc.Credential, req *request) *reply {
	w.tb.Helper()
	w.xid++
	var e xdr.Encoder
	put(&e, 0, w.xid, 0, 2, nfsv4.Program, nfsv4.Version, nfsv4.ProcCompound)
	cred.AppendTo(&e)
	put(&e, 0, 0)
	e.Append(req.e.Bytes())
	e.Patch32(0, 1<<31|uint32(e.Len()-4))
	if _, err := w.nc.Write(e.Bytes()); err != nil {
		w.tb.Fatal(err)
	}
	var mark [4]byte
	if _, err := io.ReadFull(w.nc, mark[:]); err != nil {
		w.tb.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint32(mark[:])&^(1<<31))
	if _, err := io.ReadFull(w.nc, b); err != nil {
		w.tb.Fatal(err)
	}
	if got := binary.BigEndian.Uint32(b); got != w.xid || !bytes.Equal(b[4:24], []byte{3: 1, 19: 0}) {
		w.tb.Fatalf("reply %x", b[:24])
	}
	r := &reply{tb: w.tb, raw: b[24:]}
	r.Reset(r.raw)
	r.status = nfsv4.Status(r.Uint32("status"))
	r.tag = r.String("tag", 1024)
	r.n = int(r.Uint32("resarray"))
	return r
}

// dialed is a client with a session over a connection of its own.
type dialed struct {
	*wire
	session nfsv4.SessionID
	id      uint64
	seq     uint32
}

func (w *wire) client(owner string) *dialed {
	w.tb.Helper()
	c := &dialed{wire: w}
	r := w.call(root, newRequest(2).add(nfsv4.OpExchangeID, exchangeID(owner, 1)...)).op(nfsv4.OpExchangeID, nfsv4.OK)
	c.id = r.Uint64("clientid")
	args := join([]any{c.id, r.Uint32("sequenceid"), nfsv4.SessionConnBackCh}, channel(1<<20+Overhead, 1<<20+Overhead, 4096, 16, 8),
		channel(4096, 4096, 4096, 2, 1), []any{0x40000000, 1, nfsv4.AuthNone})
	r = w.call(root, newRequest(2).add(nfsv4.OpCreateSession, args...)).op(nfsv4.OpCreateSession, nfsv4.OK)
	c.session = nfsv4.DecodeSessionID(&r.Decoder)
	c.run(root, c.with().add(nfsv4.OpReclaimComplete, false)).op(nfsv4.OpReclaimComplete, nfsv4.OK)
	return c
}

func (c *dialed) with() *request {
	c.seq++
	return newRequest(2).add(nfsv4.OpSequence, c.session, c.seq, 0, 0, false)
}

func (c *dialed) run(cred rpc.Credential, req *request) *reply {
	c.tb.Helper()
	return c.call(cred, req).op(nfsv4.OpSequence, nfsv4.OK).skip(36)
}

func TestServerOverTCP(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("serve", func(t *testing.T) {
		dial := newSite(t).listen()
		w := dial()
		c := w.client("one")
		data := strings.Repeat("0123456789abcdef", 1<<16)
		r := c.run(root, c.with().add(nfsv4.OpPutRootFH).add(nfsv4.OpLookup, "data").
			add(nfsv4.OpOpen, join(openBy("o", 3, 0), guarded(bitmap()), byName("f"))...).add(nfsv4.OpGetFH).
			add(nfsv4.OpWrite, nfsv4.CurrentStateID, uint64(0), nfsv4.Unstable, data))
		o := r.op(nfsv4.OpPutRootFH, nfsv4.OK).op(nfsv4.OpLookup, nfsv4.OK).op(nfsv4.OpOpen, nfsv4.OK).opened()
		fh := r.op(nfsv4.OpGetFH, nfsv4.OK).String("fh", 128)
		if n := r.op(nfsv4.OpWrite, nfsv4.OK).Uint32("count"); int(n) != len(data) {
			t.Errorf("%d bytes written", n)
		}
		r = c.run(root, c.with().add(nfsv4.OpPutFH, fh).add(nfsv4.OpRead, o.id, uint64(0), len(data)).add(nfsv4.OpGetAttr, bitmap(nfsv4.AttrSize)))
		r.op(nfsv4.OpPutFH, nfsv4.OK).op(nfsv4.OpRead, nfsv4.OK)
		if eof, got := r.Bool("eof"), r.String("data", 2<<20); !eof || got != data {
			t.Errorf("%d bytes read, eof %v", len(got), eof)
		}
		r.op(nfsv4.OpGetAttr, nfsv4.OK)

		// Another connection joins the session, and only then may end it.
		other := dial()
		other.call(root, newRequest(2).add(nfsv4.OpDestroySession, c.session)).op(nfsv4.OpDestroySession, nfsv4.ErrConnNotBoundToSession)
		r = other.call(root, newRequest(2).add(nfsv4.OpBindConnToSession, c.session, nfsv4.BindForeOrBoth, true)).op(nfsv4.OpBindConnToSession, nfsv4.OK)
		if id, dir, rdma := nfsv4.DecodeSessionID(&r.Decoder), r.Uint32("dir"), r.Bool("rdma"); id != c.session || dir != nfsv4.BindBoth || rdma {
			t.Errorf("bound %v, direction %d, RDMA %v", id, dir, rdma)
		}
		other.call(root, newRequest(2).add(nfsv4.OpDestroySession, c.session)).op(nfsv4.OpDestroySession, nfsv4.OK)
		w.call(root, c.with()).op(nfsv4.OpSequence, nfsv4.ErrBadSession)
	})
}

// Clients in parallel, each on a connection of its own, in one directory.
func TestServerInParallel(t *testing.T) {
	dial := newSite(t).listen()
	var wg sync.WaitGroup
	for i := range 8 {
		c := dial().client(fmt.Sprint("client ", i))
		wg.Go(func() {
			for j := range 30 {
				name := fmt.Sprint("f", i, "-", j)
				r := c.run(root, c.with().add(nfsv4.OpPutRootFH).add(nfsv4.OpLookup, "data").add(nfsv4.OpSaveFH).
					add(nfsv4.OpOpen, join(openBy("o", 3, 0), unchecked(bitmap()), byName(name))...).
					add(nfsv4.OpWrite, nfsv4.CurrentStateID, uint64(0), nfsv4.Unstable, name).
					add(nfsv4.OpLock, lockNew(nfsv4.LockWrite, 0, toEnd, nfsv4.CurrentStateID, "l")...).
					add(nfsv4.OpRead, nfsv4.CurrentStateID, uint64(0), 100).
					add(nfsv4.OpRestoreFH).add(nfsv4.OpReadDir, uint64(0), nfsv4.Verifier{}, 0, 1000, bitmap(nfsv4.AttrType)))
				if r.status != nfsv4.OK {
					t.Errorf("%s: %v", name, r.status)
				}
				if j%2 == 0 {
					r := c.run(root, c.with().add(nfsv4.OpPutRootFH).add(nfsv4.OpLookup, "data").add(nfsv4.OpRemove, name))
					if r.status != nfsv4.OK {
						t.Errorf("remove %s: %v", name, r.status)
					}
				}
			}
		})
	}
	wg.Wait()
}

// A Volume that panics takes one call with it: the slot is free for the next.
func TestPanicFreesTheSlot(t *testing.T) {
	s := newSite(t)
	bad := &panicky{Volume: s.vol}
	table, err := export.NewTable(t.Context(), []*export.Export{{ID: 1, Path: "/data", Volume: bad, Rules: []export.Rule{export.AllowAll}}})
	if err != nil {
		t.Fatal(err)
	}
	s.srv.opts.Exports.Swap(table)
	c := s.listen()().client("one")
	seq := c.seq + 1
	req := c.with().add(nfsv4.OpPutRootFH).add(nfsv4.OpLookup, "data").add(nfsv4.OpGetAttr, bitmap(nfsv4.AttrSize))
	bad.panics = true
	var e xdr.Encoder
	put(&e, 0, 77, 0, 2, nfsv4.Program, nfsv4.Version, nfsv4.ProcCompound)
	root := root
	root.AppendTo(&e)
	put(&e, 0, 0)
	e.Append(req.e.Bytes())
	e.Patch32(0, 1<<31|uint32(e.Len()-4))
	if _, err := c.nc.Write(e.Bytes()); err != nil {
		t.Fatal(err)
	}
	var b [28]byte
	if _, err := io.ReadFull(c.nc, b[:]); err != nil || b[27] != byte(rpc.SystemErr) {
		t.Fatalf("reply %x, %v", b, err)
	}
	bad.panics = false
	if c.seq != seq {
		t.Fatal("sequence numbers are not what the test thinks")
	}
	c.run(root, c.with().add(nfsv4.OpPutRootFH)).op(nfsv4.OpPutRootFH, nfsv4.OK)
}

// A retry of a request that still runs is told to wait; then it gets the same
// reply.
func TestRetryOfARunningRequest(t *testing.T) {
	s := newSite(t)
	slow := &slowVolume{Volume: s.vol, entered: make(chan struct{}), leave: make(chan struct{})}
	table, err := export.NewTable(t.Context(), []*export.Export{{ID: 1, Path: "/data", Volume: slow, Rules: []export.Rule{export.AllowAll}, Squash: export.SquashNone}})
	if err != nil {
		t.Fatal(err)
	}
	s.srv.opts.Exports.Swap(table)
	c := s.newClient(1, "client")
	dir := c.fh("data")
	req := c.sequence(true).add(nfsv4.OpPutFH, dir).add(nfsv4.OpCreate, 2, "once", attrs(bitmap()))
	first := make(chan []byte)
	go func() { first <- s.send(root, bytes.Clone(req.e.Bytes())) }()
	<-slow.entered
	s.do(root, req).op(nfsv4.OpSequence, nfsv4.ErrDelay).end()
	close(slow.leave)
	want := <-first
	if got := s.do(root, req); !bytes.Equal(got.raw, want) || got.status != nfsv4.OK {
		t.Errorf("the retry is answered %v", got.status)
	}
}

// slowVolume makes Mkdir wait.
type slowVolume struct {
	export.Volume
	entered, leave chan struct{}
}

func (v *slowVolume) Mkdir(ctx context.Context, c *export.Cred, dir export.Object, name string, s *export.SetAttr) (export.Created, error) {
	close(v.entered)
	<-v.leave
	return v.Volume.Mkdir(ctx, c, dir, name, s)
}

// Readers see whole prefixes of a file that grows, and the end where it was.
func TestReadWhileTheFileGrows(t *testing.T) {
	dial := newSite(t).listen()
	w := dial().client("writer")
	open := func(c *dialed, how []any) (nfsv4.StateID, string) {
		r := c.run(root, c.with().add(nfsv4.OpPutRootFH).add(nfsv4.OpLookup, "data").
			add(nfsv4.OpOpen, join(openBy("o", 3, 0), how, byName("f"))...).add(nfsv4.OpGetFH))
		o := r.op(nfsv4.OpPutRootFH, nfsv4.OK).op(nfsv4.OpLookup, nfsv4.OK).op(nfsv4.OpOpen, nfsv4.OK).opened()
		return o.id, r.op(nfsv4.OpGetFH, nfsv4.OK).String("fh", 128)
	}
	id, fh := open(w, guarded(bitmap()))
	const steps, step = 50, 1000
	var wg sync.WaitGroup
	for i := range 16 {
		c := dial().client(fmt.Sprint("reader ", i))
		id, fh := open(c, noCreate())
		wg.Go(func() {
			for have := 0; have < steps*step; {
				r := c.run(root, c.with().add(nfsv4.OpPutFH, fh).add(nfsv4.OpRead, id, uint64(0), 1<<20)).
					op(nfsv4.OpPutFH, nfsv4.OK).op(nfsv4.OpRead, nfsv4.OK)
				eof, data := r.Bool("eof"), r.String("data", 1<<20)
				if !eof || len(data)%step != 0 || len(data) < have || strings.Trim(data, "x") != "" {
					t.Errorf("%d bytes after %d, eof %v", len(data), have, eof)
					return
				}
				have = len(data)
			}
		})
	}
	for i := range steps {
		w.run(root, w.with().add(nfsv4.OpPutFH, fh).add(nfsv4.OpWrite, id, uint64(i*step), nfsv4.Unstable, strings.Repeat("x", step))).
			op(nfsv4.OpPutFH, nfsv4.OK).op(nfsv4.OpWrite, nfsv4.OK)
	}
	wg.Wait()
}

type panicky struct {
	export.Volume
	panics bool
}

func (v *panicky) GetAttr(ctx context.Context, c *export.Cred, o export.Object, m export.AttrMask) (export.Attr, error) {
	if v.panics {
		panic("a fault of the Volume")
	}
	return v.Volume.GetAttr(ctx, c, o, m)
}

func TestNewChecksOptions(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("no exports are no error")
	}
	s := newSite(t)
	for _, minors := range [][]uint32{{0}, {1, 3}} {
		o := s.srv.opts
		o.MinorVersions = minors
		if _, err := New(o); err == nil {
			t.Errorf("minor versions %v are no error", minors)
		}
	}
	o := s.srv.opts
	o.MinorVersions, o.ServerOwner = nil, strings.Repeat("x", 1025)
	if _, err := New(o); err == nil {
		t.Error("a long owner is no error")
	}
	if low, high := s.srv.Versions(); s.srv.Number() != 100003 || low != 4 || high != 4 {
		t.Errorf("program %d, versions %d to %d", s.srv.Number(), low, high)
	}
	s.srv.minors[1] = false
	if r := s.do(root, newRequest(1).add(nfsv4.OpPutRootFH)); r.status != nfsv4.ErrMinorVersMismatch {
		t.Errorf("a minor version that is off: %v", r.status)
	}
}

// The cause of an IO goes to the log, once a second at most.
func TestFaultsAreLogged(t *testing.T) {
	s := newSite(t)
	var log bytes.Buffer
	s.srv.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s.srv.faults.Interval = time.Hour // longer than three calls take anywhere
	c := &compound{srv: s.srv}
	for range 3 {
		if st := c.statusOf(export.Wrap("read", "x", errors.New("the disk is on fire"))); st != nfsv4.ErrIO {
			t.Error(st)
		}
	}
	if n := strings.Count(log.String(), "the disk is on fire"); n != 1 {
		t.Errorf("%d lines: %s", n, log.String())
	}
}
