package cephtest_test

import (
	"fmt"

	"capstan/cephfs/cephtest"
	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

// tids notes the transaction ids of what it receives.
type tids chan uint64

func (tids) Ready(*msgr.Conn) {}
func (t tids) Receive(_ *msgr.Conn, m *msgr.Message) {
	t <- m.Tid
	m.Release()
}
func (tids) RemoteReset(*msgr.Conn)   {}
func (tids) Closed(*msgr.Conn, error) {}

// A peer that loses request 2, answers the others in reverse, and whose first
// connection breaks in the middle of the handshake.
func Example() {
	network := cephtest.NewNetwork()
	addr, _ := denc.ParseAddr("v2:192.0.2.7:6800/1")
	var held []*msgr.Message
	peer := network.NewPeer(cephtest.Config{
		Type: denc.TypeMDS, Addrs: denc.AddrVec{addr}, Lossless: true,
		OnStream: func(s *cephtest.Stream, n int) {
			if n == 1 {
				s.CutWrite(100)
			}
		},
		OnMessage: func(s *cephtest.Stream, m *msgr.Message) {
			if m.Tid == 2 {
				return
			}
			if held = append(held, m); len(held) == 3 {
				for i := range held {
					s.Send(held[len(held)-1-i])
				}
			}
		},
	})
	defer peer.Close()

	m := msgr.New(msgr.Options{Auth: &cephtest.StaticAuth{}, Dial: network.Dial})
	defer m.Close()
	got := make(tids)
	c, err := m.Connect(denc.TypeMDS, peer.Addrs(), msgr.Lossless, got)
	if err != nil {
		fmt.Println(err)
		return
	}
	for tid := range uint64(4) {
		c.Send(&msgr.Message{Tid: tid + 1})
	}
	fmt.Println(<-got, <-got, <-got, "over", peer.Streams(), "streams")

	// Output:
	// 4 3 1 over 2 streams
}
