package mon

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"capstan/cephfs/cephtest"
	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

func bare() *Client {
	return &Client{commands: map[uint64]*pending{}, versions: map[uint64]*pending{}}
}

// A caller whose context ended may use its buffer again, while the command is
// still on its way.
func TestInputIsCopied(t *testing.T) {
	c := bare()
	input := []byte("a CRUSH map")
	c.mu.Lock()
	defer c.mu.Unlock()
	p, _, err := c.commandLocked(&Command{Args: Args{"prefix": "osd setcrushmap"}, Input: input}, "{}")
	if err != nil {
		t.Fatal(err)
	}
	before := p.message()
	clear(input)
	for _, m := range []*msgr.Message{before, p.message()} {
		if got := string(flatten(m.Data)); got != "a CRUSH map" {
			t.Errorf("%q is sent", got)
		}
	}
}

// ends is a dispatcher that waits for the end only.
type ends chan struct{}

func (ends) Ready(*msgr.Conn)                  {}
func (ends) Receive(*msgr.Conn, *msgr.Message) {}
func (ends) RemoteReset(*msgr.Conn)            {}
func (e ends) Closed(*msgr.Conn, error)        { close(e) }

// A command that a closed connection did not take was not sent, whatever
// becomes of the connection: it waits for the next monitor.
func TestCommandNotSent(t *testing.T) {
	m := msgr.New(msgr.Options{Auth: &cephtest.StaticAuth{}, Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
		return nil, errors.New("nobody there")
	}})
	defer m.Close()
	ended := make(ends)
	addr := denc.AddrVec{{Type: denc.AddrMsgr2, Host: netip.MustParseAddrPort("192.0.2.1:3300")}}
	conn, err := m.Connect(denc.TypeMon, addr, msgr.Lossy, ended)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	<-ended

	c := bare()
	c.mu.Lock()
	defer c.mu.Unlock()
	// The end of the connection is not known to the client yet.
	c.monmap, c.active = &MonMap{}, &monSession{c: c, conn: conn}
	p, tid, err := c.commandLocked(&Command{Args: Args{"prefix": "osd pool create"}}, "{}")
	if err != nil {
		t.Fatal(err)
	}
	c.active = nil
	c.sessionLostLocked()
	select {
	case <-p.done:
		t.Errorf("ended with %v", p.err)
	default:
	}
	if c.commands[tid] != p || p.sent {
		t.Errorf("sent %v, waits %v", p.sent, c.commands[tid] == p)
	}
}
