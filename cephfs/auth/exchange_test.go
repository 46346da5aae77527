package auth_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"capstan/cephfs/auth"
	"capstan/cephfs/cephtest"
	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

var user = denc.EntityName{Type: denc.TypeClient, ID: "cap"}

func newClient(t testing.TB, o auth.Options) *auth.Client {
	t.Helper()
	if o.Name == (denc.EntityName{}) {
		o.Name = user
	}
	c, err := auth.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// handshake carries out one authentication between a client's session and a
// daemon's, as the messengers of both would.
func handshake(t testing.TB, s msgr.AuthSession, d *cephtest.CephxSession) error {
	t.Helper()
	method, modes, payload, err := s.Request()
	if err != nil {
		return err
	}
	r := d.Request(method, modes, payload)
	for range 3 {
		switch {
		case r.Result != 0:
			err := s.BadMethod(method, r.Result, []uint32{auth.MethodCephx}, []msgr.AuthMode{msgr.ModeCRC, msgr.ModeSecure})
			if err == nil {
				t.Fatal("a refusal was taken as none")
			}
			return err
		case r.More:
			if payload, err = s.ReplyMore(r.Payload); err != nil {
				return err
			}
			r = d.More(payload)
		default:
			key, secret, err := s.Done(r.GlobalID, r.Mode, r.Payload)
			if err != nil {
				return err
			}
			if !bytes.Equal(key, r.SessionKey) || !bytes.Equal(secret, r.Secret) {
				t.Fatalf("the sides disagree about key or secret")
			}
			return nil
		}
	}
	t.Fatal("no end of challenges")
	return nil
}

func begin(t testing.TB, c *auth.Client, peer denc.EntityType) msgr.AuthSession {
	t.Helper()
	s, err := c.Begin(peer)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func login(t testing.TB, c *auth.Client, x *cephtest.Cephx) error {
	t.Helper()
	return handshake(t, begin(t, c, denc.TypeMon), x.Session(denc.TypeMon))
}

var everyService = []denc.EntityType{denc.TypeOSD, denc.TypeMDS, denc.TypeMgr}

func TestCephx(t *testing.T) {
	for _, kind := range []auth.KeyType{auth.KeyAES, auth.KeyAES256K} {
		for _, mode := range []msgr.AuthMode{msgr.ModeCRC, msgr.ModeSecure} {
			x := cephtest.NewCephx(kind)
			modes := []msgr.AuthMode{mode}
			c := newClient(t, auth.Options{Key: x.AddUser(user), MonModes: modes, ServiceModes: modes})
			if _, err := c.Begin(denc.TypeOSD); !errors.Is(err, auth.ErrNoTicket) {
				t.Errorf("before the first session: %v", err)
			}
			if err := login(t, c, x); err != nil {
				t.Fatalf("%v %v: %v", kind, mode, err)
			}
			id := c.GlobalID()
			for _, s := range everyService {
				if err := handshake(t, begin(t, c, s), x.Session(s)); err != nil {
					t.Errorf("%v %v %v: %v", kind, mode, s, err)
				}
			}
			// Once more, with the old ticket and id.
			if err := login(t, c, x); err != nil || c.GlobalID() != id || id == 0 {
				t.Errorf("%v %v: again: %v, id %d after %d", kind, mode, err, c.GlobalID(), id)
			}
			if err := handshake(t, begin(t, c, denc.TypeOSD), x.Session(denc.TypeOSD)); err != nil {
				t.Errorf("%v %v: %v", kind, mode, err)
			}
		}
	}
}

// Keys of either type may meet: an old key in a cluster of release 20, or one
// that was made anew in a cluster that still seals tickets the old way.
func TestMixedKeys(t *testing.T) {
	for mine, theirs := range map[auth.KeyType]auth.KeyType{auth.KeyAES: auth.KeyAES256K, auth.KeyAES256K: auth.KeyAES} {
		x := cephtest.NewCephx(theirs)
		x.AddUser(user)
		key, _ := auth.NewKey(mine)
		x.User(user, func(u *cephtest.CephxUser) { u.Key = key })
		c := newClient(t, auth.Options{Key: key})
		for range 2 {
			if err := login(t, c, x); err != nil {
				t.Fatalf("%v: %v", mine, err)
			}
			if err := handshake(t, begin(t, c, denc.TypeOSD), x.Session(denc.TypeOSD)); err != nil {
				t.Errorf("%v: %v", mine, err)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	x := cephtest.NewCephx(auth.KeyAES)
	key := x.AddUser(user)
	wrong, _ := auth.NewKey(auth.KeyAES)
	check := func(name string, err error) {
		t.Helper()
		var e *auth.Error
		if !errors.Is(err, auth.ErrRefused) || !errors.Is(err, syscall.EACCES) || !errors.Is(err, msgr.ErrPermanent) ||
			!errors.As(err, &e) || e.Peer != denc.TypeMon {
			t.Errorf("%s: %v", name, err)
		}
	}
	check("wrong key", login(t, newClient(t, auth.Options{Key: wrong}), x))
	check("unknown user", login(t, newClient(t, auth.Options{Key: key, Name: denc.EntityName{Type: denc.TypeClient, ID: "x"}}), x))
	x.User(user, func(u *cephtest.CephxUser) { u.MonCaps = false })
	check("no mon caps", login(t, newClient(t, auth.Options{Key: key}), x))

	if _, err := auth.New(auth.Options{Name: user, Methods: []uint32{auth.MethodCephx}}); !errors.Is(err, auth.ErrNoKey) {
		t.Errorf("no key: %v", err)
	}
}

// A monitor that does not know the client's key cannot pass for one that does.
func TestFalseMonitor(t *testing.T) {
	x := cephtest.NewCephx(auth.KeyAES256K)
	c := newClient(t, auth.Options{Key: x.AddUser(user)})
	s := begin(t, c, denc.TypeMon)
	d := x.Session(denc.TypeMon)
	_, modes, payload, _ := s.Request()
	payload, err := s.ReplyMore(d.Request(auth.MethodCephx, modes, payload).Payload)
	if err != nil {
		t.Fatal(err)
	}
	r := d.More(payload)
	evil := newClient(t, auth.Options{Key: x.AddUser(user)}) // with another key
	e := begin(t, evil, denc.TypeMon)
	e.Request()
	e.ReplyMore(make([]byte, 9))
	if _, _, err := e.Done(r.GlobalID, r.Mode, r.Payload); !errors.Is(err, auth.ErrMonitor) {
		t.Errorf("%v", err)
	}
	if evil.GlobalID() != 0 {
		t.Error("took an id from who could not prove itself")
	}
}

// Tickets are renewed after three quarters of their validity, by the monotonic
// clock, whatever the wall clock says.
func TestRenewal(t *testing.T) {
	for _, skew := range []time.Duration{0, 24 * time.Hour, -24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			x := cephtest.NewCephx(auth.KeyAES256K)
			x.Validity(time.Hour, 72*time.Hour)
			c := newClient(t, auth.Options{Key: x.AddUser(user), Now: func() time.Time { return time.Now().Add(skew) }})
			if _, ok := c.NextRenewal(); ok {
				t.Error("something to renew before the first session")
			}
			d := x.Session(denc.TypeMon)
			if err := handshake(t, begin(t, c, denc.TypeMon), d); err != nil {
				t.Fatal(err)
			}
			next, ok := c.NextRenewal()
			if left := next.Sub(time.Now().Add(skew)); !ok || left != 45*time.Minute {
				t.Errorf("next renewal in %v", left)
			}
			time.Sleep(45*time.Minute - time.Second)
			if p, login, err := c.Renewal(); p != nil || login || err != nil {
				t.Errorf("renews too early: %v %v", login, err)
			}
			time.Sleep(time.Second)
			before := x.Granted(denc.TypeOSD)
			p, login, err := c.Renewal()
			if p == nil || login || err != nil {
				t.Fatalf("%v %v", login, err)
			}
			if p, _, _ := c.Renewal(); p != nil {
				t.Error("asks again before the answer")
			}
			result, reply := x.Renew(p)
			if result != 0 || c.Renewed(reply) != nil || x.Granted(denc.TypeOSD) != before+1 {
				t.Errorf("renewal: %d, %v", result, c.Renewed(reply))
			}
			time.Sleep(44 * time.Minute) // beyond the end of the first tickets
			if err := handshake(t, begin(t, c, denc.TypeMDS), x.Session(denc.TypeMDS)); err != nil {
				t.Error(err)
			}
			time.Sleep(17 * time.Minute)
			if _, err := c.Begin(denc.TypeMDS); !errors.Is(err, auth.ErrNoTicket) {
				t.Errorf("an ended ticket is shown: %v", err)
			}
			select {
			case <-c.Wanted():
			default:
				t.Error("nothing is wanted")
			}
			// The client's own ticket needs a new session; the others do not wait
			// for it.
			time.Sleep(54 * time.Hour)
			if p, login, err := c.Renewal(); p == nil || !login || err != nil {
				t.Errorf("own ticket: %v %v", login, err)
			}
			id := c.GlobalID()
			if err := handshake(t, begin(t, c, denc.TypeMon), x.Session(denc.TypeMon)); err != nil || c.GlobalID() != id {
				t.Errorf("%v, id %d after %d", err, c.GlobalID(), id)
			}
		})
	}
}

// One daemon that refuses tickets which others take, as one does that is out of
// touch with the monitors, takes nothing from the others.
func TestOneRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := cephtest.NewCephx(auth.KeyAES)
		c := newClient(t, auth.Options{Key: x.AddUser(user)})
		if err := login(t, c, x); err != nil {
			t.Fatal(err)
		}
		if err := handshake(t, begin(t, c, denc.TypeOSD), x.Session(denc.TypeOSD)); err != nil {
			t.Fatal(err)
		}
		renewals := 0
		for range 600 { // seconds
			s := begin(t, c, denc.TypeOSD)
			x.Refuse(denc.TypeOSD, 1)
			if err := handshake(t, s, x.Session(denc.TypeOSD)); err == nil {
				t.Fatal("it took the ticket")
			}
			x.Refuse(denc.TypeOSD, 0)
			time.Sleep(time.Second / 2)
			if p, _, _ := c.Renewal(); p != nil {
				renewals++
				if result, reply := x.Renew(p); result != 0 || c.Renewed(reply) != nil {
					t.Fatal(result)
				}
			}
			if err := handshake(t, begin(t, c, denc.TypeOSD), x.Session(denc.TypeOSD)); err != nil {
				t.Fatalf("one that is well: %v", err)
			}
			time.Sleep(time.Second / 2)
		}
		if renewals == 0 || renewals > 600/30+1 {
			t.Errorf("%d renewals in ten minutes", renewals)
		}
	})
}

// A refusal that comes late, of a ticket that another attempt replaced
// meanwhile, does not have the client begin as another.
func TestLateRefusal(t *testing.T) {
	x := cephtest.NewCephx(auth.KeyAES256K)
	c := newClient(t, auth.Options{Key: x.AddUser(user)})
	if err := login(t, c, x); err != nil {
		t.Fatal(err)
	}
	x.Rotate(denc.TypeAuth)
	late, d := begin(t, c, denc.TypeMon), x.Session(denc.TypeMon)
	method, modes, p, err := late.Request()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := late.ReplyMore(d.Request(method, modes, p).Payload); err != nil {
		t.Fatal(err)
	}
	if err := login(t, c, x); !errors.Is(err, auth.ErrTicketRefused) {
		t.Fatal(err)
	}
	if err := login(t, c, x); err != nil {
		t.Fatal(err)
	}
	id := c.GlobalID()
	late.BadMethod(method, -13, []uint32{auth.MethodCephx}, []msgr.AuthMode{msgr.ModeSecure})
	if err := login(t, c, x); err != nil || c.GlobalID() != id {
		t.Errorf("%v, id %d after %d", err, c.GlobalID(), id)
	}
}

// A service without a ticket is asked for, but not all the time.
func TestTicketNotGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := cephtest.NewCephx(auth.KeyAES)
		c := newClient(t, auth.Options{Key: x.AddUser(user)})
		x.User(user, func(u *cephtest.CephxUser) { u.Denied = denc.TypeMgr })
		d := x.Session(denc.TypeMon)
		if err := handshake(t, begin(t, c, denc.TypeMon), d); err != nil {
			t.Fatal(err)
		}
		if p, login, err := c.Renewal(); p != nil || login || err != nil {
			t.Errorf("asks at once: %v %v", login, err)
		}
		next, _ := c.NextRenewal()
		if time.Until(next) < 10*time.Second {
			t.Errorf("asks in %v", time.Until(next))
		}
		time.Sleep(time.Until(next))
		p, _, _ := c.Renewal()
		if p == nil {
			t.Fatal("does not ask again")
		}
		x.User(user, func(u *cephtest.CephxUser) { u.Denied = 0 })
		_, reply := x.Renew(p)
		if err := c.Renewed(reply); err != nil {
			t.Fatal(err)
		}
		if err := handshake(t, begin(t, c, denc.TypeMgr), x.Session(denc.TypeMgr)); err != nil {
			t.Error(err)
		}
	})
}

// A refused authorizer is dropped and tried once more with a new ticket.
func TestRefusedAuthorizer(t *testing.T) {
	x := cephtest.NewCephx(auth.KeyAES)
	c := newClient(t, auth.Options{Key: x.AddUser(user)})
	d := x.Session(denc.TypeMon)
	if err := handshake(t, begin(t, c, denc.TypeMon), d); err != nil {
		t.Fatal(err)
	}
	renew := func() {
		t.Helper()
		select {
		case <-c.Wanted():
		default:
			t.Fatal("no ticket is wanted")
		}
		p, login, err := c.Renewal()
		if p == nil || login || err != nil {
			t.Fatalf("%v %v", login, err)
		}
		if result, reply := x.Renew(p); result != 0 || c.Renewed(reply) != nil {
			t.Fatalf("renewal: %d", result)
		}
	}
	x.Rotate(denc.TypeOSD)
	two := begin(t, c, denc.TypeOSD) // made with the ticket that will be dropped
	if err := handshake(t, begin(t, c, denc.TypeOSD), x.Session(denc.TypeOSD)); !errors.Is(err, auth.ErrTicketRefused) || errors.Is(err, msgr.ErrPermanent) {
		t.Fatalf("%v", err)
	}
	if _, err := c.Begin(denc.TypeOSD); !errors.Is(err, auth.ErrNoTicket) {
		t.Errorf("the ticket was not dropped: %v", err)
	}
	renew()
	if err := handshake(t, two, x.Session(denc.TypeOSD)); !errors.Is(err, auth.ErrTicketRefused) {
		t.Errorf("%v", err)
	}
	if err := handshake(t, begin(t, c, denc.TypeOSD), x.Session(denc.TypeOSD)); err != nil {
		t.Fatalf("with the new ticket: %v", err)
	}

	// Twice in a row is final; other services go on.
	x.Refuse(denc.TypeOSD, 2)
	if err := handshake(t, begin(t, c, denc.TypeOSD), x.Session(denc.TypeOSD)); !errors.Is(err, auth.ErrTicketRefused) {
		t.Fatalf("%v", err)
	}
	renew()
	if err := handshake(t, begin(t, c, denc.TypeOSD), x.Session(denc.TypeOSD)); !errors.Is(err, auth.ErrDenied) || !errors.Is(err, syscall.EACCES) || errors.Is(err, msgr.ErrPermanent) {
		t.Fatalf("%v", err) // not for good: OSDs let the client in before
	}
	if err := handshake(t, begin(t, c, denc.TypeMDS), x.Session(denc.TypeMDS)); err != nil {
		t.Error(err)
	}
	if p, _, _ := c.Renewal(); p != nil {
		t.Error("asks for a useless ticket at once")
	}

	// A service that never let the client in.
	x.Refuse(denc.TypeMgr, 2)
	if err := handshake(t, begin(t, c, denc.TypeMgr), x.Session(denc.TypeMgr)); !errors.Is(err, auth.ErrTicketRefused) {
		t.Fatalf("%v", err)
	}
	renew()
	if err := handshake(t, begin(t, c, denc.TypeMgr), x.Session(denc.TypeMgr)); !errors.Is(err, auth.ErrDenied) || !errors.Is(err, msgr.ErrPermanent) {
		t.Fatalf("%v", err)
	}
}

// The monitors do not take the old ticket: the client gets a new id.
func TestLostTicket(t *testing.T) {
	x := cephtest.NewCephx(auth.KeyAES256K)
	c := newClient(t, auth.Options{Key: x.AddUser(user)})
	if err := login(t, c, x); err != nil {
		t.Fatal(err)
	}
	id := c.GlobalID()
	x.Rotate(denc.TypeAuth)
	if err := login(t, c, x); !errors.Is(err, auth.ErrTicketRefused) || errors.Is(err, msgr.ErrPermanent) {
		t.Errorf("%v", err)
	}
	if err := login(t, c, x); err != nil || c.GlobalID() == id {
		t.Errorf("%v, id %d after %d", err, c.GlobalID(), id)
	}
	if err := handshake(t, begin(t, c, denc.TypeOSD), x.Session(denc.TypeOSD)); err != nil {
		t.Error(err)
	}
	// A renewal refused leads to a session, not to a loop.
	c.RenewalFailed()
	if _, login, _ := c.Renewal(); !login {
		t.Error("no session is due")
	}
}

// Of two first sessions at the same time, the first one done gives the id.
func TestTwoFirstSessions(t *testing.T) {
	x := cephtest.NewCephx(auth.KeyAES)
	c := newClient(t, auth.Options{Key: x.AddUser(user)})
	a, b := begin(t, c, denc.TypeMon), begin(t, c, denc.TypeMon)
	da, db := x.Session(denc.TypeMon), x.Session(denc.TypeMon)
	ma, modes, pa, _ := a.Request()
	mb, _, pb, _ := b.Request()
	ra, rb := da.Request(ma, modes, pa), db.Request(mb, modes, pb)
	pa, _ = a.ReplyMore(ra.Payload)
	pb, _ = b.ReplyMore(rb.Payload)
	ra, rb = da.More(pa), db.More(pb)
	if _, _, err := b.Done(rb.GlobalID, rb.Mode, rb.Payload); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Done(ra.GlobalID, ra.Mode, ra.Payload); !errors.Is(err, auth.ErrSuperseded) || errors.Is(err, msgr.ErrPermanent) {
		t.Errorf("%v", err)
	}
	if c.GlobalID() != rb.GlobalID {
		t.Errorf("id %d, want %d", c.GlobalID(), rb.GlobalID)
	}
	if err := handshake(t, begin(t, c, denc.TypeOSD), x.Session(denc.TypeOSD)); err != nil {
		t.Error(err)
	}
}

func TestNone(t *testing.T) {
	c := newClient(t, auth.Options{})
	s := begin(t, c, denc.TypeMon)
	method, modes, payload, err := s.Request()
	want := append([]byte{10, 8, 0, 0, 0, 3, 0, 0, 0}, "cap\x00\x00\x00\x00\x00\x00\x00\x00"...)
	if method != auth.MethodNone || !slices.Equal(modes, []msgr.AuthMode{msgr.ModeCRC}) || !bytes.Equal(payload, want) || err != nil {
		t.Fatalf("%d %v %x %v", method, modes, payload, err)
	}
	if key, secret, err := s.Done(4711, msgr.ModeCRC, nil); key != nil || secret != nil || err != nil || c.GlobalID() != 4711 {
		t.Fatalf("%v", err)
	}
	s = begin(t, c, denc.TypeOSD)
	method, _, payload, err = s.Request()
	want = append([]byte{1, 8, 0, 0, 0, 3, 0, 0, 0}, "cap\x67\x12\x00\x00\x00\x00\x00\x00"...)
	if method != auth.MethodNone || !bytes.Equal(payload, want) || err != nil {
		t.Fatalf("%d %x %v", method, payload, err)
	}
	if _, _, err := s.Done(0, msgr.ModeCRC, nil); err != nil {
		t.Error(err)
	}
	if p, login, err := c.Renewal(); p != nil || login || err != nil {
		t.Errorf("renews: %v %v", login, err)
	}
	if err := begin(t, c, denc.TypeOSD).BadMethod(1, -13, []uint32{2}, nil); !errors.Is(err, auth.ErrMethod) {
		t.Errorf("%v", err)
	}
}

func TestMethodNegotiation(t *testing.T) {
	x := cephtest.NewCephx(auth.KeyAES)
	key := x.AddUser(user)
	c := newClient(t, auth.Options{Key: key, Methods: []uint32{auth.MethodCephx, auth.MethodNone}})
	s := begin(t, c, denc.TypeMon)
	s.Request()
	if err := s.BadMethod(2, -95, []uint32{auth.MethodNone}, []msgr.AuthMode{msgr.ModeCRC}); err != nil {
		t.Fatal(err)
	}
	if method, _, _, err := s.Request(); method != auth.MethodNone || err != nil {
		t.Errorf("%d, %v", method, err)
	}
	// Without leave to use none it is refused.
	s = begin(t, newClient(t, auth.Options{Key: key}), denc.TypeMon)
	s.Request()
	if err := s.BadMethod(2, -95, []uint32{auth.MethodNone, 4}, nil); !errors.Is(err, auth.ErrMethod) {
		t.Errorf("%v", err)
	}
	s = begin(t, newClient(t, auth.Options{Key: key, MonModes: []msgr.AuthMode{msgr.ModeCRC}}), denc.TypeMon)
	s.Request()
	if err := s.BadMethod(2, -95, []uint32{2}, []msgr.AuthMode{msgr.ModeSecure}); !errors.Is(err, auth.ErrMethod) {
		t.Errorf("%v", err)
	}
	s.Request()
	if err := s.BadMethod(2, -11, []uint32{2}, []msgr.AuthMode{msgr.ModeCRC}); !errors.Is(err, auth.ErrUnavailable) || errors.Is(err, msgr.ErrPermanent) {
		t.Errorf("%v", err)
	}
}

// downgrade has a monitor that speaks for itself, or somebody on the way to
// one, offer none instead of what the client asks for.
func downgrade(t *testing.T, c *auth.Client) error {
	t.Helper()
	s := begin(t, c, denc.TypeMon)
	method, _, _, err := s.Request()
	if err != nil {
		t.Fatal(err)
	}
	return s.BadMethod(method, -int32(syscall.EOPNOTSUPP), []uint32{auth.MethodNone}, []msgr.AuthMode{msgr.ModeCRC})
}

// A client with a key does without authentication only if its settings say so
// in so many words, and never after a monitor proved that it knows the key.
func TestDowngrade(t *testing.T) {
	x := cephtest.NewCephx(auth.KeyAES)
	key := x.AddUser(user)
	load := func(args ...string) *auth.Client {
		t.Helper()
		cfg, err := auth.Load(auth.LoadOptions{Conf: os.DevNull, Name: user, Args: append([]string{"--key", key.Base64()}, args...),
			Getenv: func(string) string { return "" }})
		if err != nil {
			t.Fatal(err)
		}
		c, err := cfg.NewClient()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if err := downgrade(t, load()); !errors.Is(err, auth.ErrMethod) || !errors.Is(err, msgr.ErrPermanent) {
		t.Errorf("without a setting, at first: %v", err)
	}
	for _, order := range []string{"cephx, none", "none cephx"} {
		c := load("--auth-client-required", order)
		concurrent := begin(t, c, denc.TypeMon)
		concurrent.Request()
		if order == "cephx, none" {
			if err := concurrent.BadMethod(auth.MethodCephx, -95, []uint32{auth.MethodNone}, nil); err != nil {
				t.Fatalf("%s: %v", order, err)
			}
			if err := login(t, c, x); err != nil {
				t.Fatal(err)
			}
		} else {
			s := begin(t, c, denc.TypeMon)
			s.Request()
			if err := s.BadMethod(auth.MethodNone, -95, []uint32{auth.MethodCephx}, nil); err != nil {
				t.Fatalf("%s: %v", order, err)
			}
			if err := handshake(t, s, x.Session(denc.TypeMon)); err != nil {
				t.Fatal(err)
			}
		}
		if err := downgrade(t, c); !errors.Is(err, auth.ErrMethod) {
			t.Errorf("%s, after a session: %v", order, err)
		}
		// One that was begun before is too late.
		if _, _, err := concurrent.Done(c.GlobalID(), msgr.ModeCRC, nil); !errors.Is(err, auth.ErrMethod) {
			t.Errorf("%s, begun before: %v", order, err)
		}
		if err := handshake(t, begin(t, c, denc.TypeOSD), x.Session(denc.TypeOSD)); err != nil {
			t.Errorf("%s: OSDs no longer get a ticket: %v", order, err)
		}
		if err := login(t, c, x); err != nil {
			t.Errorf("%s: cephx again: %v", order, err)
		}
	}
	// Who asks for none gets none.
	s := begin(t, load("--auth-client-required", "none"), denc.TypeMon)
	if method, _, _, err := s.Request(); method != auth.MethodNone || err != nil {
		t.Errorf("none: %d, %v", method, err)
	}
	if _, _, err := s.Done(4711, msgr.ModeCRC, nil); err != nil {
		t.Errorf("none: %v", err)
	}
}

// A monitor that seals an empty key, or one of a length that no daemon makes,
// gets no session: the client would check its signature against nothing.
func TestSessionKeys(t *testing.T) {
	x := cephtest.NewCephx(auth.KeyAES)
	key := x.AddUser(user)
	for _, k := range []struct {
		typ auth.KeyType
		n   int
		ok  bool
	}{
		{auth.KeyNone, 0, false}, {auth.KeyAES, 0, false}, {auth.KeyAES, 15, false}, {auth.KeyAES, 17, false}, {auth.KeyAES, 16, true},
		{auth.KeyAES256K, 0, false}, {auth.KeyAES256K, 16, false}, {auth.KeyAES256K, 33, false}, {auth.KeyAES256K, 32, true},
		{9, 16, false},
	} {
		c := newClient(t, auth.Options{Key: key})
		s := begin(t, c, denc.TypeMon)
		s.Request()
		var challenge denc.Encoder
		challenge.Uint8(1)
		challenge.Uint64(7)
		if _, err := s.ReplyMore(challenge.Data()); err != nil {
			t.Fatal(err)
		}
		var ticket denc.Encoder
		ticket.Uint8(1)
		ticket.Uint16(uint16(k.typ))
		ticket.Time(time.Time{})
		ticket.Uint16(uint16(k.n))
		ticket.Raw(bytes.Repeat([]byte{5}, k.n))
		ticket.Uint32(3600)
		ticket.Uint32(0)
		sealed, err := key.Seal(auth.UsageTicketSessionKey, ticket.Data())
		if err != nil {
			t.Fatal(err)
		}
		var e denc.Encoder
		e.Uint16(0x100) // CEPHX_GET_AUTH_SESSION_KEY
		e.Int32(0)
		e.Uint8(1)
		e.Count(1)
		e.Uint32(uint32(denc.TypeAuth))
		e.Uint8(1)
		e.Bytes(sealed)
		e.Bool(false)
		p := e.Sized()
		e.Uint8(1)
		e.Uint64(1)
		e.Bytes([]byte("blob"))
		e.End(p)
		e.Bytes(nil)
		e.Bytes(nil)
		got, _, err := s.Done(4711, msgr.ModeCRC, e.Data())
		if k.ok && (err != nil || len(got) != k.n) || !k.ok && (!errors.Is(err, auth.ErrProtocol) || got != nil || c.GlobalID() != 0) {
			t.Errorf("%v of %d bytes: key of %d bytes, id %d, %v", k.typ, k.n, len(got), c.GlobalID(), err)
		}
	}
}

// fuzzExchange gives a session arbitrary answers, with a key that lets honest
// ones through in part.
func fuzzExchange(f *testing.F, peer denc.EntityType) {
	x := cephtest.NewCephx(auth.KeyAES)
	key := x.AddUser(user)
	c := newClient(f, auth.Options{Key: key})
	if err := login(f, c, x); err != nil {
		f.Fatal(err)
	}
	s := begin(f, c, peer)
	d := x.Session(peer)
	method, modes, payload, _ := s.Request()
	r := d.Request(method, modes, payload)
	first := r.Payload
	payload, _ = s.ReplyMore(first)
	r = d.More(payload)
	f.Add(first, r.Payload)
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, more, done []byte) {
		s, err := c.Begin(peer)
		if err != nil {
			t.Skip("no ticket")
		}
		s.Request()
		s.ReplyMore(more)
		s.Done(1, msgr.ModeCRC, done)
		c.Renewed(done)
	})
}

func FuzzMonSession(f *testing.F)     { fuzzExchange(f, denc.TypeMon) }
func FuzzServiceSession(f *testing.F) { fuzzExchange(f, denc.TypeOSD) }

// FuzzGrants gives well-sealed nonsense to the decoders behind the seal.
func FuzzGrants(f *testing.F) {
	key, _ := auth.NewKey(auth.KeyAES)
	var e denc.Encoder
	e.Uint8(1)
	key.Encode(&e)
	e.Uint64(3600)
	f.Add(e.Data(), []byte{1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, false)
	f.Fuzz(func(t *testing.T, mine, blob []byte, encrypted bool) {
		c, err := auth.New(auth.Options{Name: user, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		s, _ := c.Begin(denc.TypeMon)
		s.Request()
		s.ReplyMore(make([]byte, 9))
		sealed, _ := key.Seal(auth.UsageTicketSessionKey, mine)
		var e denc.Encoder
		e.Uint16(0x100)
		e.Uint32(0)
		e.Uint8(1)
		e.Count(1)
		e.Uint32(uint32(denc.TypeAuth))
		e.Uint8(1)
		e.Bytes(sealed)
		e.Bool(encrypted)
		e.Bytes(blob)
		e.Bytes(nil)
		e.Bytes(blob)
		s.Done(1, msgr.ModeCRC, e.Data())
	})
}
