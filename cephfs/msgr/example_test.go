package msgr_test

import (
	"fmt"

	"capstan/cephfs/cephtest"
	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

// printer prints what it receives.
type printer struct{ answered chan struct{} }

func (p *printer) Ready(c *msgr.Conn) { fmt.Println("connected to", c.PeerName()) }

func (p *printer) Receive(_ *msgr.Conn, m *msgr.Message) {
	fmt.Printf("message of type %d: %s\n", m.Type, m.Front)
	m.Release()
	close(p.answered)
}

func (p *printer) RemoteReset(*msgr.Conn)         {}
func (p *printer) Closed(_ *msgr.Conn, err error) { fmt.Println("closed:", err) }

// A client asks, and a scripted monitor answers.
func Example() {
	network := cephtest.NewNetwork()
	addr, _ := denc.ParseAddr("v2:192.0.2.1:3300/0")
	mon := network.NewPeer(cephtest.Config{
		Type: denc.TypeMon, Num: 0, Addrs: denc.AddrVec{addr},
		OnMessage: func(s *cephtest.Stream, m *msgr.Message) {
			s.Send(&msgr.Message{Type: m.Type + 1, Front: []byte("re: " + string(m.Front))})
		},
	})
	defer mon.Close()

	m := msgr.New(msgr.Options{Auth: &cephtest.StaticAuth{}, Dial: network.Dial})
	defer m.Close()
	p := &printer{answered: make(chan struct{})}
	c, err := m.Connect(denc.TypeMon, denc.AddrVec{addr}, msgr.Lossy, p)
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Send(&msgr.Message{Type: 42, Front: []byte("a question")})
	<-p.answered

	// Output:
	// connected to mon.0
	// message of type 43: re: a question
	// closed: <nil>
}
