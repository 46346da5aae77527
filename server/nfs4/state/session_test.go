package state

import (
	"context"
	"testing"
	"time"

	"capstan/server/nfs4/nfsv4"
)

func TestCreateSessionSequence(t *testing.T) { // RFC 8881 section 18.36.4, phases 1 and 2
	w := newWorld(t, nil)
	ctx := context.Background()
	_, st := w.s.CreateSession(ctx, createArgs(99, 1))
	w.want(st, nfsv4.ErrStaleClientID, "unknown client id")
	r, _ := w.s.ExchangeID(exchangeArgs("a", 1))
	_, st = w.s.CreateSession(ctx, createArgs(r.ClientID, r.Sequence-1))
	w.want(st, nfsv4.ErrSeqMisordered, "the contrived cached result")
	_, st = w.s.CreateSession(ctx, createArgs(r.ClientID, r.Sequence+1))
	w.want(st, nfsv4.ErrSeqMisordered, "one ahead")
	first, st := w.s.CreateSession(ctx, createArgs(r.ClientID, r.Sequence))
	w.want(st, ok, "first")
	again, st := w.s.CreateSession(ctx, createArgs(r.ClientID, r.Sequence))
	w.want(st, ok, "retry")
	if again != first {
		t.Errorf("the retry made %+v of %+v", again, first)
	}
	second, st := w.s.CreateSession(ctx, createArgs(r.ClientID, r.Sequence+1))
	w.want(st, ok, "second session")
	if second.Session == first.Session || second.Sequence != r.Sequence+1 {
		t.Errorf("second session %+v", second)
	}
	_, st = w.s.CreateSession(ctx, createArgs(r.ClientID, r.Sequence))
	w.want(st, nfsv4.ErrSeqMisordered, "an older one")
}

func TestCreateSessionCachesErrors(t *testing.T) { // 18.36.4: the slot moves before phase 3
	w := newWorld(t, nil)
	r, _ := w.s.ExchangeID(exchangeArgs("a", 1))
	bad := createArgs(r.ClientID, r.Sequence)
	bad.Flags = 0x100
	for range 2 {
		_, st := w.s.CreateSession(context.Background(), bad)
		w.want(st, nfsv4.ErrInval, "unknown flag")
	}
	_, st := w.s.CreateSession(context.Background(), createArgs(r.ClientID, r.Sequence))
	w.want(st, nfsv4.ErrInval, "the same sequence is a retry")
	_, st = w.s.CreateSession(context.Background(), createArgs(r.ClientID, r.Sequence+1))
	w.want(st, ok, "the next one")
}

func TestCreateSessionPrincipal(t *testing.T) { // 18.36.4, phase 3
	w := newWorld(t, nil)
	ctx := context.Background()
	r, _ := w.s.ExchangeID(exchangeArgs("a", 1))
	other := createArgs(r.ClientID, r.Sequence)
	other.Principal.UID = 5
	_, st := w.s.CreateSession(ctx, other)
	w.want(st, nfsv4.ErrClIDInUse, "confirmation by somebody else")
	_, st = w.s.CreateSession(ctx, createArgs(r.ClientID, r.Sequence+1))
	w.want(st, ok, "confirmation")
	other.Sequence = r.Sequence + 2
	_, st = w.s.CreateSession(ctx, other)
	w.want(st, ok, "a further session, no state protection")
}

func TestCreateSessionChannel(t *testing.T) { // 18.36.3
	w := newWorld(t, nil)
	r, _ := w.s.ExchangeID(exchangeArgs("a", 1))
	seq := r.Sequence
	try := func(set func(*CreateSessionArgs)) (CreateSessionResult, nfsv4.Status) {
		a := createArgs(r.ClientID, seq)
		set(a)
		seq++
		return w.s.CreateSession(context.Background(), a)
	}
	huge := ChannelAttrs{HeaderPad: 8, MaxRequest: 1 << 30, MaxResponse: 1 << 30, MaxResponseCached: 1 << 30, MaxOperations: 1 << 20, MaxRequests: 1 << 20}
	got, st := try(func(a *CreateSessionArgs) {
		a.Fore, a.Back, a.Flags = huge, huge, nfsv4.SessionPersist|nfsv4.SessionConnBackCh|nfsv4.SessionConnRDMA
	})
	w.want(st, ok, "a client that asks for everything")
	want := ChannelAttrs{MaxRequest: 1<<20 + 64<<10, MaxResponse: 1<<20 + 64<<10, MaxResponseCached: 4096, MaxOperations: 128, MaxRequests: 64}
	if got.Fore != want {
		t.Errorf("fore channel %+v", got.Fore)
	}
	back := huge
	back.HeaderPad = 0
	if got.Back != back || got.Flags != nfsv4.SessionConnBackCh {
		t.Errorf("back channel %+v flags %x", got.Back, got.Flags)
	}
	small := ChannelAttrs{MaxRequest: 1024, MaxResponse: 512, MaxResponseCached: 4096, MaxOperations: 2, MaxRequests: 1}
	got, st = try(func(a *CreateSessionArgs) { a.Fore = small })
	w.want(st, ok, "a client that asks for little")
	small.MaxResponseCached = 512
	if got.Fore != small || got.Flags != 0 {
		t.Errorf("fore channel %+v flags %x", got.Fore, got.Flags)
	}
	for name, c := range map[string]struct {
		set  func(*CreateSessionArgs)
		want nfsv4.Status
	}{
		"request":           {func(a *CreateSessionArgs) { a.Fore.MaxRequest = 20 }, nfsv4.ErrTooSmall},
		"response":          {func(a *CreateSessionArgs) { a.Fore.MaxResponse = 0 }, nfsv4.ErrTooSmall},
		"operations":        {func(a *CreateSessionArgs) { a.Fore.MaxOperations = 0 }, nfsv4.ErrTooSmall},
		"slots":             {func(a *CreateSessionArgs) { a.Fore.MaxRequests = 0 }, nfsv4.ErrInval},
		"back channel":      {func(a *CreateSessionArgs) { a.Flags, a.Back.MaxOperations = 2, 1 }, nfsv4.ErrTooSmall},
		"no back channel":   {func(a *CreateSessionArgs) { a.Back = ChannelAttrs{} }, ok},
		"nothing is cached": {func(a *CreateSessionArgs) { a.Fore.MaxResponseCached = 0 }, ok},
	} {
		_, st := try(c.set)
		w.want(st, c.want, name)
	}
}

func TestSessionsPerClientAreBounded(t *testing.T) { // 18.36.4, phase 4
	w := newWorld(t, func(o *Options) { o.Limits.MaxSessions = 3 })
	r, _ := w.s.ExchangeID(exchangeArgs("a", 1))
	for i := range uint32(3) {
		_, st := w.s.CreateSession(context.Background(), createArgs(r.ClientID, r.Sequence+i))
		w.want(st, ok, "CREATE_SESSION")
	}
	_, st := w.s.CreateSession(context.Background(), createArgs(r.ClientID, r.Sequence+3))
	w.want(st, nfsv4.ErrNoSpc, "one too many")
}

func TestDestroySession(t *testing.T) { // 18.37
	w := newWorld(t, nil)
	r, _ := w.s.ExchangeID(exchangeArgs("a", 1))
	conn, stranger := NewConn(1, addr("192.0.2.1:1")), NewConn(2, addr("192.0.2.1:2"))
	args := createArgs(r.ClientID, r.Sequence)
	args.Conn = conn
	cs, _ := w.s.CreateSession(context.Background(), args)

	w.want(w.s.DestroySession(nfsv4.SessionID{1}, conn, nil), nfsv4.ErrBadSession, "unknown session")
	w.want(w.s.DestroySession(cs.Session, stranger, nil), nfsv4.ErrConnNotBoundToSession, "over a strange connection")
	var running, u SlotUse
	w.want(w.s.Sequence(&SequenceArgs{Session: cs.Session, Slot: 5, HighestSlot: 5, Sequence: 1, CacheThis: true, Conn: conn}, &running), ok, "SEQUENCE")
	w.want(w.s.DestroySession(cs.Session, conn, nil), ok, "while a request runs")
	w.want(w.s.Sequence(&SequenceArgs{Session: cs.Session, Sequence: 1, Conn: conn}, &u), nfsv4.ErrBadSession, "SEQUENCE afterwards")
	running.Finish([]byte("reply"))
	if len(conn.sessions) != 0 {
		t.Error("the connection is still bound")
	}
	w.want(w.s.DestroySession(cs.Session, conn, nil), nfsv4.ErrBadSession, "again")
	// The client id, its lease and state are not affected.
	_, st := w.s.CreateSession(context.Background(), createArgs(r.ClientID, r.Sequence+1))
	w.want(st, ok, "another session")
}

func TestConnections(t *testing.T) { // 2.10.3.1, 18.34
	w := newWorld(t, func(o *Options) { o.Limits.MaxConns = 4 })
	p := w.connect("a", 1)
	ses := w.s.sessions.get(p.ses)
	seq := func(c *Conn) {
		t.Helper()
		var u SlotUse
		p.seq++
		w.want(w.s.Sequence(&SequenceArgs{Session: p.ses, Sequence: p.seq, Conn: c}, &u), ok, "SEQUENCE")
		u.Finish(nil)
	}
	conns := func() int { return len(ses.status().Conns) }
	a := NewConn(1, addr("192.0.2.1:1"))
	seq(a)
	seq(a)
	if conns() != 1 {
		t.Errorf("%d connections after SEQUENCE on a new one", conns())
	}
	b := NewConn(2, addr("192.0.2.1:2"))
	for _, c := range []struct{ ask, get uint32 }{
		{nfsv4.BindBack, nfsv4.BindBack},
		{nfsv4.BindForeOrBoth, nfsv4.BindBoth},
		{nfsv4.BindFore, nfsv4.BindBoth},
	} {
		got, st := w.s.BindConn(p.ses, b, c.ask)
		w.want(st, ok, "BIND_CONN_TO_SESSION")
		if got != c.get {
			t.Errorf("asked for %d, got %d, want %d", c.ask, got, c.get)
		}
	}
	if !ses.status().BackChannel {
		t.Error("no back channel")
	}
	_, st := w.s.BindConn(p.ses, b, 9)
	w.want(st, nfsv4.ErrInval, "no direction")
	_, st = w.s.BindConn(nfsv4.SessionID{}, b, nfsv4.BindFore)
	w.want(st, nfsv4.ErrBadSession, "no session")
	b.Close()
	b.Close()
	if conns() != 1 || ses.status().BackChannel {
		t.Error("a lost connection is still bound")
	}
	seq(b) // a request read before the connection was lost
	if conns() != 1 {
		t.Error("a lost connection was bound again")
	}
	var all []*Conn
	for i := range uint64(10) {
		c := NewConn(10+i, addr("192.0.2.1:9"))
		seq(c)
		all = append(all, c)
	}
	if conns() != 4 || len(all[0].sessions) != 0 || len(all[9].sessions) != 1 {
		t.Errorf("%d connections, first bound to %d", conns(), len(all[0].sessions))
	}
}

func TestBackchannelCtl(t *testing.T) { // 18.33
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	var u SlotUse
	w.want(p.sequence(&u), ok, "SEQUENCE")
	w.want(u.Session().BackchannelCtl(7, nil), nfsv4.ErrInval, "no flavor")
	w.want(u.Session().BackchannelCtl(7, []CallbackSec{{Flavor: 1, UID: 3}}), ok, "BACKCHANNEL_CTL")
	if s := u.Session(); s.cbProgram != 7 || s.cbSec[0].UID != 3 {
		t.Errorf("kept %d %v", s.cbProgram, s.cbSec)
	}
	u.Finish(nil)
}

// A Volume that hangs under the locks of a restarted client holds up that
// client's CREATE_SESSION until its request ends, and nobody else.
func TestCreateSessionWithHangingVolume(t *testing.T) {
	w := newWorld(t, nil)
	other := w.connect("b", 1)
	p := w.connect("a", 1)
	p.mustOpen("o", key(1), read, none)
	hang, entered := make(chan struct{}), make(chan struct{})
	w.vol.setGate(func(string) { close(entered); <-hang })
	r, _ := w.s.ExchangeID(exchangeArgs("a", 2))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan nfsv4.Status)
	go func() {
		_, st := w.s.CreateSession(ctx, createArgs(r.ClientID, r.Sequence))
		done <- st
	}()
	<-entered
	for range 3 {
		if !other.alive() {
			t.Fatal("another client's SEQUENCE fails")
		}
		_, st := w.s.ExchangeID(exchangeArgs("c", 1))
		w.want(st, ok, "EXCHANGE_ID of a third")
	}
	cancel()
	w.want(<-done, ok, "CREATE_SESSION")
	w.vol.setGate(nil)
	close(hang)
	w.advance(time.Second)
}
