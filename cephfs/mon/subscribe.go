package mon

import (
	"slices"

	"github.com/google/uuid"

	"capstan/cephfs/msgr"
)

// What names a subject that monitors publish.
type What string

// The subjects. Several file systems have an MDSMap each: "mdsmap" is that of
// the default one, [WhatMDSMapOf] names another.
const (
	WhatOSDMap    What = "osdmap"     // messages of type 41; incremental if Start is not 0
	WhatMDSMap    What = "mdsmap"     // type 21
	WhatFSMap     What = "fsmap"      // type 45
	WhatFSMapUser What = "fsmap.user" // type 103: the names and ids of file systems only
	WhatMgrMap    What = "mgrmap"     // type 0x704; see [DecodeMgrMap]
	WhatMonMap    What = "monmap"     // type 4
	WhatConfig    What = "config"     // type 62; see [DecodeConfig]
)

// WhatMDSMapOf is the map of one file system, by its id.
func WhatMDSMapOf(fscid int64) What { return What("mdsmap." + formatInt(fscid)) }

// subjects of the types of message.
var subjects = map[uint16]What{
	msgOSDMap: WhatOSDMap, msgMDSMap: WhatMDSMap, msgFSMap: WhatFSMap, msgFSMapUser: WhatFSMapUser,
	msgMgrMap: WhatMgrMap, msgMonMap: WhatMonMap, msgConfig: WhatConfig,
}

// Update is what a monitor published.
type Update struct {
	What  What
	Type  uint16 // of the message
	Epoch uint64 // the newest in it; 0 for a subject without epochs
	// Front is the payload of the message: MOSDMap, MMDSMap, MFSMap, MMgrMap,
	// MMonMap, MConfig. Others may read it too; it is not to be changed.
	Front   []byte
	Version uint16 // of the encoding of Front
}

// Handler takes an update. All handlers of a client are called one after the
// other from one goroutine. A slow one delays the others and in the end what
// is received from the monitor; one that waits for something of the same
// client waits for ever.
//
// It returns the epoch up to which it has everything now. That the client asks
// from the next on after a change of monitor; an epoch below the update's makes
// it ask for the missing ones at once, if Subscription.Again was not called.
type Handler func(u *Update) (have uint64)

// Subscription is a subject that a client follows.
type Subscription struct {
	c       *Client // constant
	what    What    // constant
	handler Handler // constant

	// Guarded by Client.mu.
	start  uint64 // the first epoch that is still wanted
	nagged uint64 // the epoch whose forerunners were asked for again
	again  bool   // Again was called since the handler was
	closed bool
}

// Subscribe has a handler called for what monitors publish: at first what is
// there from the epoch start on (0: the present state as a whole), then each
// change. It goes on over changes of monitor until [Subscription.Close].
func (c *Client) Subscribe(what What, start uint64, h Handler) *Subscription {
	s := &Subscription{c: c, what: what, handler: h, start: start}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		s.closed = true
		return s
	}
	c.subs[what] = append(c.subs[what], s)
	c.subscribeLocked([]What{what})
	return s
}

// Again asks for what is there from the epoch start on, for a handler that
// cannot go on with what it has.
func (s *Subscription) Again(start uint64) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.closed {
		return
	}
	s.start, s.again = start, true
	s.c.subscribeLocked([]What{s.what})
}

// Close ends the subscription. The handler may be running, and is not called
// again after it returned.
func (s *Subscription) Close() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.closed = true
	s.c.subs[s.what] = slices.DeleteFunc(s.c.subs[s.what], func(o *Subscription) bool { return o == s })
	if len(s.c.subs[s.what]) == 0 {
		delete(s.c.subs, s.what)
	}
}

// subscribeAllLocked tells a new monitor all that is wanted.
func (c *Client) subscribeAllLocked() {
	what := []What{WhatMonMap}
	for w := range c.subs {
		if w != WhatMonMap {
			what = append(what, w)
		}
	}
	slices.Sort(what)
	c.subscribeLocked(what)
}

func (c *Client) subscribeLocked(what []What) {
	if c.active == nil {
		return
	}
	wants := map[What]want{}
	for _, w := range what {
		first := true
		var start uint64
		for _, s := range c.subs[w] {
			if first || s.start < start {
				start, first = s.start, false
			}
		}
		if w == WhatMonMap {
			// Asked for as a whole, so that there is an answer in any case.
			start = 0
			if c.active.answered && c.monmap != nil && len(c.subs[w]) == 0 {
				start = uint64(c.monmap.Epoch) + 1
			}
		}
		wants[w] = want{start: start}
	}
	c.active.conn.Send(encodeSubscribe(what, wants, c.opts.Hostname))
}

// mapLocked takes a message with something published.
func (c *Client) mapLocked(m *msgr.Message) (*delivery, error) {
	what, ok := subjects[m.Type]
	if !ok {
		c.log.Debug("message of no interest", "type", m.Type)
		return nil, nil
	}
	epoch, fsid, err := epochOf(m.Type, m.Front)
	if err != nil {
		return nil, err
	}
	if want := c.fsidLocked(); fsid != (uuid.UUID{}) && want != (uuid.UUID{}) && fsid != want {
		return nil, ErrWrongCluster
	}
	if m.Type == msgMgrMap {
		mm, err := DecodeMgrMap(m.Front)
		if err != nil {
			return nil, err
		}
		if c.mgrmap == nil || mm.Epoch > c.mgrmap.Epoch {
			c.mgrmap = mm
			c.broadcastLocked()
		}
	}
	return c.deliveryLocked(what, epoch, m), nil
}

func (c *Client) deliveryLocked(what What, epoch uint64, m *msgr.Message) *delivery {
	to := slices.Clone(c.subs[what])
	if what == WhatMDSMap {
		// The message does not say which subscription it is for.
		for w, subs := range c.subs {
			if w != WhatMDSMap && len(w) > len("mdsmap.") && w[:len("mdsmap.")] == "mdsmap." {
				to = append(to, subs...)
			}
		}
	}
	if len(to) == 0 {
		return nil
	}
	return &delivery{
		update: Update{What: what, Type: m.Type, Epoch: epoch, Front: m.Front, Version: m.Version}, to: to,
		size: len(m.Front) + len(m.Middle) + m.DataLen(), // they share their storage
	}
}

func (c *Client) handle(s *Subscription, u Update) {
	c.mu.Lock()
	if s.closed || c.ctx.Err() != nil {
		c.mu.Unlock()
		return
	}
	s.again = false
	c.mu.Unlock()

	u.What = s.what
	have := s.handler(&u)

	c.mu.Lock()
	defer c.mu.Unlock()
	if s.closed || s.again || u.Epoch == 0 {
		return // asked again meanwhile
	}
	s.start = have + 1
	if have < u.Epoch && s.nagged != u.Epoch {
		s.nagged = u.Epoch
		c.subscribeLocked([]What{s.what})
	}
}
