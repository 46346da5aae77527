package cephtest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
	"capstan/cephfs/msgr/frame"
)

// run is a stream's goroutine.
func (s *Stream) run() {
	defer s.peer.wg.Done()
	defer close(s.gone)
	err := s.serve()
	s.mu.Lock()
	s.ready, s.ended = false, true
	s.change.Broadcast()
	s.mu.Unlock()
	s.peer.mu.Lock()
	delete(s.peer.live, s)
	s.peer.mu.Unlock()
	s.conn.Close()
	if s.peer.cfg.OnEnd != nil {
		s.peer.cfg.OnEnd(s, err)
	}
}

// serve is the server's side of a stream, from the banner to its end.
func (s *Stream) serve() error {
	banner := s.peer.cfg.Banner
	if banner == nil {
		banner = frame.Banner{Supported: frame.FeatureRevision1}.Append(nil)
	}
	if err := s.SendRaw(banner); err != nil {
		return err
	}
	if _, err := s.r.Banner(); err != nil {
		return err
	}
	seenAt, err := denc.ParseAddr("any:" + s.conn.remote.String() + "/0")
	if err != nil {
		return err
	}
	if err := s.send(frame.Hello{Type: s.peer.cfg.Type, Addr: seenAt}); err != nil {
		return err
	}
	for {
		p, err := s.r.Next()
		if err != nil {
			return err
		}
		if p.Tag == frame.TagMessage {
			if err := s.message(p); err != nil {
				return err
			}
			continue
		}
		payload := bytes.Clone(s.r.First())
		if s.peer.cfg.Incoming != nil && !s.peer.cfg.Incoming(s, p.Tag, payload) {
			continue
		}
		if err := s.control(p.Tag, payload); err != nil {
			return err
		}
	}
}

func (s *Stream) control(tag frame.Tag, payload []byte) error {
	switch tag {
	case frame.TagHello:
		_, err := frame.DecodeHello(payload)
		return err
	case frame.TagAuthRequest:
		m, err := frame.DecodeAuthRequest(payload)
		if err != nil {
			return err
		}
		modes := make([]msgr.AuthMode, len(m.Modes))
		for i, v := range m.Modes {
			modes[i] = msgr.AuthMode(v)
		}
		return s.answer(s.peer.cfg.Auth.Request(s, m.Method, modes, m.Payload))
	case frame.TagAuthRequestMore:
		m, err := frame.DecodeAuthRequestMore(payload)
		if err != nil {
			return err
		}
		return s.answer(s.peer.cfg.Auth.More(s, m.Payload))
	case frame.TagClientIdent:
		return s.ident(payload)
	case frame.TagSessionReconnect:
		return s.reconnect(payload)
	case frame.TagAck:
		seq, err := frame.DecodeNumber(tag, payload)
		if err != nil {
			return err
		}
		s.acked(seq)
		return nil
	case frame.TagKeepalive2:
		return s.sendHooked(Frame{Tag: frame.TagKeepalive2Ack, Payload: payload})
	case frame.TagKeepalive2Ack:
		return nil
	}
	return fmt.Errorf("cephtest: the client sent %v", tag)
}

// answer takes a step of the authentication. After the last one it reads the
// client's signature and checks it.
func (s *Stream) answer(a AuthAnswer) error {
	switch {
	case a.Bad != nil:
		return s.send(*a.Bad)
	case a.Done == nil:
		return s.send(frame.AuthReplyMore{Payload: a.More})
	}
	d := a.Done
	received := bytes.Clone(s.r.Recorded())
	if err := s.send(frame.AuthDone{GlobalID: d.GlobalID, Mode: uint32(d.Mode), Payload: d.Payload}); err != nil {
		return err
	}
	s.mu.Lock()
	expect := sign(d.Key, s.w.Recorded())
	s.r.StopRecording()
	s.w.StopRecording()
	var err error
	if d.Mode == msgr.ModeSecure {
		err = frame.Secure(s.r, s.w, d.Secret, true)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.send(sign(d.Key, received)); err != nil {
		return err
	}
	p, err := s.r.Next()
	if err != nil {
		return err
	}
	sig, err := frame.DecodeSignature(s.r.First())
	if p.Tag != frame.TagAuthSignature || err != nil || sig != expect {
		return errors.Join(errors.New("cephtest: the client's signature is wrong"), err)
	}
	return nil
}

func sign(key, record []byte) (s frame.Signature) {
	if len(key) > 0 {
		mac := hmac.New(sha256.New, key)
		mac.Write(record)
		mac.Sum(s[:0])
	}
	return s
}

func (s *Stream) ident(payload []byte) error {
	m, err := frame.DecodeClientIdent(payload)
	if err != nil {
		return err
	}
	cfg := &s.peer.cfg
	if missing := cfg.Required &^ m.Supported; missing != 0 {
		return s.send(frame.Number{Of: frame.TagIdentMissingFeatures, Value: missing})
	}
	if len(m.Addrs) == 0 || m.Addrs[0].IsBlank() {
		return errors.New("cephtest: the client gave no address")
	}
	s.addrs, s.features = m.Addrs, m.Supported&cfg.Supported
	s.client = denc.Name{Type: denc.TypeClient, Num: m.GlobalID}
	answer := frame.ServerIdent{
		Addrs: cfg.Addrs, GlobalID: cfg.Num, GlobalSeq: 1,
		Supported: cfg.Supported, Required: cfg.Required,
	}
	if cfg.Lossless {
		s.sess = s.peer.newSession(s, m.Cookie, m.GlobalSeq)
		answer.Cookie = s.sess.serverCookie
	} else {
		answer.Flags = frame.FlagLossy
	}
	return s.start(answer)
}

func (s *Stream) reconnect(payload []byte) error {
	m, err := frame.DecodeReconnect(payload)
	if err != nil {
		return err
	}
	x, refused := s.peer.resume(s, m)
	if refused != nil {
		return s.sendHooked(*refused)
	}
	s.addrs, s.sess = m.Addrs, x
	s.client = denc.Name{Type: denc.TypeClient, Num: denc.NoNum}
	s.peer.mu.Lock()
	in := x.inSeq
	s.peer.mu.Unlock()
	return s.start(frame.Number{Of: frame.TagSessionReconnectOK, Value: in})
}

// start sends the last frame of the handshake and replays what the client may
// not have.
func (s *Stream) start(last frame.Payload) error {
	if err := s.send(last); err != nil {
		return err
	}
	if s.sess == nil {
		s.mu.Lock()
		s.ready = true
		s.mu.Unlock()
	} else {
		p, x := s.peer, s.sess
		p.mu.Lock()
		again := append([]*msgr.Message(nil), x.unacked...)
		first, in := x.outSeq-uint64(len(again))+1, x.inSeq
		s.mu.Lock()
		p.mu.Unlock()
		s.ready = true
		for i, m := range again {
			if err := s.write(m, first+uint64(i), in); err != nil {
				s.mu.Unlock()
				return err
			}
		}
		s.mu.Unlock()
	}
	if s.peer.cfg.OnReady != nil {
		s.peer.cfg.OnReady(s)
	}
	return nil
}

func (s *Stream) acked(seq uint64) {
	if s.sess != nil {
		s.peer.mu.Lock()
		s.sess.trim(seq)
		s.peer.mu.Unlock()
	}
}

func (s *Stream) message(p frame.Preamble) error {
	var h frame.Header
	h.Parse(s.r.First())
	front, middle, data, complete, err := s.r.Body(make([]byte, s.r.BodySize()))
	if err != nil || !complete {
		return err
	}
	s.acked(h.AckSeq)
	m := &msgr.Message{
		Type: h.Type, Priority: h.Priority, Version: h.Version, Compat: h.Compat, Tid: h.Tid, Seq: h.Seq,
		Front: front, Middle: middle, Release: func() {},
	}
	if len(data) > 0 {
		m.Data = [][]byte{data}
	}
	if x := s.sess; x != nil {
		s.peer.mu.Lock()
		old, now := h.Seq <= x.inSeq, x.stream == s
		if !old && now {
			x.inSeq = h.Seq
		}
		s.peer.mu.Unlock()
		if !now {
			return errors.New("cephtest: the client has a newer stream")
		}
		if old {
			return nil
		}
	} else {
		if h.Seq != s.inSeq+1 {
			return fmt.Errorf("cephtest: message %d after %d", h.Seq, s.inSeq)
		}
		s.inSeq = h.Seq
	}
	if s.peer.cfg.OnMessage != nil {
		s.peer.cfg.OnMessage(s, m)
	}
	if s.sess != nil {
		return s.sendHooked(Frame{Tag: frame.TagAck, Payload: binary.LittleEndian.AppendUint64(nil, h.Seq)})
	}
	return nil
}
