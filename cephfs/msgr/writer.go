package msgr

import (
	"encoding/binary"
	"runtime"
	"time"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr/frame"
)

// A batch is written with one call. More than this in one gains nothing, and
// holds back acknowledgements and keepalives.
const (
	batchMessages = 128
	batchBytes    = 1 << 20
)

// write sends what is queued until the stream fails or gone is closed.
func (c *Conn) write(s *stream, w *frame.Writer, gone <-chan struct{}) error {
	interval := min(c.m.opts.KeepaliveInterval, s.timeout/3)
	alive := time.NewTicker(interval)
	defer alive.Stop()
	var (
		job     work
		fading  []*Message
		payload [8]byte
	)
	for {
		c.out.take(&job, batchMessages, batchBytes)
		received := c.received.Load()
		if job.echo {
			if err := w.Control(frame.TagKeepalive2Ack, job.stamp[:]); err != nil {
				return err
			}
		}
		if job.ack && len(job.msgs) == 0 { // else each message carries it
			binary.LittleEndian.PutUint64(payload[:], received)
			if err := w.Control(frame.TagAck, payload[:]); err != nil {
				return err
			}
		}
		for i, m := range job.msgs {
			h := frame.Header{
				Seq: job.first + uint64(i), Tid: m.Tid, Type: m.Type, Priority: m.Priority,
				Version: m.Version, Compat: m.Compat, AckSeq: received,
			}
			if h.Priority == 0 {
				h.Priority = PriorityDefault
			}
			if err := w.Message(&h, m.Front, m.Middle, m.Data); err != nil {
				return err
			}
		}
		if w.Len() > 0 {
			if err := s.flush(w); err != nil {
				return err
			}
			if len(job.msgs) > 0 {
				clear(job.msgs)
				fading = c.out.wrote(fading[:0])
				for i, m := range fading {
					m.sent()
					fading[i] = nil
				}
			}
			select {
			case <-gone:
				return nil
			case <-alive.C:
			default:
				continue
			}
		} else {
			select {
			case <-gone:
				return nil
			case <-c.out.wake:
				// Others that can run now may have messages too.
				runtime.Gosched()
				continue
			case <-alive.C:
			}
		}
		var e denc.Encoder
		e.Time(time.Now())
		if err := w.Control(frame.TagKeepalive2, e.Data()); err != nil {
			return err
		}
	}
}
