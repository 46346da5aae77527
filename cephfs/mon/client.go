package mon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"capstan/cephfs/auth"
	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

// Options configure a [Client]. Messenger, Auth and Monitors must be set.
type Options struct {
	// Messenger carries the connection to the monitors. Its Auth must be the
	// one below. It is not closed by the client.
	Messenger *msgr.Messenger
	// Auth is who the client is.
	Auth *auth.Client
	// Monitors are the addresses known at first ([auth.Config.Monitors]). The
	// cluster's own list replaces them once it is known.
	Monitors []denc.AddrVec
	// FSID, if not zero, is the cluster that the monitors must belong to.
	FSID uuid.UUID
	// Direct makes the messenger for a command to a single daemon or to the
	// manager: one for each command, closed by the client when it ends. Each
	// must be an instance of its own, with another nonce, for a daemon takes a
	// second connection of one instance for the first one come back. The default
	// has the defaults of package msgr.
	Direct func() *msgr.Messenger
	// Hostname is what the monitors are told; the default is the host's.
	Hostname string
	// Logger receives changes of monitor and faults. The default drops them.
	Logger *slog.Logger
	// AnswerTimeout is how long a monitor may take for its first answer. The
	// default is 5 s.
	AnswerTimeout time.Duration
}

// Client is in touch with the monitors of one cluster.
type Client struct {
	// Constant.
	opts   Options
	auth   *auth.Client
	log    *slog.Logger
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wake   chan struct{} // of run; has room for one
	queue  *deliveries   // to deliver
	wg     sync.WaitGroup
	tells  sync.WaitGroup // commands over connections of their own; added to with mu held

	mu       sync.Mutex
	changed  chan struct{}            // guarded by mu; closed and replaced at each change of what Ready looks at
	sessions map[*monSession]bool     // guarded by mu; attempts, and the active one
	active   *monSession              // guarded by mu; the monitor in use, or nil
	hunt     hunt                     // guarded by mu
	monmap   *MonMap                  // guarded by mu; nil before the first
	mgrmap   *MgrMap                  // guarded by mu; nil unless asked for
	lastErr  error                    // guarded by mu; of the last attempt that failed
	hopeless error                    // guarded by mu; why no monitor lets the client in; nil after a success
	subs     map[What][]*Subscription // guarded by mu
	commands map[uint64]*pending      // guarded by mu
	versions map[uint64]*pending      // guarded by mu
	tid      uint64                   // guarded by mu; the last given
	renewing time.Time                // guarded by mu; when tickets were asked for; zero if they are not
	loginDue time.Time                // guarded by mu; when it was first seen that a new session is due
	closed   bool                     // guarded by mu
}

// The defaults of [Options], and other times.
const (
	defaultAnswerTimeout = 5 * time.Second
	renewTimeout         = 15 * time.Second // for an answer to MAuth
	loginPatience        = time.Hour        // for a moment without commands, before a session is renewed
	loginPoll            = 5 * time.Second
)

// New returns a client and starts to look for a monitor.
func New(o Options) (*Client, error) {
	if o.Messenger == nil || o.Auth == nil {
		return nil, errors.New("mon: Options without a messenger or an identity")
	}
	if len(o.Monitors) == 0 {
		return nil, errors.New("mon: no addresses of monitors")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.AnswerTimeout <= 0 {
		o.AnswerTimeout = defaultAnswerTimeout
	}
	if o.Direct == nil {
		o.Direct = func() *msgr.Messenger { return msgr.New(msgr.Options{Auth: o.Auth, Logger: o.Logger}) }
	}
	if o.Hostname == "" {
		h, _ := os.Hostname()
		o.Hostname, _, _ = strings.Cut(h, ".")
	}
	c := &Client{
		opts: o, auth: o.Auth, log: o.Logger,
		wake: make(chan struct{}, 1), queue: newDeliveries(maxDeliveryBytes),
		changed: make(chan struct{}), sessions: map[*monSession]bool{},
		subs: map[What][]*Subscription{}, commands: map[uint64]*pending{}, versions: map[uint64]*pending{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.wg.Add(2)
	go c.run()
	go c.deliver()
	return c, nil
}

// Close ends the connection and all waits, and waits for the handlers that
// run. It must not be called from one.
func (c *Client) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		c.wg.Wait()
		return
	}
	c.closed = true
	c.cancel()
	c.queue.close()
	var done []chan struct{}
	for s := range c.sessions {
		s.conn.Close()
		done = append(done, s.ended)
	}
	c.failAllLocked(ErrClosed)
	c.broadcastLocked()
	c.mu.Unlock()
	for _, d := range done {
		<-d
	}
	c.tells.Wait()
	c.wg.Wait()
}

// Ready waits until the client is in touch with a monitor that has answered.
// It fails at once, with what they said, if every known monitor refused the
// client for good.
func (c *Client) Ready(ctx context.Context) error {
	for {
		c.mu.Lock()
		changed := c.changed
		ok := c.active != nil && c.active.answered && c.monmap != nil
		err := c.hopeless
		if c.closed {
			err = ErrClosed
		}
		c.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return waitError(ctx, c.why())
		}
	}
}

// why is what ended the last attempt to reach a monitor, as of now; nil if one
// is reached.
func (c *Client) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastErr
}

// waitError is the end of a wait by its context, with what stood in its way.
func waitError(ctx context.Context, last error) error {
	err := context.Cause(ctx)
	if last != nil {
		return &waitFailure{err, last}
	}
	return err
}

type waitFailure struct{ err, last error }

func (w *waitFailure) Error() string {
	return "mon: " + w.err.Error() + "; before that: " + w.last.Error()
}
func (w *waitFailure) Unwrap() []error { return []error{w.err, w.last} }

// FSID is the id of the cluster, zero before [Client.Ready].
func (c *Client) FSID() uuid.UUID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fsidLocked()
}

func (c *Client) fsidLocked() uuid.UUID {
	if c.monmap == nil {
		return c.opts.FSID
	}
	return c.monmap.FSID
}

// GlobalID is the client's number in the cluster; see [auth.Client.GlobalID].
func (c *Client) GlobalID() uint64 { return c.auth.GlobalID() }

// MonMap is the list of the monitors, nil before [Client.Ready]. It is not to
// be changed.
func (c *Client) MonMap() *MonMap {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.monmap
}

// Monitor is the name and address of the monitor in use; false if there is
// none just now.
func (c *Client) Monitor() (name string, addr denc.Addr, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active == nil {
		return "", denc.Addr{}, false
	}
	addr = c.active.conn.Peer()
	name = c.active.cand.name
	if c.monmap != nil {
		if m, known := c.monmap.FindAddr(addr); known {
			name = m.Name
		}
	}
	return name, addr, true
}

func (c *Client) broadcastLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Client) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run looks for a monitor whenever there is none, watches over the first
// answer of the one found, and renews tickets.
func (c *Client) run() {
	defer c.wg.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := c.step(time.Now())
		if next.IsZero() {
			timer.Reset(time.Hour)
		} else {
			timer.Reset(time.Until(next))
		}
		select {
		case <-c.ctx.Done():
			return
		case <-timer.C:
		case <-c.wake:
		case <-c.auth.Wanted():
		}
	}
}

// step does what is due at now and returns when it wants to be called next;
// zero if only an event can change something.
func (c *Client) step(now time.Time) (next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed && c.active == nil {
		cand, try, again := c.hunt.step(now, c.candidatesLocked)
		if !try {
			return again
		}
		c.connectLocked(cand, now)
	}
	if c.closed {
		return time.Time{}
	}
	if s := c.active; !s.answered {
		end := s.since.Add(c.opts.AnswerTimeout)
		if now.Before(end) {
			return end
		}
		c.log.Warn("monitor does not answer", "monitor", s.conn.Peer().String())
		c.lastErr = errNoAnswer
		s.conn.Close() // its end leads to the next
		return time.Time{}
	}
	return c.renewLocked(now)
}

var errNoAnswer = errors.New("mon: monitor let the client in and did not answer")

// renewLocked asks for new tickets if they are due.
func (c *Client) renewLocked(now time.Time) (next time.Time) {
	if !c.renewing.IsZero() {
		end := c.renewing.Add(renewTimeout)
		if now.Before(end) {
			return end
		}
		c.log.Warn("monitor does not answer a request for tickets", "monitor", c.active.conn.Peer().String())
		c.renewing = time.Time{}
		c.active.conn.Close()
		return time.Time{}
	}
	payload, login, err := c.auth.Renewal()
	switch {
	case err != nil:
		c.log.Error("cannot ask for tickets", "err", err)
		return now.Add(renewTimeout)
	case login && c.loginNowLocked(now):
		c.log.Info("renewing the session with the monitors")
		c.active.conn.Close()
		return time.Time{}
	case payload != nil:
		var epoch uint32
		if c.monmap != nil {
			epoch = c.monmap.Epoch
		}
		c.renewing = now
		c.active.conn.Send(encodeAuth(payload, auth.MethodCephx, epoch))
		return now.Add(renewTimeout)
	case login:
		return now.Add(loginPoll)
	}
	next, _ = c.auth.NextRenewal()
	if !next.IsZero() && !next.After(now) {
		next = now.Add(time.Second)
	}
	return next
}

// loginNowLocked reports whether to end the session for a new one, which alone
// renews the client's own ticket. There is much time left: it waits for a moment
// at which no command is under way.
func (c *Client) loginNowLocked(now time.Time) bool {
	if c.loginDue.IsZero() {
		c.loginDue = now
	}
	return len(c.commands) == 0 || now.Sub(c.loginDue) >= loginPatience
}

// candidatesLocked are the monitors of a new round.
func (c *Client) candidatesLocked() []candidate {
	if c.monmap != nil && len(c.monmap.Monitors) > 0 {
		out := order(c.monmap)
		if c.hunt.rounds == 0 {
			return out
		}
		// The list may be old: the addresses known at first may help.
		for _, v := range c.opts.Monitors {
			if !slices.ContainsFunc(out, func(k candidate) bool { return sameHost(k.addrs, v) }) {
				out = append(out, candidate{addrs: v})
			}
		}
		return out
	}
	m := &MonMap{}
	for i, v := range c.opts.Monitors {
		m.Monitors = append(m.Monitors, Monitor{Name: string(rune('0' + i)), Addrs: v})
	}
	out := order(m)
	for i := range out {
		out[i].name = ""
	}
	return out
}

func sameHost(a, b denc.AddrVec) bool {
	x, okx := a.Msgr2()
	y, oky := b.Msgr2()
	return okx && oky && x.Host == y.Host
}

// connectLocked starts an attempt.
func (c *Client) connectLocked(cand candidate, now time.Time) {
	s := &monSession{c: c, cand: cand, since: now, ended: make(chan struct{})}
	conn, err := c.opts.Messenger.Connect(denc.TypeMon, cand.addrs, msgr.Lossy, s)
	if err != nil {
		c.attemptFailedLocked(now, err)
		return
	}
	s.conn = conn
	c.sessions[s] = true
}

// hopeless reports whether a peer cannot be spoken with at all: what it runs is
// too old or too new.
func hopeless(err error) bool {
	return msgr.KindOf(err) == msgr.KindLegacy || msgr.KindOf(err) == msgr.KindFeatures
}

// attemptFailedLocked notes an attempt that came to nothing.
func (c *Client) attemptFailedLocked(now time.Time, err error) {
	c.lastErr = err
	permanent := errors.Is(err, msgr.ErrPermanent) || errors.Is(err, ErrWrongCluster) || hopeless(err)
	c.log.Info("monitor not reached", "err", err)
	if c.hunt.failed(now, permanent) && !c.closed {
		c.log.Error("no monitor lets the client in", "err", err)
		c.hopeless = err
		c.failAllLocked(err)
		c.broadcastLocked()
	}
}
