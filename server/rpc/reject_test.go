package rpc

import (
	"strings"
	"testing"

	"capstan/server/xdr"
)

// TestAnswers checks the bytes of every reply that RFC 5531 section 9 names.
func TestAnswers(t *testing.T) {
	const xid = 0x1234
	accepted := func(stat uint32, more ...uint32) []byte {
		return words(append([]uint32{xid, 1, 0, 0, 0, stat}, more...)...)
	}
	authError := func(stat uint32) []byte { return words(xid, 1, 1, 1, stat) }
	call := func(cred ...uint32) []byte {
		return words(append([]uint32{xid, 0, 2, testProgram, 3, procNull}, cred...)...)
	}
	sys := func(machine string, groups, extra int) []byte {
		var body, e xdr.Encoder
		body.Uint32(7)
		body.String(machine)
		body.Uint32(1000)
		body.Uint32(100)
		body.Uint32(uint32(groups))
		for i := range groups + extra {
			body.Uint32(uint32(i))
		}
		e.Append(call(1))
		e.Opaque(body.Bytes())
		e.Uint32(0)
		e.Uint32(0)
		return e.Bytes()
	}
	tests := []struct {
		name string
		call []byte
		want []byte
	}{
		{"success", rawCall(xid, testProgram, 3, procNull), accepted(0)},
		{"second version", rawCall(xid, testProgram, 4, procNull), accepted(0)},
		{"program unavailable", rawCall(xid, testProgram+1, 3, 0), accepted(1)},
		{"version below", rawCall(xid, testProgram, 2, 0), accepted(2, 3, 4)},
		{"version above", rawCall(xid, testProgram, 5, 0), accepted(2, 3, 4)},
		{"procedure unavailable", rawCall(xid, testProgram, 3, 99), accepted(3)},
		{"garbage arguments", rawCall(xid, testProgram, 3, procEcho, 100), accepted(4)},
		{"trailing arguments", rawCall(xid, testProgram, 3, procEcho, 0, 1), accepted(4)},
		{"results of a failed call dropped", rawCall(xid, testProgram, 3, procGarbage), accepted(4)},
		{"header ends in program", words(xid, 0, 2, testProgram), accepted(4)},
		{"header ends in procedure", words(xid, 0, 2, testProgram, 3), accepted(4)},
		{"panic", rawCall(xid, testProgram, 3, procPanic), accepted(5)},
		{"goroutine ended", rawCall(xid, testProgram, 3, procGoexit), accepted(5)},
		{"RPC version 1", words(xid, 0, 1, testProgram, 3, 0, 0, 0, 0, 0), words(xid, 1, 1, 0, 2, 2)},
		{"RPC version 3, header short", words(xid, 0, 3), words(xid, 1, 1, 0, 2, 2)},
		{"denied by the program", rawCall(xid, testProgram, 3, procDeny), authError(5)},

		{"AUTH_SYS", sys("host", 16, 0), accepted(0)},
		{"AUTH_SYS longest machine name", sys(strings.Repeat("m", 255), 0, 0), accepted(0)},
		{"AUTH_SYS machine name too long", sys(strings.Repeat("m", 256), 0, 0), authError(1)},
		{"AUTH_SYS too many groups", sys("host", 17, 0), authError(1)},
		{"AUTH_SYS groups missing", sys("host", 5, -1), authError(1)},
		{"AUTH_SYS bytes left over", sys("host", 5, 1), authError(1)},
		{"AUTH_SYS empty body", call(1, 0, 0, 0), authError(1)},
		{"AUTH_NONE with a body", call(0, 4, 0, 0, 0), authError(1)},
		{"credential body too long", call(1, 404, 0, 0, 0), authError(1)},
		{"credential missing", call(), authError(1)},
		{"credential body short", call(1, 40, 0), authError(1)},
		{"AUTH_SHORT", call(2, 0, 0, 0), authError(2)},
		{"AUTH_DH", call(3, 4, 0, 0, 0), authError(2)},
		{"RPCSEC_GSS", call(6, 4, 0, 0, 0), authError(2)},
		{"AUTH_TLS", call(7, 0, 0, 0), authError(2)},
		{"unknown flavor", call(0xffffffff, 0, 0, 0), authError(2)},
		{"verifier missing", call(0, 0), authError(3)},
		{"verifier of another flavor", call(0, 0, 1, 0), authError(3)},
		{"verifier with a body", call(0, 0, 0, 4, 0), authError(3)},
		{"verifier body too long", call(0, 0, 0, 404), authError(3)},
	}
	s := newTestServer(t, Options{})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := s.pipe()
			send(t, c, marked(test.call))
			equal(t, "reply", receive(t, c), test.want)
			// The connection is still good.
			send(t, c, marked(rawCall(xid, testProgram, 3, procNull)))
			equal(t, "next reply", receive(t, c), accepted(0))
		})
	}
}

// TestNotMessages checks that what cannot be answered ends the connection.
func TestNotMessages(t *testing.T) {
	for _, test := range []struct {
		name   string
		stream []byte
		reason error
	}{
		{"empty record", marked(nil), ErrBadMessage},
		{"xid only", marked(words(1)), ErrBadMessage},
		{"no RPC version", marked(words(1, 0)), ErrBadMessage},
		{"neither call nor reply", marked(words(1, 2, 2)), ErrBadMessage},
		{"record above the limit", words(lastFragment | 4097), ErrRecordTooLong},
		{"longest fragment", words(0xffffffff), ErrRecordTooLong},
		{"fragments above the limit", append(fragmented(make([]byte, 4096), 4095)[:4099], words(2)...), ErrRecordTooLong},
		{"empty fragments", make([]byte, 4*(maxEmptyFragments+2)), ErrEmptyFragments},
		{"text", []byte("GET / HTTP/1.1\r\n\r\n"), ErrRecordTooLong},
	} {
		t.Run(test.name, func(t *testing.T) {
			watch := newWatch()
			s := newTestServer(t, Options{MaxRecord: 4096, Observer: watch})
			c := s.pipe()
			send(t, c, test.stream)
			closed(t, c)
			watch.closedFor(t, test.reason)
		})
	}
}

// TestReplyIgnored checks that a reply without a call does no harm.
func TestReplyIgnored(t *testing.T) {
	s := newTestServer(t, Options{MaxInFlight: 1, MaxInFlightPerConn: 1})
	c := s.pipe()
	for range 3 {
		send(t, c, marked(words(1, 1, 0, 0, 0, 0)))
	}
	send(t, c, marked(rawCall(9, testProgram, 3, procNull)))
	equal(t, "reply", receive(t, c), words(9, 1, 0, 0, 0, 0))
}
