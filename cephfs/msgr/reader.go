package msgr

import "capstan/cephfs/msgr/frame"

// eventBytes is what an event takes of the receive queue's limit besides its
// payload, so that empty messages are bounded too.
const eventBytes = 512

// received is a message with the storage of its Data's only element.
type received struct {
	Message
	data [1][]byte
}

// read takes frames until the stream fails. It runs on the run goroutine.
func (c *Conn) read(r *frame.Reader) error {
	for {
		p, err := r.Next()
		if err != nil {
			return err
		}
		switch lookup(stateReady, p.Tag) {
		case actMessage:
			err = c.readMessage(r)
		case actAck:
			var seq uint64
			if seq, err = frame.DecodeNumber(p.Tag, r.First()); err == nil {
				err = c.ack(seq)
			}
		case actKeepalive:
			if _, err = frame.DecodeNumber(p.Tag, r.First()); err == nil {
				c.out.oweEcho(r.First()[:8])
			}
		case actKeepaliveAck: // that it came is all there is to it
		default:
			err = unexpected(stateReady, p.Tag)
		}
		if err != nil {
			return err
		}
	}
}

func (c *Conn) readMessage(r *frame.Reader) error {
	var h frame.Header
	h.Parse(r.First())
	size := r.BodySize() + eventBytes
	if !c.in.admit(size) {
		return ErrClosed
	}
	m := new(received)
	m.Type, m.Priority, m.Version, m.Compat = h.Type, h.Priority, h.Version, h.Compat
	m.Tid = h.Tid
	// After a reconnect the peer may repeat what arrived; it may also skip
	// numbers, of messages it took back.
	fresh := h.Seq > c.sess.inSeq
	complete, err := c.readBody(r, m, fresh)
	if err == nil && complete {
		err = c.ack(h.AckSeq)
	}
	ok := err == nil && complete && fresh
	if m.Placed {
		c.placer.Placed(c, ok)
	}
	if !ok {
		m.drop()
		c.in.forget(size)
		if err == nil && complete {
			c.log.Debug("message received again", "seq", h.Seq, "last", c.sess.inSeq)
		}
		return err
	}
	if m.Placed { // only what lies here is bounded
		n := m.DataLen()
		size -= n
		c.in.forget(n)
	}
	m.Seq = h.Seq
	c.sess.inSeq = h.Seq
	c.received.Store(h.Seq)
	c.in.push(event{kind: eventMessage, m: &m.Message, size: size})
	if !c.lossy {
		c.out.oweAck()
	}
	return nil
}

// readBody reads the rest of a frame; place says that its data may be placed. m
// has the storage to release and the fact that data were placed also after an
// error.
func (c *Conn) readBody(r *frame.Reader, m *received, place bool) (complete bool, err error) {
	m.Release = func() {}
	head, n, split := r.Split()
	if !place || !split || n < MinPlaced || c.placer == nil {
		if r.BodySize() == 0 {
			return true, nil
		}
		buf := frame.GetBuffer(r.BodySize())
		m.Release = buf.ReleaseFunc()
		var data []byte
		m.Front, m.Middle, data, complete, err = r.Body(buf.B)
		m.setData(data)
		return complete, err
	}
	buf := frame.GetBuffer(head)
	m.Release = buf.ReleaseFunc()
	if m.Front, m.Middle, err = r.Head(buf.B); err != nil {
		return false, err
	}
	if bufs := c.placer.Place(c, &m.Message, n); bufs != nil {
		m.Placed, m.Data = true, bufs
		if have := m.DataLen(); have != n {
			return false, faultf(KindProtocol, "%d bytes of data placed in %d", n, have)
		}
		return r.Data(bufs...)
	}
	// The front is little: it moves to a buffer with the data.
	whole := frame.GetBuffer(head + n)
	f := copy(whole.B, m.Front)
	k := copy(whole.B[f:], m.Middle)
	m.Front, m.Middle = whole.B[:f:f], whole.B[f:f+k:f+k]
	buf.Release()
	m.Release = whole.ReleaseFunc()
	m.setData(whole.B[head:])
	return r.Data(m.Data...)
}

// setData makes b all of the data.
func (m *received) setData(b []byte) {
	if len(b) > 0 {
		m.data[0] = b
		m.Data = m.data[:]
	}
}

func (c *Conn) ack(seq uint64) error {
	done, err := c.out.ack(seq, c.fading)
	c.settle(done)
	return err
}
