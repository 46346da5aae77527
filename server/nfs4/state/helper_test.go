package state

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
)

const (
	ok    = nfsv4.OK
	read  = AccessRead
	write = AccessWrite
	both  = AccessBoth
	none  = Access(0)
)

// world is a Store with a clock of its own over a fakeVolume.
type world struct {
	*testing.T
	s   *Store
	vol *fakeVolume
	log *lockedBuffer

	mu     sync.Mutex
	now    time.Time
	events []Event
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newWorld makes a world; when the test ends everything must be given back.
func newWorld(t *testing.T, set func(*Options)) *world {
	t.Helper()
	w := &world{T: t, vol: newFakeVolume(), log: &lockedBuffer{}, now: time.Unix(1000000000, 0)}
	o := Options{
		Lease: 90 * time.Second, Now: w.clock,
		Logger: slog.New(slog.NewTextHandler(w.log, nil)),
		OnEvent: func(e Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		},
	}
	if set != nil {
		set(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	w.s = s
	t.Cleanup(w.close)
	return w
}

func (w *world) close() {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := w.s.Close(ctx); err != nil {
		w.Fatal(err)
	}
	w.empty()
	if n := len(w.s.clients) + len(w.s.confirmed) + len(w.s.unconfirmed); n != 0 {
		w.Errorf("%d client records left", n)
	}
	if n := w.s.cacheInUse.Load(); n != 0 {
		w.Errorf("%d bytes of reply cache still counted", n)
	}
	for i := range w.s.sessions.shards {
		if m := *w.s.sessions.shards[i].m.Load(); len(m) != 0 {
			w.Errorf("sessions left: %v", m)
		}
	}
}

// empty checks that no file, lock or number is left anywhere.
func (w *world) empty() {
	w.Helper()
	if locks, open := w.vol.held(); locks+open != 0 {
		w.Errorf("the volume still has %d locks and %d open files", locks, open)
	}
	for i := range w.s.files.shards {
		sh := &w.s.files.shards[i]
		sh.mu.Lock()
		if len(sh.files) != 0 {
			w.Errorf("%d files left in the table", len(sh.files))
		}
		sh.mu.Unlock()
	}
	if n := w.s.numbers.len(); n != 0 {
		w.Errorf("%d lock-owner numbers left", n)
	}
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// happened counts the events of a kind.
func (w *world) happened(k EventKind) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Kind == k {
			n++
		}
	}
	return n
}

func (w *world) want(got, want nfsv4.Status, what string) {
	w.Helper()
	if got != want {
		w.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func addr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func exchangeArgs(owner string, verifier byte) *ExchangeIDArgs {
	return &ExchangeIDArgs{
		Owner: []byte(owner), Verifier: nfsv4.Verifier{verifier},
		Principal: Principal{Flavor: 1, Machine: "host"}, Addr: addr("192.0.2.1:700"),
	}
}

func usualChannel() ChannelAttrs {
	return ChannelAttrs{MaxRequest: 1 << 20, MaxResponse: 1 << 20, MaxResponseCached: 2048, MaxOperations: 8, MaxRequests: 16}
}

func createArgs(id nfsv4.ClientID, seq uint32) *CreateSessionArgs {
	return &CreateSessionArgs{ClientID: id, Sequence: seq, Fore: usualChannel(), Back: usualChannel(),
		Principal: Principal{Flavor: 1, Machine: "host"}}
}

// peer is a client with a session, using slot 0.
type peer struct {
	w   *world
	id  nfsv4.ClientID
	ses nfsv4.SessionID
	seq uint32
}

// connect brings a client up: EXCHANGE_ID, CREATE_SESSION, RECLAIM_COMPLETE.
func (w *world) connect(owner string, verifier byte) *peer {
	w.Helper()
	r, st := w.s.ExchangeID(exchangeArgs(owner, verifier))
	w.want(st, ok, "EXCHANGE_ID")
	cs, st := w.s.CreateSession(context.Background(), createArgs(r.ClientID, r.Sequence))
	w.want(st, ok, "CREATE_SESSION")
	p := &peer{w: w, id: r.ClientID, ses: cs.Session}
	p.do(func(c *Client) { w.want(c.ReclaimComplete(false), ok, "RECLAIM_COMPLETE") })
	return p
}

// sequence sends SEQUENCE on slot 0.
func (p *peer) sequence(u *SlotUse) nfsv4.Status {
	st := p.w.s.Sequence(&SequenceArgs{Session: p.ses, Sequence: p.seq + 1}, u)
	if st == ok {
		p.seq++
	}
	return st
}

// do runs f as a COMPOUND of p.
func (p *peer) do(f func(*Client)) {
	p.w.Helper()
	var u SlotUse
	p.w.want(p.sequence(&u), ok, "SEQUENCE")
	defer u.Finish(nil)
	f(u.Client())
}

func (p *peer) alive() bool {
	var u SlotUse
	st := p.sequence(&u)
	u.Finish(nil)
	return st == ok
}

func key(ino uint64) FileKey { return FileKey{Export: 1, Object: export.Live(ino)} }

// open is OPEN by an owner.
func (p *peer) open(owner string, k FileKey, access, deny Access) (id nfsv4.StateID, st nfsv4.Status) {
	p.w.Helper()
	p.do(func(c *Client) { id, st = p.w.openAs(c, owner, k, access, deny) })
	return id, st
}

func (w *world) openAs(c *Client, owner string, k FileKey, access, deny Access) (nfsv4.StateID, nfsv4.Status) {
	po, st := c.BeginOpen(context.Background(), &OpenArgs{Owner: []byte(owner), Key: k, Access: access, Deny: deny})
	if st != ok {
		return nfsv4.StateID{}, st
	}
	defer po.Abort()
	return po.Commit(w.vol.file(k.Object, access))
}

func (p *peer) mustOpen(owner string, k FileKey, access, deny Access) nfsv4.StateID {
	p.w.Helper()
	id, st := p.open(owner, k, access, deny)
	p.w.want(st, ok, "OPEN")
	return id
}

func (p *peer) close(id nfsv4.StateID, k FileKey) (st nfsv4.Status) {
	p.w.Helper()
	p.do(func(c *Client) { _, st = c.Close(context.Background(), id, k) })
	return st
}

// lock is LOCK by a new lock-owner through an open.
func (p *peer) lock(owner string, open nfsv4.StateID, k FileKey, r LockRange) (id nfsv4.StateID, d *LockDenied, st nfsv4.Status) {
	p.w.Helper()
	p.do(func(c *Client) {
		id, d, st = c.Lock(context.Background(), &LockArgs{Key: k, Range: r, NewOwner: true, StateID: open, Owner: []byte(owner)})
	})
	return id, d, st
}

// relock is LOCK by a lock stateid.
func (p *peer) relock(id nfsv4.StateID, k FileKey, r LockRange) (newID nfsv4.StateID, d *LockDenied, st nfsv4.Status) {
	p.w.Helper()
	p.do(func(c *Client) {
		newID, d, st = c.Lock(context.Background(), &LockArgs{Key: k, Range: r, StateID: id})
	})
	return newID, d, st
}

func (p *peer) unlock(id nfsv4.StateID, k FileKey, r LockRange) (newID nfsv4.StateID, st nfsv4.Status) {
	p.w.Helper()
	p.do(func(c *Client) { newID, st = c.LockU(context.Background(), id, k, r) })
	return newID, st
}

func (p *peer) use(id nfsv4.StateID, k FileKey, want Access) (st nfsv4.Status) {
	p.w.Helper()
	p.do(func(c *Client) {
		var u FileUse
		u, st = c.Use(context.Background(), id, k, want)
		u.Release()
	})
	return st
}

func (p *peer) test(ids ...nfsv4.StateID) []nfsv4.Status {
	p.w.Helper()
	out := make([]nfsv4.Status, len(ids))
	p.do(func(c *Client) { c.TestStateIDs(ids, out) })
	return out
}

func (p *peer) free(id nfsv4.StateID) (st nfsv4.Status) {
	p.w.Helper()
	p.do(func(c *Client) { st = c.FreeStateID(context.Background(), id) })
	return st
}

func newestOf(id nfsv4.StateID) nfsv4.StateID { id.Seq = 0; return id }

func count(log, text string) int { return strings.Count(log, text) }
