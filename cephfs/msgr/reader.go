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
	n := r.BodySize()
	size := n + eventBytes
	if !c.in.admit(size) {
		return ErrClosed
	}
	m := new(received)
	if n > 0 {
		buf := frame.GetBuffer(n)
		front, middle, data, complete, err := r.Body(buf.B)
		if err != nil || !complete {
			buf.Release()
			c.in.forget(size)
			return err
		}
		m.Front, m.Middle = front, middle
		if len(data) > 0 {
			m.data[0] = data
			m.Data = m.data[:]
		}
		m.Release = buf.ReleaseFunc()
	} else {
		m.Release = func() {}
	}
	if err := c.ack(h.AckSeq); err != nil {
		m.drop()
		c.in.forget(size)
		return err
	}
	// After a reconnect the peer may repeat what arrived; it may also skip
	// numbers, of messages it took back.
	if h.Seq <= c.sess.inSeq {
		m.drop()
		c.in.forget(size)
		c.log.Debug("message received again", "seq", h.Seq, "last", c.sess.inSeq)
		return nil
	}
	m.Type, m.Priority, m.Version, m.Compat = h.Type, h.Priority, h.Version, h.Compat
	m.Tid, m.Seq = h.Tid, h.Seq
	c.sess.inSeq = h.Seq
	c.received.Store(h.Seq)
	c.in.push(event{kind: eventMessage, m: &m.Message, size: size})
	if !c.lossy {
		c.out.oweAck()
	}
	return nil
}

func (c *Conn) ack(seq uint64) error {
	done, err := c.out.ack(seq, c.fading)
	c.settle(done)
	return err
}
