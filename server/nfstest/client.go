package nfstest

import (
	"context"
	"fmt"
	"net"
	"sync"

	"capstan/server/nfs4/nfsv4"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

// User is a credential of AUTH_SYS.
func User(uid, gid uint32, groups ...uint32) rpc.Credential {
	return rpc.Credential{Flavor: rpc.FlavorSys, Machine: "nfstest", UID: uid, GID: gid, Groups: groups}
}

// Root is the credential of the superuser.
var Root = User(0, 0)

// Conn is a connection to a server, on which COMPOUNDs are sent.
type Conn struct {
	RPC  *rpc.Client
	Cred rpc.Credential // of calls that name no other
}

// NewConn makes calls over nc, which it takes over. [Conn.Close] ends it.
func NewConn(nc net.Conn, cred rpc.Credential) *Conn {
	return &Conn{RPC: rpc.NewClient(nc, rpc.ClientOptions{Credential: cred}), Cred: cred}
}

// Close ends the connection.
func (c *Conn) Close() error { return c.RPC.Close() }

// Call makes a call of any program and returns a copy of the results.
func (c *Conn) Call(ctx context.Context, cred *rpc.Credential, program, version, procedure uint32, args []byte) ([]byte, error) {
	if cred == nil {
		cred = &c.Cred
	}
	r := c.RPC.NewRequestAs(cred, program, version, procedure)
	r.Args.Append(args)
	r.Send()
	reply, err := r.Wait(ctx)
	if err != nil {
		return nil, err
	}
	defer reply.Release()
	return append([]byte(nil), reply.Results.Rest()...), nil
}

// Bytes sends the arguments of a COMPOUND as they are and decodes its result.
// cred nil stands for that of the connection.
func (c *Conn) Bytes(ctx context.Context, cred *rpc.Credential, args []byte) (*Reply, error) {
	raw, err := c.Call(ctx, cred, nfsv4.Program, nfsv4.Version, nfsv4.ProcCompound, args)
	if err != nil {
		return nil, err
	}
	return ParseReply(raw)
}

// Send sends a COMPOUND.
func (c *Conn) Send(ctx context.Context, req *Compound) (*Reply, error) {
	return c.Bytes(ctx, nil, req.Bytes())
}

// StatusError is an operation that did not end as it should.
type StatusError struct{ Result }

func (e *StatusError) Error() string { return e.String() }

// must returns the error of a reply whose status is not OK.
func must(r *Reply, err error) (*Reply, error) {
	if err != nil {
		return nil, err
	}
	if r.Status != nfsv4.OK {
		res := r.Last()
		if len(r.Results) == 0 {
			res.Status = r.Status
		}
		return r, &StatusError{res}
	}
	return r, nil
}

// Client is a client record of the server (clientid4).
type Client struct {
	Conn     *Conn
	Minor    uint32
	ID       nfsv4.ClientID
	Sequence uint32 // of the next CREATE_SESSION
	Exchange ExchangeIDRes
}

// NewClient sends EXCHANGE_ID.
func NewClient(ctx context.Context, conn *Conn, minor uint32, a ExchangeIDArgs) (*Client, error) {
	r, err := must(conn.Send(ctx, NewCompound(minor).ExchangeID(a)))
	if err != nil {
		return nil, err
	}
	res := Get[ExchangeIDRes](r)
	return &Client{Conn: conn, Minor: minor, ID: res.Client, Sequence: res.Sequence, Exchange: *res}, nil
}

// NewSession sends CREATE_SESSION with the channels asked for, DefaultFore if
// fore is zero.
func (c *Client) NewSession(ctx context.Context, fore Channel) (*Session, error) {
	r, err := must(c.Conn.Send(ctx, NewCompound(c.Minor).CreateSession(CreateSessionArgs{Client: c.ID, Sequence: c.Sequence, Fore: fore})))
	if err != nil {
		return nil, err
	}
	c.Sequence++
	res := Get[CreateSessionRes](r)
	return &Session{Client: c, Conn: c.Conn, ID: res.Session, Fore: res.Fore, slots: make([]uint32, res.Fore.MaxRequests)}, nil
}

// Session is a session, with the next number of each slot. Conn may be replaced
// while no call runs.
type Session struct {
	Client *Client
	Conn   *Conn
	ID     nfsv4.SessionID
	Fore   Channel

	mu    sync.Mutex
	slots []uint32 // last number used, guarded by mu
}

// Begin begins a COMPOUND with the next SEQUENCE of slot 0.
func (s *Session) Begin() *Compound { return s.BeginOn(0, false) }

// BeginOn begins a COMPOUND with the next SEQUENCE of a slot. cache asks for
// the reply to be kept.
func (s *Session) BeginOn(slot uint32, cache bool) *Compound { return s.BeginTagged("", slot, cache) }

// BeginTagged is BeginOn with a tag.
func (s *Session) BeginTagged(tag string, slot uint32, cache bool) *Compound {
	s.mu.Lock()
	s.slots[slot]++
	seq, highest := s.slots[slot], uint32(len(s.slots)-1)
	s.mu.Unlock()
	c := NewTagged(s.Client.Minor, tag)
	c.slotOf, c.slot, c.seq = s, slot, seq
	return c.Sequence(SequenceArgs{s.ID, seq, slot, highest, cache})
}

// Sequence returns the last number used on a slot.
func (s *Session) Sequence(slot uint32) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slots[slot]
}

// SetSequence changes the last number used on a slot.
func (s *Session) SetSequence(slot, seq uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots[slot] = seq
}

// Send sends a COMPOUND. If its SEQUENCE is refused the slot goes back, since
// the server has not used it up.
func (s *Session) Send(ctx context.Context, req *Compound) (*Reply, error) {
	return s.SendAs(ctx, nil, req)
}

// SendAs is Send with another credential.
func (s *Session) SendAs(ctx context.Context, cred *rpc.Credential, req *Compound) (*Reply, error) {
	r, err := s.Conn.Bytes(ctx, cred, req.Bytes())
	if err == nil && req.slotOf == s && (len(r.Results) == 0 || r.Results[0].Status != nfsv4.OK) {
		s.mu.Lock()
		if s.slots[req.slot] == req.seq {
			s.slots[req.slot]--
		}
		s.mu.Unlock()
	}
	return r, err
}

// Do is Send, with an error unless everything succeeded.
func (s *Session) Do(ctx context.Context, req *Compound) (*Reply, error) {
	return must(s.Send(ctx, req))
}

// Mount makes a client with one session that may open files at once: what a
// kernel does when it mounts.
func Mount(ctx context.Context, conn *Conn, minor uint32, owner string) (*Session, error) {
	c, err := NewClient(ctx, conn, minor, ExchangeIDArgs{Owner: owner, Verifier: nfsv4.Verifier{1}})
	if err != nil {
		return nil, fmt.Errorf("mount: %w", err)
	}
	s, err := c.NewSession(ctx, Channel{})
	if err != nil {
		return nil, fmt.Errorf("mount: %w", err)
	}
	if _, err := s.Do(ctx, s.Begin().ReclaimComplete(false)); err != nil {
		return nil, fmt.Errorf("mount: %w", err)
	}
	return s, nil
}

// Walk returns the handle of the object at names below the root.
func (s *Session) Walk(ctx context.Context, names ...string) ([]byte, error) {
	r, err := s.Do(ctx, s.Begin().PutRootFH().Lookup(names...).GetFH())
	if err != nil {
		return nil, fmt.Errorf("walk %q: %w", names, err)
	}
	return Get[GetFHRes](r).FH, nil
}

// Opened is a file opened by [Session.Open].
type Opened struct {
	OpenRes
	FH []byte
}

// Open opens a file below a directory, or the handle itself with ByHandle.
func (s *Session) Open(ctx context.Context, fh []byte, a OpenArgs) (*Opened, error) {
	return s.OpenOn(ctx, 0, fh, a)
}

// OpenOn is Open on a slot.
func (s *Session) OpenOn(ctx context.Context, slot uint32, fh []byte, a OpenArgs) (*Opened, error) {
	r, err := s.Do(ctx, s.BeginOn(slot, false).PutFH(fh).Open(a).GetFH())
	if err != nil {
		return nil, err
	}
	return &Opened{*Get[OpenRes](r), Get[GetFHRes](r).FH}, nil
}

// Attr returns the value of one attribute that is a number.
func (s *Session) Attr(ctx context.Context, fh []byte, attr uint32) (uint64, error) {
	r, err := s.Do(ctx, s.Begin().PutFH(fh).GetAttr(attr))
	if err != nil {
		return 0, err
	}
	f := Get[GetAttrRes](r)
	if f.Mask != nfsv4.BitmapOf(attr) {
		return 0, fmt.Errorf("%s is not answered", nfsv4.AttrName(attr))
	}
	return f.Uint64(), nil
}

// decoderOf is for the calls of NFSv3.
func decoderOf(raw []byte) *xdr.Decoder { return xdr.NewDecoder(raw) }
