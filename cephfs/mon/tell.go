package mon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"capstan/cephfs/auth"
	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

func sortedKeys(m map[uint64]*pending) []uint64 { return slices.Sorted(maps.Keys(m)) }

// The pace of attempts to reach a daemon that a command is for.
const (
	tellPause    = 100 * time.Millisecond
	tellPauseMax = 5 * time.Second
)

// MgrCommand has the active manager carry out a command, such as those of its
// modules ("fs subvolume getpath"). Without an active manager it waits for one.
func (c *Client) MgrCommand(ctx context.Context, cmd Command) (*Result, error) {
	return c.tell(ctx, "mgr", msgMgrCommand, cmd, c.activeMgr)
}

// Tell has one daemon carry out a command: "osd.0", "mds.a", "mon.a", "mgr.x",
// or "mgr" for the active one. Daemons know other commands than the monitors
// do, among them those of their admin sockets.
func (c *Client) Tell(ctx context.Context, daemon string, cmd Command) (*Result, error) {
	kind, id, _ := strings.Cut(daemon, ".")
	var find func(context.Context) (denc.EntityType, denc.AddrVec, error)
	switch kind {
	case "mgr":
		find = func(ctx context.Context) (denc.EntityType, denc.AddrVec, error) {
			t, v, err := c.activeMgr(ctx)
			c.mu.Lock()
			defer c.mu.Unlock()
			if err == nil && id != "" && c.mgrmap.ActiveName != id {
				return 0, nil, fmt.Errorf("%s: %w: the active manager is %s", daemon, ErrNoDaemon, c.mgrmap.ActiveName)
			}
			return t, v, err
		}
	case "mon":
		find = func(ctx context.Context) (denc.EntityType, denc.AddrVec, error) {
			if err := c.Ready(ctx); err != nil {
				return 0, nil, err
			}
			m, ok := c.MonMap().Find(id)
			if !ok {
				return 0, nil, fmt.Errorf("%s: %w", daemon, ErrNoDaemon)
			}
			return denc.TypeMon, m.Addrs, nil
		}
	case "osd":
		n, err := strconv.ParseUint(id, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("mon: %q is not the name of a daemon", daemon)
		}
		find = func(ctx context.Context) (denc.EntityType, denc.AddrVec, error) {
			return c.findOSD(ctx, daemon, n)
		}
	case "mds":
		find = func(ctx context.Context) (denc.EntityType, denc.AddrVec, error) {
			return c.findMDS(ctx, daemon, id)
		}
	default:
		return nil, fmt.Errorf("mon: %q is not the name of a daemon", daemon)
	}
	return c.tell(ctx, daemon, msgCommand, cmd, find)
}

// activeMgr waits for an active manager.
func (c *Client) activeMgr(ctx context.Context) (denc.EntityType, denc.AddrVec, error) {
	c.mu.Lock()
	if len(c.subs[WhatMgrMap]) == 0 && !c.closed {
		s := &Subscription{c: c, what: WhatMgrMap, handler: func(u *Update) uint64 { return u.Epoch }}
		c.subs[WhatMgrMap] = []*Subscription{s}
		c.subscribeLocked([]What{WhatMgrMap})
	}
	for {
		changed, m, closed, hopeless := c.changed, c.mgrmap, c.closed, c.hopeless
		c.mu.Unlock()
		switch {
		case closed:
			return 0, nil, ErrClosed
		case m != nil && m.Available && len(m.ActiveAddrs) > 0:
			return denc.TypeMgr, m.ActiveAddrs, nil
		case hopeless != nil:
			return 0, nil, hopeless
		}
		select {
		case <-changed:
		case <-ctx.Done():
			last := c.why()
			if m != nil {
				last = fmt.Errorf("mgr: %w", ErrNoDaemon)
			}
			return 0, nil, waitError(ctx, last)
		}
		c.mu.Lock()
	}
}

// addrVec is an address vector as daemons print it in JSON.
type addrVec struct {
	Addrvec []struct {
		Type  string `json:"type"`
		Addr  string `json:"addr"`
		Nonce uint32 `json:"nonce"`
	} `json:"addrvec"`
}

func (v addrVec) decode() (out denc.AddrVec) {
	for _, a := range v.Addrvec {
		if addr, err := denc.ParseAddr(a.Type + ":" + a.Addr); err == nil {
			addr.Nonce = a.Nonce
			out = append(out, addr)
		}
	}
	return out
}

func (c *Client) findOSD(ctx context.Context, daemon string, n uint64) (denc.EntityType, denc.AddrVec, error) {
	r, err := c.Command(ctx, Command{Args: Args{"prefix": "osd info", "id": n}})
	if err != nil {
		return 0, nil, err
	}
	var found struct {
		Up    int     `json:"up"`
		Addrs addrVec `json:"public_addrs"`
	}
	if err := r.Decode(&found); err != nil {
		return 0, nil, err
	}
	v := found.Addrs.decode()
	if _, ok := v.Msgr2(); !ok || found.Up == 0 {
		return 0, nil, fmt.Errorf("%s: %w", daemon, ErrNoDaemon)
	}
	return denc.TypeOSD, v, nil
}

func (c *Client) findMDS(ctx context.Context, daemon, name string) (denc.EntityType, denc.AddrVec, error) {
	r, err := c.Command(ctx, Command{Args: Args{"prefix": "mds metadata", "who": name}})
	if err != nil {
		return 0, nil, err
	}
	var found struct {
		Addr string `json:"addr"`
	}
	if err := r.Decode(&found); err != nil {
		return 0, nil, err
	}
	var v denc.AddrVec
	for _, part := range strings.Split(strings.Trim(found.Addr, "[]"), ",") {
		if a, err := denc.ParseAddr(part); err == nil {
			v = append(v, a)
		}
	}
	if _, ok := v.Msgr2(); !ok {
		return 0, nil, fmt.Errorf("%s: %w", daemon, ErrNoDaemon)
	}
	return denc.TypeMDS, v, nil
}

// tell sends a command over a connection of its own, and tries again while
// that can do no harm.
func (c *Client) tell(ctx context.Context, target string, typ uint16, cmd Command, find func(context.Context) (denc.EntityType, denc.AddrVec, error)) (*Result, error) {
	text, err := cmd.text()
	if err != nil {
		return nil, err
	}
	pause := tellPause
	var last error // of the attempt before
	for {
		if err := c.Ready(ctx); err != nil {
			return nil, err
		}
		kind, addrs, err := find(ctx)
		if err != nil {
			return nil, err
		}
		t := &tell{p: pending{target: target, prefix: cmd.prefix(), done: make(chan struct{})}, ended: make(chan struct{})}
		err = c.tellOnce(ctx, t, kind, addrs, typ, text, cmd.Input)
		var answer *CommandError
		switch {
		case err == nil:
			return &t.p.result, nil
		case ctx.Err() != nil && !errors.As(err, &answer):
			return nil, waitError(ctx, last)
		case errors.As(err, &answer), errors.Is(err, msgr.ErrPermanent), hopeless(err), errors.Is(err, ErrClosed):
			return nil, err
		case t.reached && !cmd.repeatable():
			return nil, fmt.Errorf("%s: %q: %w: %w", target, cmd.prefix(), ErrOutcomeUnknown, err)
		}
		if !errors.Is(err, auth.ErrNoTicket) && !errors.Is(err, auth.ErrTicketRefused) {
			c.log.Info("daemon not reached", "daemon", target, "err", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, waitError(ctx, err)
		case <-c.ctx.Done():
			return nil, ErrClosed
		}
		pause, last = min(2*pause, tellPauseMax), err
	}
}

func (c *Client) tellOnce(ctx context.Context, t *tell, kind denc.EntityType, addrs denc.AddrVec, typ uint16, text string, input []byte) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	c.tells.Add(1)
	defer c.tells.Done()
	c.tid++
	m := encodeDirectCommand(typ, c.tid, c.fsidLocked(), text, input)
	t.tid = c.tid
	c.mu.Unlock()
	direct := c.opts.Direct()
	defer direct.Close()
	conn, err := direct.Connect(kind, addrs, msgr.Lossy, t)
	if err != nil {
		return err
	}
	sent := conn.Send(m) == nil // else the connection ended before it
	select {
	case <-t.p.done:
		err = t.p.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-c.ctx.Done():
		err = ErrClosed
	}
	conn.Close()
	<-t.ended // nothing of input is used any more
	t.reached = t.reached && sent
	return err
}

// tell is the connection of one command, and its dispatcher. Its fields belong
// to the dispatch goroutine until ended is closed.
type tell struct {
	p       pending
	tid     uint64 // constant
	reached bool   // the daemon may have got the command
	over    bool   // p is finished
	ended   chan struct{}
}

// Ready implements [msgr.Dispatcher].
func (t *tell) Ready(*msgr.Conn) { t.reached = true }

// Receive takes the answer; daemons send other things too.
func (t *tell) Receive(_ *msgr.Conn, m *msgr.Message) {
	if m.Type != msgCommandReply && m.Type != msgMgrCommandReply || m.Tid != t.tid || t.over {
		return
	}
	t.over = true
	r, err := decodeCommandReply(m.Type, m.Front)
	if err != nil {
		t.p.finish(err)
		return
	}
	t.p.answer(r, m)
}

// RemoteReset does not happen on a lossy connection.
func (t *tell) RemoteReset(*msgr.Conn) {}

// Closed implements [msgr.Dispatcher].
func (t *tell) Closed(_ *msgr.Conn, err error) {
	if !t.over {
		t.over = true
		if err == nil {
			err = msgr.ErrClosed
		}
		t.p.finish(err)
	}
	close(t.ended)
}
