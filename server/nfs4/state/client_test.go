package state

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"capstan/server/nfs4/nfsv4"
)

// The cases of RFC 8881 section 18.35.4, by number.

func TestExchangeIDNewOwner(t *testing.T) { // 1
	w := newWorld(t, nil)
	a, st := w.s.ExchangeID(exchangeArgs("a", 1))
	w.want(st, ok, "EXCHANGE_ID")
	if a.Flags != nfsv4.ExchangeUseNonPNFS || a.Sequence != 1 {
		t.Errorf("flags %x, sequence %d", a.Flags, a.Sequence)
	}
	if got := uint32(a.ClientID >> 32); got != w.s.Instance().ID {
		t.Errorf("client id %x lacks the instance", a.ClientID)
	}
	b, _ := w.s.ExchangeID(exchangeArgs("b", 1))
	if a.ClientID == b.ClientID {
		t.Error("two owners, one client id")
	}
}

func TestExchangeIDNonUpdateOnConfirmed(t *testing.T) { // 2
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	args := exchangeArgs("a", 1)
	args.Addr = addr("192.0.2.9:700") // another connection is no other client
	r, st := w.s.ExchangeID(args)
	w.want(st, ok, "EXCHANGE_ID again")
	if r.ClientID != p.id || r.Flags&nfsv4.ExchangeConfirmed == 0 {
		t.Errorf("got %x flags %x, want %x, confirmed", r.ClientID, r.Flags, p.id)
	}
	if !p.alive() {
		t.Error("the session is gone")
	}
}

func TestExchangeIDCollision(t *testing.T) { // 3
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	other := exchangeArgs("a", 2)
	other.Principal.UID = 7
	other.Addr = addr("192.0.2.2:800")

	id := p.mustOpen("o", key(1), read, none)
	_, st := w.s.ExchangeID(other)
	w.want(st, nfsv4.ErrClIDInUse, "EXCHANGE_ID while the other has state")
	if !p.alive() {
		t.Error("the holder lost its session")
	}
	w.want(p.close(id, key(1)), ok, "CLOSE")
	r, st := w.s.ExchangeID(other)
	w.want(st, ok, "EXCHANGE_ID once it has none")
	if r.ClientID == p.id || r.Flags&nfsv4.ExchangeConfirmed != 0 {
		t.Errorf("got %x flags %x", r.ClientID, r.Flags)
	}
	if p.alive() {
		t.Error("the old record was not deleted")
	}
}

func TestExchangeIDCollisionWithExpired(t *testing.T) { // 3
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	p.mustOpen("o", key(1), read, none)
	w.advance(91 * time.Second)
	other := exchangeArgs("a", 1)
	other.Principal.Machine = "elsewhere"
	_, st := w.s.ExchangeID(other)
	w.want(st, ok, "EXCHANGE_ID after the lease")
	if p.alive() {
		t.Error("the old record was not deleted")
	}
}

func TestExchangeIDReplacesUnconfirmed(t *testing.T) { // 4
	w := newWorld(t, nil)
	a, _ := w.s.ExchangeID(exchangeArgs("a", 1))
	b, st := w.s.ExchangeID(exchangeArgs("a", 1))
	w.want(st, ok, "EXCHANGE_ID again")
	if a.ClientID == b.ClientID {
		t.Error("the client id is the old one")
	}
	_, st = w.s.CreateSession(context.Background(), createArgs(a.ClientID, a.Sequence))
	w.want(st, nfsv4.ErrStaleClientID, "CREATE_SESSION of the replaced one")
}

func TestExchangeIDRestart(t *testing.T) { // 5
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	open := p.mustOpen("o", key(1), both, both)
	_, _, st := p.lock("l", open, key(1), LockRange{Write: true, Length: 10})
	w.want(st, ok, "LOCK")
	r, st := w.s.ExchangeID(exchangeArgs("a", 2))
	w.want(st, ok, "EXCHANGE_ID of the new incarnation")
	if r.ClientID == p.id || r.Flags&nfsv4.ExchangeConfirmed != 0 {
		t.Errorf("got %x flags %x", r.ClientID, r.Flags)
	}
	if !p.alive() {
		t.Fatal("the old incarnation went before the new one was confirmed")
	}
	if locks, open := w.vol.held(); locks != 1 || open != 1 {
		t.Fatalf("%d locks, %d open", locks, open)
	}
	// A CREATE_SESSION that fails changes nothing.
	bad := createArgs(r.ClientID, r.Sequence)
	bad.Fore.MaxRequest = 10
	_, st = w.s.CreateSession(context.Background(), bad)
	w.want(st, nfsv4.ErrTooSmall, "CREATE_SESSION of no use")
	if !p.alive() {
		t.Fatal("the old incarnation went with a failed CREATE_SESSION")
	}
	_, st = w.s.CreateSession(context.Background(), createArgs(r.ClientID, r.Sequence+1))
	w.want(st, ok, "CREATE_SESSION")
	if p.alive() {
		t.Error("the old incarnation is still there")
	}
	w.empty()
	if w.happened(ClientReplaced) != 1 || w.happened(ClientArrived) != 2 {
		t.Errorf("events %v", w.events)
	}
}

func TestExchangeIDUpdate(t *testing.T) { // 6 to 9
	w := newWorld(t, nil)
	update := func(owner string, v byte) *ExchangeIDArgs {
		a := exchangeArgs(owner, v)
		a.Flags = nfsv4.ExchangeUpdConfirmed
		return a
	}
	_, st := w.s.ExchangeID(update("a", 1))
	w.want(st, nfsv4.ErrNoEnt, "update of nothing")
	u, _ := w.s.ExchangeID(exchangeArgs("a", 1))
	_, st = w.s.ExchangeID(update("a", 1))
	w.want(st, nfsv4.ErrNoEnt, "update of an unconfirmed record")
	_, st = w.s.CreateSession(context.Background(), createArgs(u.ClientID, u.Sequence))
	w.want(st, ok, "CREATE_SESSION: the unconfirmed record is intact")

	r, st := w.s.ExchangeID(update("a", 1))
	w.want(st, ok, "update")
	if r.ClientID != u.ClientID || r.Flags&nfsv4.ExchangeConfirmed == 0 {
		t.Errorf("got %+v", r)
	}
	_, st = w.s.ExchangeID(update("a", 2))
	w.want(st, nfsv4.ErrNotSame, "update with another verifier")
	wrong := update("a", 1)
	wrong.Principal.UID = 5
	_, st = w.s.ExchangeID(wrong)
	w.want(st, nfsv4.ErrPerm, "update by another principal")
	wrong.Verifier = nfsv4.Verifier{9}
	_, st = w.s.ExchangeID(wrong)
	w.want(st, nfsv4.ErrNotSame, "update with neither")
}

func TestExchangeIDArguments(t *testing.T) { // 18.35.3
	w := newWorld(t, nil)
	for name, c := range map[string]struct {
		set  func(*ExchangeIDArgs)
		want nfsv4.Status
	}{
		"flag of the reply":  {func(a *ExchangeIDArgs) { a.Flags = nfsv4.ExchangeConfirmed }, nfsv4.ErrInval},
		"unknown flag":       {func(a *ExchangeIDArgs) { a.Flags = 0x2000 }, nfsv4.ErrInval},
		"machine credential": {func(a *ExchangeIDArgs) { a.Protect = nfsv4.ProtectMachCred }, nfsv4.ErrInval},
		"ssv":                {func(a *ExchangeIDArgs) { a.Protect = nfsv4.ProtectSSV }, nfsv4.ErrHashAlgUnsupp},
		"unknown protection": {func(a *ExchangeIDArgs) { a.Protect = 3 }, nfsv4.ErrInval},
		"no owner":           {func(a *ExchangeIDArgs) { a.Owner = nil }, nfsv4.ErrInval},
		"long owner":         {func(a *ExchangeIDArgs) { a.Owner = bytes.Repeat([]byte{1}, 1025) }, nfsv4.ErrInval},
		"longest owner":      {func(a *ExchangeIDArgs) { a.Owner = bytes.Repeat([]byte{1}, 1024) }, ok},
	} {
		a := exchangeArgs("x", 1)
		c.set(a)
		_, st := w.s.ExchangeID(a)
		w.want(st, c.want, name)
	}
}

func TestExchangeIDUnconfirmedIsBounded(t *testing.T) { // 18.35.4: removed within a lease
	w := newWorld(t, func(o *Options) { o.Limits.MaxUnconfirmed = 10 })
	var last ExchangeIDResult
	for i := range 100 {
		last, _ = w.s.ExchangeID(exchangeArgs(fmt.Sprint(i), 1))
		w.advance(time.Second / 10)
	}
	if n := len(w.s.unconfirmed); n != 10 || len(w.s.clients) != 10 {
		t.Errorf("%d unconfirmed records, %d records", n, len(w.s.clients))
	}
	w.advance(91 * time.Second)
	w.s.Sweep()
	if n := len(w.s.clients); n != 0 {
		t.Errorf("%d records after a lease", n)
	}
	_, st := w.s.CreateSession(context.Background(), createArgs(last.ClientID, last.Sequence))
	w.want(st, nfsv4.ErrStaleClientID, "CREATE_SESSION too late")
}

func TestClientsAreBounded(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.MaxClients = 3 })
	var ps []*peer
	for i := range 3 {
		p := w.connect(fmt.Sprint("c", i), 1)
		p.mustOpen("o", key(uint64(i)), read, none)
		ps = append(ps, p)
		w.advance(time.Second)
	}
	r, _ := w.s.ExchangeID(exchangeArgs("d", 1))
	_, st := w.s.CreateSession(context.Background(), createArgs(r.ClientID, r.Sequence))
	w.want(st, nfsv4.ErrDelay, "CREATE_SESSION of one too many")
	w.advance(60 * time.Second)
	ps[1].alive()
	w.advance(60 * time.Second) // 0 and 2 have expired, 0 first
	r, _ = w.s.ExchangeID(exchangeArgs("d", 1))
	_, st = w.s.CreateSession(context.Background(), createArgs(r.ClientID, r.Sequence))
	w.want(st, ok, "CREATE_SESSION once somebody has expired")
	if ps[0].alive() || !ps[1].alive() || !ps[2].alive() {
		t.Error("not the client that expired first went")
	}
}

func TestDestroyClientID(t *testing.T) { // 18.50
	w := newWorld(t, nil)
	w.want(w.s.DestroyClientID(12345), nfsv4.ErrStaleClientID, "unknown")
	u, _ := w.s.ExchangeID(exchangeArgs("u", 1))
	w.want(w.s.DestroyClientID(u.ClientID), ok, "unconfirmed")
	w.want(w.s.DestroyClientID(u.ClientID), nfsv4.ErrStaleClientID, "again")

	p := w.connect("a", 1)
	id := p.mustOpen("o", key(1), read, none)
	w.want(w.s.DestroyClientID(p.id), nfsv4.ErrClientIDBusy, "with session and open")
	w.want(p.close(id, key(1)), ok, "CLOSE")
	w.want(w.s.DestroyClientID(p.id), nfsv4.ErrClientIDBusy, "with session")
	var u2 SlotUse
	w.want(p.sequence(&u2), ok, "SEQUENCE")
	w.want(w.s.DestroySession(p.ses, nil, &u2), ok, "DESTROY_SESSION from within")
	u2.Finish([]byte("reply"))
	w.want(w.s.DestroyClientID(p.id), ok, "with nothing")
	if w.happened(ClientLeft) != 1 || w.happened(ClientDiscarded) != 0 {
		t.Errorf("events %v", w.events)
	}
}

func TestDestroyClientIDWithStateAndNoSession(t *testing.T) { // 18.50
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	p.mustOpen("o", key(1), read, none)
	var u SlotUse
	w.want(p.sequence(&u), ok, "SEQUENCE")
	w.want(w.s.DestroySession(p.ses, nil, &u), ok, "DESTROY_SESSION")
	u.Finish(nil)
	w.want(w.s.DestroyClientID(p.id), nfsv4.ErrClientIDBusy, "with an open")
}

func TestReclaimComplete(t *testing.T) { // 18.51
	w := newWorld(t, nil)
	r, _ := w.s.ExchangeID(exchangeArgs("a", 1))
	cs, _ := w.s.CreateSession(context.Background(), createArgs(r.ClientID, r.Sequence))
	p := &peer{w: w, id: r.ClientID, ses: cs.Session}
	_, st := p.open("o", key(1), read, none)
	w.want(st, nfsv4.ErrGrace, "OPEN before RECLAIM_COMPLETE")
	p.do(func(c *Client) {
		_, st := c.BeginOpen(context.Background(), &OpenArgs{Owner: []byte("o"), Key: key(1), Access: read, Reclaim: true})
		w.want(st, nfsv4.ErrNoGrace, "reclaim")
		w.want(c.ReclaimComplete(true), ok, "one filesystem")
		w.want(c.ReclaimComplete(false), ok, "all")
		w.want(c.ReclaimComplete(false), nfsv4.ErrCompleteAlready, "again")
		_, st = c.BeginOpen(context.Background(), &OpenArgs{Owner: []byte("o"), Key: key(1), Access: read, Reclaim: true})
		w.want(st, nfsv4.ErrNoGrace, "reclaim after RECLAIM_COMPLETE")
	})
	p.mustOpen("o", key(1), read, none)
}

// Two machines of one name and one principal take turns: by the letter each is
// the other restarted. The log names both, once a minute.
func TestTwoMachinesOfOneName(t *testing.T) { // 18.35.4 case 5
	w := newWorld(t, nil)
	third := w.connect("third", 1)
	for i := range 120 {
		a := exchangeArgs("twin", byte(1+i%2))
		a.Addr = addr([]string{"192.0.2.1:700", "192.0.2.2:700"}[i%2])
		r, st := w.s.ExchangeID(a)
		w.want(st, ok, "EXCHANGE_ID")
		_, st = w.s.CreateSession(context.Background(), createArgs(r.ClientID, r.Sequence))
		w.want(st, ok, "CREATE_SESSION")
		if !third.alive() {
			t.Fatal("a third client suffers")
		}
		w.advance(time.Second)
	}
	log := w.log.String()
	if n := count(log, "two machines"); n < 1 || n > 3 {
		t.Errorf("%d warnings in two minutes", n)
	}
	if count(log, "first=192.0.2.1:700 second=192.0.2.2:700") == 0 {
		t.Errorf("the log does not name both addresses:\n%s", log)
	}
	if len(w.s.clients) != 2 {
		t.Errorf("%d records", len(w.s.clients))
	}
}

func TestTwoMachinesOfOneNameRefused(t *testing.T) { // 18.35.4 case 3
	w := newWorld(t, nil)
	p := w.connect("twin", 1)
	p.mustOpen("o", key(1), read, none)
	other := exchangeArgs("twin", 2)
	other.Principal.UID, other.Addr = 1, addr("192.0.2.2:800")
	for range 120 {
		_, st := w.s.ExchangeID(other)
		w.want(st, nfsv4.ErrClIDInUse, "EXCHANGE_ID")
		w.advance(time.Second)
		if !p.alive() {
			t.Fatal("the holder lost its session")
		}
	}
	if n := count(w.log.String(), "the second was refused"); n != 2 {
		t.Errorf("%d warnings in two minutes, want 2", n)
	}
}

func TestInstancesDiffer(t *testing.T) {
	seen := map[uint32]bool{}
	verifiers := map[nfsv4.Verifier]bool{}
	for range 200 { // all within one second
		i, err := NewInstance(newZero())
		if err != nil {
			t.Fatal(err)
		}
		verifiers[i.Verifier] = true
		s, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		seen[s.Instance().ID] = true
		s.Close(context.Background())
	}
	if len(seen) != 200 {
		t.Errorf("200 starts, %d instances", len(seen))
	}
	if len(verifiers) != 200 {
		t.Errorf("without randomness %d verifiers of 200 starts", len(verifiers))
	}
}

type zero struct{}

func newZero() zero { return zero{} }

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }
