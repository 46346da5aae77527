package osd

import (
	"context"
	"errors"
	"math"
	"syscall"
	"time"
)

// Submit starts an operation. It waits for room within the bounds of
// [Options], no longer than ctx, and for nothing else. If it returns nil, done
// is called once, from any goroutine and perhaps before Submit returns, with
// the reply or with an [*Error]. It must not block, for replies and maps wait
// for it: it may submit, if there is sure to be room, but not wait for anything
// of the client, nor close it. When ctx ends before the reply came, done is told
// so; the OSD may or may not have done the operation. If it returns an error, an
// [*Error] too, done is not called.
//
// When done is called, or Submit returned an error, op and all its buffers are
// the caller's again, and nobody reads them any more. So done waits for the
// storage, but for no OSD: when ctx ends, a message that is queued is withdrawn,
// and a connection that is in the middle of one is broken off.
//
// Operations on one object that one goroutine submits are done in their order,
// but for writes to a full pool: see the package's documentation.
// With an error that an OSD answered the reply is given too, for its results.
func (c *Client) Submit(ctx context.Context, o Object, op *Op, done func(*Reply, error)) error {
	_, err := c.submit(ctx, o, op, done, true)
	return err
}

func (c *Client) submit(ctx context.Context, o Object, op *Op, done func(*Reply, error), watch bool) (*request, error) {
	r := &request{
		c: c, base: o, object: o, op: op, done: done, released: op.Released,
		mtime: op.Mtime, shard: c.shardOf(o),
	}
	switch {
	case op.err != nil:
		return nil, r.fail(op.err)
	case len(op.subops) == 0, o.Name == "", len(op.Snap.Snaps) > math.MaxUint16:
		return nil, r.fail(syscall.EINVAL)
	case op.isWrite() && op.read > 0: // the answer would have no data, and look as if there were none
		return nil, r.fail(syscall.EINVAL)
	}
	r.bytes = uint64(op.payload + op.read)
	if r.mtime.IsZero() && op.isWrite() {
		r.mtime = time.Now()
	}
	if op.payload > 0 {
		r.data = op.data()
	}
	r.holds.Store(1)
	r.tried = r.room[:0]
	if err := c.admit(ctx, r); err != nil {
		return nil, r.fail(err)
	}

	var out finished
	r.shard.mu.Lock()
	// Under the lock, so that the requests of an object have tids in their
	// order.
	if _, ok := c.table.Add(r); !ok {
		r.shard.mu.Unlock()
		r.giveRoom()
		return nil, r.fail(c.deadErr())
	}
	c.open.Add(r)
	if watch {
		r.watch(ctx)
	}
	c.appendLocked(r, &out)
	r.shard.mu.Unlock()
	out.complete()
	return r, nil
}

// data lists what the operations carry, in their order.
func (o *Op) data() [][]byte {
	data := make([][]byte, 0, len(o.subops)+1)
	for i := range o.subops {
		s := &o.subops[i]
		for _, b := range s.in {
			if len(b) > 0 {
				data = append(data, b)
			}
		}
		if !s.copy {
			for _, b := range s.vec {
				if len(b) > 0 {
					data = append(data, b)
				}
			}
		}
	}
	return data
}

// admit waits for room: first that of the OSD, so that those who wait for a
// slow one hold nothing that others wait for.
func (c *Client) admit(ctx context.Context, r *request) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	r.budget = c.homeless
	if ms := c.state.Load(); ms != nil {
		if p := ms.pool(r.base.Pool); p != nil {
			v, _ := c.pausedLocked(r, ms, p) // nobody else has r
			r.parked = v == held
			r.target, r.hash = r.base, ms.Hash(r.base)
			if pl := ms.place(r.base.Pool, p, r.hash); pl.Primary >= 0 {
				if s := c.session(pl.Primary); s != nil {
					r.budget = s.room
				}
			}
		}
	}
	if err := c.deadErr(); err != nil {
		return err
	}
	first := r.budget
	if r.parked {
		first = c.parked
	}
	ok := first.take(ctx, c.ctx.Done(), r.bytes)
	if ok && !r.parked {
		if ok = c.room.take(ctx, c.ctx.Done(), r.bytes); !ok {
			r.budget.give(r.bytes)
		}
	}
	if ok {
		return nil
	}
	if err := c.deadErr(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// call is one who waits in Do.
type call struct {
	done  chan struct{}
	set   func(*Reply, error)
	reply *Reply
	err   error
}

func newCall() any {
	k := &call{done: make(chan struct{}, 1)}
	k.set = func(reply *Reply, err error) {
		k.reply, k.err = reply, err
		k.done <- struct{}{}
	}
	return k
}

// Do does an operation and waits for its end, or for that of ctx; see
// [Client.Submit]. When it returns, in whatever way, op and its buffers are the
// caller's again.
func (c *Client) Do(ctx context.Context, o Object, op *Op) (*Reply, error) {
	k := c.calls.Get().(*call)
	r, err := c.submit(ctx, o, op, k.set, false)
	if err != nil {
		c.calls.Put(k)
		return nil, err
	}
	select {
	case <-k.done:
	case <-ctx.Done():
		c.cancel(r, context.Cause(ctx))
		<-k.done // the cancellation, or a reply that came before it; no OSD is waited for
	}
	reply, err := k.reply, k.err
	k.reply, k.err = nil, nil
	c.calls.Put(k)
	return reply, err
}

// Read reads into b from off and returns how much there was: less than len(b)
// where the object ends. An object that does not exist is an error
// ([IsNotExist]).
func (c *Client) Read(ctx context.Context, o Object, off uint64, b []byte) (int, error) {
	var op Op
	op.ReadInto(off, b)
	reply, err := c.Do(ctx, o, &op)
	if err != nil {
		reply.Release()
		return 0, err
	}
	return reply.Results[0].N, nil
}

// Write writes b at off. As with [Client.Do], b is the caller's again when it
// returns, and the same goes for the methods that follow.
func (c *Client) Write(ctx context.Context, o Object, off uint64, b []byte) error {
	var op Op
	op.Write(off, b)
	return c.run(ctx, o, &op)
}

// WriteFull makes b all of the object's data.
func (c *Client) WriteFull(ctx context.Context, o Object, b []byte) error {
	var op Op
	op.WriteFull(b)
	return c.run(ctx, o, &op)
}

// Append writes b behind the object's end.
func (c *Client) Append(ctx context.Context, o Object, b []byte) error {
	var op Op
	op.Append(b)
	return c.run(ctx, o, &op)
}

// Remove removes an object.
func (c *Client) Remove(ctx context.Context, o Object) error {
	var op Op
	op.Remove()
	return c.run(ctx, o, &op)
}

// Stat returns an object's size and time.
func (c *Client) Stat(ctx context.Context, o Object) (size uint64, mtime time.Time, err error) {
	var op Op
	op.Stat()
	reply, err := c.Do(ctx, o, &op)
	defer reply.Release()
	if err != nil {
		return 0, time.Time{}, err
	}
	if size, mtime, err = reply.Stat(0); err != nil {
		err = &Error{Op: "stat", Object: o, Err: errors.Join(ErrReply, err)}
	}
	return size, mtime, err
}

// run does an operation whose results are of no interest.
func (c *Client) run(ctx context.Context, o Object, op *Op) error {
	reply, err := c.Do(ctx, o, op)
	reply.Release()
	return err
}
