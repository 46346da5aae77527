package cephtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/google/uuid"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
	"capstan/cephfs/msgr/frame"
)

// Types of messages of monitors (CEPH_MSG_*, MSG_*).
const (
	typeMonMap          = 4
	typeMonSubscribe    = 15
	typeMonSubscribeAck = 16
	typeAuth            = 17
	typeAuthReply       = 18
	typeGetVersion      = 19
	typeGetVersionReply = 20
	typeMonCommand      = 50
	typeMonCommandAck   = 51
	typeCommand         = 97
	typeCommandReply    = 98
	typeMgrCommand      = 0x709
	typeMgrCommandReply = 0x70a
)

// Monitors are the monitors of one cluster. Each answers subscriptions with
// what was published, questions for versions, requests for tickets, and
// commands by a hook. Methods may be called from any goroutine.
type Monitors struct {
	Auth *Cephx
	FSID uuid.UUID

	net *Network

	mu        sync.Mutex
	names     []string                          // guarded by mu; of the monmap
	peers     map[string]*Peer                  // guarded by mu; those that run
	published map[string]publication            // guarded by mu
	subs      map[*Stream]map[string]uint64     // guarded by mu; the next epoch wanted
	epoch     uint32                            // guarded by mu; of the monmap
	onCommand func(*Stream, *CommandCall)       // guarded by mu
	onMessage func(*Stream, *msgr.Message) bool // guarded by mu
	onStream  func(*Stream)                     // guarded by mu
	frozen    map[string]bool                   // guarded by mu
	hosts     map[string]denc.AddrVec           // constant
}

type publication struct {
	typ   uint16
	epoch uint64
	front []byte
}

// NewMonitors starts monitors of the given names at addresses from
// 192.0.2.1:3300 on. [Monitors.Close] ends them.
func (n *Network) NewMonitors(x *Cephx, names ...string) *Monitors {
	m := &Monitors{
		Auth: x, FSID: uuid.New(), net: n, names: names, epoch: 1,
		peers: map[string]*Peer{}, published: map[string]publication{}, subs: map[*Stream]map[string]uint64{},
		hosts: map[string]denc.AddrVec{}, frozen: map[string]bool{},
	}
	for i, name := range names {
		m.hosts[name] = denc.AddrVec{{Type: denc.AddrMsgr2, Host: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 3300)}}
	}
	m.publishMonMap()
	for _, name := range names {
		m.Start(name)
	}
	return m
}

// Addrs are the monitors' addresses.
func (m *Monitors) Addrs() []denc.AddrVec {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []denc.AddrVec
	for _, name := range m.names {
		all = append(all, m.hosts[name])
	}
	return all
}

// Start lets a monitor run that was not started or was stopped. Each change
// may make another peer of it than monitors are.
func (m *Monitors) Start(name string, change ...func(*Config)) {
	m.mu.Lock()
	num, addrs := int64(slices.Index(m.names, name)), m.hosts[name]
	m.mu.Unlock()
	cfg := Config{
		Type: denc.TypeMon, Num: num, Addrs: addrs,
		Auth:      m.Auth.ServerAuth(denc.TypeMon),
		OnMessage: m.message,
		OnStream: func(s *Stream, _ int) {
			m.mu.Lock()
			f := m.onStream
			m.mu.Unlock()
			if f != nil {
				f(s)
			}
		},
		Incoming: func(s *Stream, _ frame.Tag, _ []byte) bool { return !m.isFrozen(s) },
		OnEnd: func(s *Stream, _ error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.subs, s)
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	p := m.net.NewPeer(cfg)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peers[name] = p
}

// Freeze has a monitor take everything on its connections and answer nothing,
// keepalives neither; new ones it takes and leaves.
func (m *Monitors) Freeze(name string, frozen bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen[name] = frozen
}

func (m *Monitors) isFrozen(s *Stream) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, p := range m.peers {
		if p == s.Peer() {
			return m.frozen[name]
		}
	}
	return false
}

// Peer is a running monitor, or nil.
func (m *Monitors) Peer(name string) *Peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peers[name]
}

// Stop ends a monitor.
func (m *Monitors) Stop(name string) {
	m.mu.Lock()
	p := m.peers[name]
	delete(m.peers, name)
	m.mu.Unlock()
	if p != nil {
		p.Close()
	}
}

// Close ends all monitors.
func (m *Monitors) Close() {
	m.mu.Lock()
	running := slices.Collect(maps.Keys(m.peers))
	m.mu.Unlock()
	for _, name := range running {
		m.Stop(name)
	}
}

// CommandCall is a command that a daemon was given.
type CommandCall struct {
	Prefix string
	Args   map[string]any
	Input  []byte

	stream *Stream
	tid    uint64
	typ    uint16
}

// Answer answers the command, at once or later.
func (c *CommandCall) Answer(result int32, status string, output []byte) error {
	var e denc.Encoder
	typ := uint16(typeCommandReply)
	switch c.typ {
	case typeMonCommand:
		typ = typeMonCommandAck
		e.Raw(make([]byte, 8+2+8))
	case typeMgrCommand:
		typ = typeMgrCommandReply
	}
	e.Int32(result)
	e.String(status)
	if c.typ == typeMonCommand {
		e.Count(0)
	}
	r := &msgr.Message{Type: typ, Version: 1, Tid: c.tid, Front: e.Data()}
	if len(output) > 0 {
		r.Data = [][]byte{output}
	}
	return c.stream.Send(r)
}

// Call reads m as a command to a daemon; nil if it is none. For scripts of
// other daemons than monitors.
func Call(s *Stream, m *msgr.Message) *CommandCall {
	d := denc.NewDecoder(m.Front)
	switch m.Type {
	case typeMonCommand:
		d.Skip("paxos", 8+2+8)
	case typeCommand, typeMgrCommand:
	default:
		return nil
	}
	d.FSID("fsid")
	c := &CommandCall{stream: s, tid: m.Tid, typ: m.Type}
	for range d.Count("cmd", 4) {
		if err := json.Unmarshal(d.Bytes("cmd"), &c.Args); err != nil {
			return nil
		}
	}
	if d.Finish() != nil {
		return nil
	}
	c.Prefix, _ = c.Args["prefix"].(string)
	for _, b := range m.Data {
		c.Input = append(c.Input, b...)
	}
	return c
}

// OnCommand sets what becomes of commands. Without it they are answered with
// no output.
func (m *Monitors) OnCommand(f func(*Stream, *CommandCall)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onCommand = f
}

// OnMessage sets a hook that sees each message first; true takes it away.
func (m *Monitors) OnMessage(f func(*Stream, *msgr.Message) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onMessage = f
}

// OnStream sets a hook that sees each connection before its first byte.
func (m *Monitors) OnStream(f func(*Stream)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onStream = f
}

// Publish makes the message with this front the present state of a subject,
// and sends it to those who wait for its epoch.
func (m *Monitors) Publish(what string, typ uint16, epoch uint64, front []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.published[what] = publication{typ, epoch, front}
	for s := range m.subs {
		m.tell(s, what)
	}
}

// tell sends a stream what it waits for. m.mu is held.
func (m *Monitors) tell(s *Stream, what string) {
	p, ok := m.published[what]
	next, wants := m.subs[s][what]
	if !ok || !wants || next > p.epoch {
		return
	}
	m.subs[s][what] = p.epoch + 1
	s.Send(&msgr.Message{Type: p.typ, Version: 4, Front: p.front})
}

// SetMonMap publishes a monmap with these monitors only.
func (m *Monitors) SetMonMap(names ...string) {
	m.mu.Lock()
	m.names = names
	m.epoch++
	m.mu.Unlock()
	m.publishMonMap()
}

func (m *Monitors) publishMonMap() {
	m.mu.Lock()
	epoch := m.epoch
	var e denc.Encoder
	sized := e.Sized()
	s := e.Struct(9, 6)
	e.FSID(m.FSID)
	e.Uint32(epoch)
	e.Uint64(0)
	e.Uint64(0)
	for range 2 {
		f := e.Struct(1, 1)
		e.Uint64(0)
		e.End(f)
	}
	e.Count(len(m.names))
	for _, name := range m.names {
		e.String(name)
		i := e.Struct(4, 1)
		e.String(name)
		e.AddrVec(m.hosts[name])
		e.Uint16(0)
		e.Uint16(0)
		e.End(i)
	}
	e.Count(len(m.names))
	for _, name := range m.names {
		e.String(name)
	}
	e.Uint8(16)
	e.End(s)
	e.End(sized)
	m.mu.Unlock()
	m.Publish("monmap", typeMonMap, uint64(epoch), e.Data())
}

// message is the script of each monitor.
func (m *Monitors) message(s *Stream, msg *msgr.Message) {
	if m.isFrozen(s) {
		return
	}
	m.mu.Lock()
	first, command := m.onMessage, m.onCommand
	m.mu.Unlock()
	if first != nil && first(s, msg) {
		return
	}
	d := denc.NewDecoder(msg.Front)
	switch msg.Type {
	case typeMonSubscribe:
		m.subscribe(s, d)
	case typeAuth:
		d.Skip("paxos", 8+2+8)
		method := d.Uint32("method")
		result, payload := m.Auth.Renew(d.Bytes("payload"))
		var e denc.Encoder
		e.Uint32(method)
		e.Int32(result)
		e.Uint64(0)
		e.Bytes(payload)
		e.String("")
		s.Send(&msgr.Message{Type: typeAuthReply, Version: 1, Front: e.Data()})
	case typeGetVersion:
		handle, what := d.Uint64("handle"), d.String("what")
		m.mu.Lock()
		epoch := m.published[what].epoch
		m.mu.Unlock()
		var e denc.Encoder
		e.Uint64(handle)
		e.Uint64(epoch)
		e.Uint64(1)
		s.Send(&msgr.Message{Type: typeGetVersionReply, Version: 2, Front: e.Data()})
	default:
		c := Call(s, msg)
		switch {
		case c == nil:
		case command != nil:
			command(s, c)
		default:
			c.Answer(0, "", nil)
		}
	}
}

func (m *Monitors) subscribe(s *Stream, d *denc.Decoder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.subs[s] == nil {
		m.subs[s] = map[string]uint64{}
	}
	var what []string
	for range d.Count("what", 4+8+1) {
		w := d.String("what")
		m.subs[s][w] = d.Uint64("start")
		d.Uint8("flags")
		what = append(what, w)
	}
	d.String("hostname")
	if err := d.Finish(); err != nil {
		panic(fmt.Sprintf("cephtest: MMonSubscribe: %v", err))
	}
	for _, w := range what {
		m.tell(s, w)
	}
	var e denc.Encoder
	e.Uint32(300)
	e.FSID(m.FSID)
	s.Send(&msgr.Message{Type: typeMonSubscribeAck, Version: 1, Front: e.Data()})
}
