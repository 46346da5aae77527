package nfs3

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"capstan/export"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

// sendRaw sends a call with an xid of the test's choice.
func sendRaw(t *testing.T, nc net.Conn, xid, proc uint32, cred rpc.Credential, args args3) {
	t.Helper()
	var e xdr.Encoder
	for _, v := range []uint32{0, xid, 0, 2, Program, 3, proc} {
		e.Uint32(v)
	}
	cred.AppendTo(&e)
	e.Uint64(0) // verf
	e.Append(args)
	e.Patch32(0, 1<<31|uint32(e.Len()-4))
	if _, err := nc.Write(e.Bytes()); err != nil {
		t.Fatal(err)
	}
}

// receiveRaw returns the results of the next reply.
func receiveRaw(t *testing.T, nc net.Conn, xid uint32) []byte {
	t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:])&^(1<<31))
	if _, err := io.ReadFull(nc, b); err != nil {
		t.Fatal(err)
	}
	if got := binary.BigEndian.Uint32(b); got != xid {
		t.Fatalf("xid %d, want %d", got, xid)
	}
	return b[24:]
}

func dialRaw(t *testing.T, addr net.Addr) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc
}

// TestSentAgain: a call sent again on another connection is answered as it was,
// whatever has happened since; another call of the same xid is run.
func TestSentAgain(t *testing.T) {
	for proc := uint32(1); proc < uint32(len(procedures)); proc++ {
		if !procedures[proc].once {
			continue
		}
		b := newBed(t)
		s := subjects[proc]
		args := s.args(b.target(proc), s.name)
		addr := listen(t, b)
		one := dialRaw(t, addr)
		sendRaw(t, one, 77, proc, superuser, args)
		first := receiveRaw(t, one, 77)
		if r, err := parseReply(proc, first); err != nil || r.status != OK {
			t.Fatalf("%s: %v, %+v", procedures[proc].name, err, r)
		}
		one.Close()
		two := dialRaw(t, addr)
		sendRaw(t, two, 77, proc, superuser, args)
		if again := receiveRaw(t, two, 77); !bytes.Equal(again, first) {
			t.Errorf("%s sent again: %x, was %x", procedures[proc].name, again, first)
		}
		if proc == procSetAttr || proc == procRename {
			continue // these do again what they did, or find a new name
		}
		for name, send := range map[string]func(){
			"xid":  func() { sendRaw(t, two, 78, proc, superuser, args) },
			"user": func() { sendRaw(t, two, 78, proc, nobody, args) },
		} {
			send()
			if r, err := parseReply(proc, receiveRaw(t, two, 78)); err != nil || r.status == OK {
				t.Errorf("%s with another %s: %v, answered as if it were the same", procedures[proc].name, name, err)
			}
		}
	}
}

// TestSentAgainWhileRunning: the second waits for the first and gets its reply.
func TestSentAgainWhileRunning(t *testing.T) {
	r := newReplayCache(4)
	k := replayKey{addr: netip.MustParseAddr("192.0.2.1"), xid: 1}
	synctest.Test(t, func(t *testing.T) {
		_, run := r.begin(t.Context(), k)
		got := make(chan []byte)
		go func() {
			reply, again := r.begin(t.Context(), k)
			if again != nil {
				t.Error("the call runs twice")
			}
			got <- reply
		}()
		synctest.Wait()
		r.finish(k, run, []byte("reply"))
		if reply := <-got; string(reply) != "reply" {
			t.Errorf("%q", reply)
		}
	})
	// One that is left alone by its own connection is nobody's.
	_, run := r.begin(t.Context(), replayKey{xid: 2})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if reply, again := r.begin(ctx, replayKey{xid: 2}); reply != nil || again != nil {
		t.Error("an answer although the connection is gone")
	}
	// A call that changed nothing is run by the one that waited.
	r.finish(replayKey{xid: 2}, run, nil)
	if _, again := r.begin(t.Context(), replayKey{xid: 2}); again == nil {
		t.Error("not run again")
	}
}

func TestReplayIsBounded(t *testing.T) {
	r := newReplayCache(4)
	now := time.Unix(1e9, 0)
	r.now = func() time.Time { return now }
	done := func(xid uint32) { // runs or repeats a call
		reply, run := r.begin(t.Context(), replayKey{xid: xid})
		if run != nil {
			r.finish(replayKey{xid: xid}, run, []byte{byte(xid)})
		} else if len(reply) != 1 || reply[0] != byte(xid) {
			t.Errorf("reply %x of call %d", reply, xid)
		}
	}
	for xid := range uint32(100) {
		done(xid)
	}
	if r.lru.Len() != 4 {
		t.Errorf("%d replies kept", r.lru.Len())
	}
	now = now.Add(replayTime + 1)
	if _, run := r.begin(t.Context(), replayKey{xid: 99}); run == nil {
		t.Error("a reply is kept beyond its time")
	}
}

// TestJukeboxIsNotKept: a client that was told to come back is not told so for
// ever.
func TestJukeboxIsNotKept(t *testing.T) {
	b := newBed(t)
	b.vol.fail["Mkdir"] = export.ErrDelay
	nc := dialRaw(t, listen(t, b))
	args := enc().fh(b.root).str("d").sattr(plain)
	for _, want := range []Status{ErrJukebox, OK} {
		sendRaw(t, nc, 5, procMkdir, superuser, args)
		r, err := parseReply(procMkdir, receiveRaw(t, nc, 5))
		if err != nil || r.status != want {
			t.Errorf("%v, %v, want %v", err, r.status, want)
		}
		delete(b.vol.fail, "Mkdir")
	}
}
