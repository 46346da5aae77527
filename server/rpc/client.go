package rpc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"capstan/server/xdr"
)

// ErrClientClosed is the error of calls whose [Client] was closed.
var ErrClientClosed = errors.New("rpc: client closed")

// ClientOptions are the settings of a [Client]. The zero value is usable.
type ClientOptions struct {
	// Credential goes with every call; the zero value is AUTH_NONE.
	Credential Credential
	// MaxRecord is the largest reply taken, in bytes (default 4 MiB).
	MaxRecord int
	// WriteTimeout is the time for one write to the peer (default 30 s); a
	// connection that exceeds it is closed.
	WriteTimeout time.Duration
}

// Client makes calls over one connection, any number at the same time; replies
// find their calls by xid. It does not reconnect.
type Client struct {
	opt  ClientOptions
	nc   net.Conn
	send sendQueue
	done chan struct{} // closed when the reader has ended

	mu      sync.Mutex
	pending map[uint32]*Request // sent, or to be sent, without a reply so far
	xid     uint32
	err     error // why the client takes no more calls
}

// Dial connects to a server.
func Dial(ctx context.Context, network, addr string, opt ClientOptions) (*Client, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return NewClient(nc, opt), nil
}

// NewClient makes calls over nc, which it takes over. [Client.Close] ends it.
func NewClient(nc net.Conn, opt ClientOptions) *Client {
	def(&opt.MaxRecord, 4<<20)
	def(&opt.WriteTimeout, 30*time.Second)
	c := &Client{opt: opt, nc: nc, done: make(chan struct{}), pending: make(map[uint32]*Request), xid: rand.Uint32()}
	c.send.init(nc, func() int64 { return 1 }, c.fail)
	c.send.timeout = opt.WriteTimeout
	go c.read()
	return c
}

// Request is one call of a Client: arguments are encoded into Args, then it is
// sent, then its reply is waited for, each once.
type Request struct {
	XID  uint32
	Args xdr.Encoder // the record so far; append the arguments

	c     *Client
	reply chan *Reply // takes one: the reply, or nil if the client failed
}

// NewRequest starts a call with the credential of the client.
func (c *Client) NewRequest(program, version, procedure uint32) *Request {
	return c.NewRequestAs(&c.opt.Credential, program, version, procedure)
}

// NewRequestAs starts a call with another credential.
func (c *Client) NewRequestAs(cred *Credential, program, version, procedure uint32) *Request {
	r := &Request{c: c, reply: make(chan *Reply, 1)}
	c.mu.Lock()
	c.xid++
	for c.pending[c.xid] != nil {
		c.xid++
	}
	r.XID = c.xid
	if c.err == nil {
		c.pending[r.XID] = r
	}
	c.mu.Unlock()
	e := &r.Args
	e.Uint32(0) // record mark, patched by Send
	e.Uint32(r.XID)
	e.Uint32(msgCall)
	e.Uint32(Version)
	e.Uint32(program)
	e.Uint32(version)
	e.Uint32(procedure)
	cred.AppendTo(e)
	e.Uint32(uint32(FlavorNone)) // verf
	e.Uint32(0)
	return r
}

func (r *Request) encoder() *xdr.Encoder { return &r.Args }

func (r *Request) sent(error) { r.Args.Reset() }

// Send sends the call, or leaves that to another caller that is sending.
func (r *Request) Send() {
	r.Args.Patch32(0, lastFragment|uint32(r.Args.Len()-4))
	r.c.send.push(r)
}

// Wait waits for the reply of a call that was sent. A reply that is not a
// success gives a [*ReplyError].
func (r *Request) Wait(ctx context.Context) (*Reply, error) {
	var reply *Reply
	select {
	case reply = <-r.reply:
	case <-r.c.done:
		select {
		case reply = <-r.reply:
		default:
		}
	case <-ctx.Done():
		r.c.mu.Lock()
		delete(r.c.pending, r.XID)
		r.c.mu.Unlock()
		select {
		case reply = <-r.reply:
			reply.Release()
		default:
		}
		return nil, ctx.Err()
	}
	if reply == nil {
		return nil, r.c.Err()
	}
	if err := reply.decode(); err != nil {
		reply.Release()
		return nil, err
	}
	return reply, nil
}

// Call makes one call and waits for its reply. args, if not nil, encodes the
// arguments.
func (c *Client) Call(ctx context.Context, program, version, procedure uint32, args func(*xdr.Encoder)) (*Reply, error) {
	r := c.NewRequest(program, version, procedure)
	if args != nil {
		args(&r.Args)
	}
	r.Send()
	return r.Wait(ctx)
}

// Err is why the client takes no more calls, nil while it does.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Done is closed when the connection is gone.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close ends the connection and all calls, and waits for the reader.
func (c *Client) Close() error {
	c.fail(ErrClientClosed)
	<-c.done
	return nil
}

// fail ends the connection for the given reason; the reader does the rest.
func (c *Client) fail(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	c.mu.Unlock()
	c.nc.Close()
}

// read is the body of the reader: it hands replies to their calls.
func (c *Client) read() {
	rr := recordReader{
		src:      c.nc,
		limit:    c.opt.MaxRecord,
		reserve:  func(int) (charger, error) { return nil, nil },
		arriving: func(bool) {},
	}
	for {
		record, err := rr.next()
		if err != nil {
			c.fail(fmt.Errorf("rpc: connection lost: %w", err))
			break
		}
		var d xdr.Decoder
		d.Reset(record.Bytes())
		xid := d.Uint32("xid")
		mtype := d.Uint32("mtype")
		if !d.OK() || mtype != msgReply {
			record.Release()
			c.fail(ErrBadMessage)
			break
		}
		c.mu.Lock()
		r := c.pending[xid]
		delete(c.pending, xid)
		if r != nil {
			r.reply <- &Reply{record: record}
		}
		c.mu.Unlock()
		if r == nil {
			record.Release() // its caller has gone
		}
	}
	c.send.fail(c.Err())
	close(c.done)
}

// Reply is a reply of a server. Results aliases memory that is given back by
// Release.
type Reply struct {
	Results xdr.Decoder
	record  *Buffer
}

// Release gives the memory of the reply back.
func (r *Reply) Release() {
	r.record.Release()
	r.record = nil
	r.Results.Reset(nil)
}

// ReplyError is a reply that is not a success.
type ReplyError struct {
	Denied    bool       // MSG_DENIED: by Auth, or RPC_MISMATCH if Auth is AuthOK
	Stat      AcceptStat // unless Denied
	Auth      AuthStat
	Low, High uint32 // versions, of PROG_MISMATCH and RPC_MISMATCH
}

func (e *ReplyError) Error() string {
	switch {
	case e.Denied && e.Auth != AuthOK:
		return "rpc: call denied: " + e.Auth.String()
	case e.Denied:
		return fmt.Sprintf("rpc: call denied: RPC_MISMATCH, versions %d to %d", e.Low, e.High)
	case e.Stat == ProgMismatch:
		return fmt.Sprintf("rpc: call failed: %v, versions %d to %d", e.Stat, e.Low, e.High)
	}
	return "rpc: call failed: " + e.Stat.String()
}

// decode reads the header of the reply and leaves Results at the results.
func (r *Reply) decode() error {
	b := r.record.Bytes()
	var d xdr.Decoder
	d.Reset(b)
	d.Fixed("xid, mtype", 8)
	var e ReplyError
	switch kind := d.Uint32("reply_stat"); kind {
	case replyAccepted:
		d.Uint32("verf.flavor")
		d.Opaque("verf.body", maxAuthBody)
		e.Stat = AcceptStat(d.Uint32("accept_stat"))
		if e.Stat == ProgMismatch {
			e.Low, e.High = d.Uint32("low"), d.Uint32("high")
		}
		if d.OK() && e.Stat == Success {
			r.Results.Reset(b[d.Offset():])
			return nil
		}
	case replyDenied:
		e.Denied = true
		switch d.Uint32("reject_stat") {
		case rejectMismatch:
			e.Low, e.High = d.Uint32("low"), d.Uint32("high")
		case rejectAuth:
			if e.Auth = AuthStat(d.Uint32("auth_stat")); e.Auth == AuthOK {
				d.Fail("auth_stat", xdr.ErrValue)
			}
		default:
			d.Fail("reject_stat", xdr.ErrValue)
		}
	default:
		d.Fail("reply_stat", xdr.ErrValue)
	}
	if err := d.Err(); err != nil {
		return fmt.Errorf("rpc: reply: %w", err)
	}
	return &e
}
