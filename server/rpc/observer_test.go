package rpc

import (
	"errors"
	"io"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// watch is an Observer that tests ask.
type watch struct {
	mu      sync.Mutex
	opened  int
	refused []error
	calls   []CallInfo
	ended   chan error
}

func newWatch() *watch { return &watch{ended: make(chan error, 4096)} }

func (w *watch) ConnOpened(*Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opened++
}
func (w *watch) ConnClosed(_ *Conn, reason error) { w.ended <- reason }
func (w *watch) ConnRefused(_ netip.AddrPort, reason error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = append(w.refused, reason)
}
func (w *watch) CallDone(i CallInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, i)
}

// closedFor checks why the next connection ends.
func (w *watch) closedFor(t testing.TB, want error) {
	t.Helper()
	select {
	case got := <-w.ended:
		if !errors.Is(got, want) {
			t.Errorf("connection closed for %v, want %v", got, want)
		}
	case <-time.After(2 * time.Minute):
		t.Error("connection not closed")
	}
}

// done waits for n calls and returns them.
func (w *watch) done(t testing.TB, n int) []CallInfo {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		calls := w.calls
		w.mu.Unlock()
		if len(calls) >= n {
			return calls
		}
		if time.Now().After(end) {
			t.Fatalf("%d calls done, want %d", len(calls), n)
		}
	}
}

func TestObserver(t *testing.T) {
	w := newWatch()
	s := newTestServer(t, Options{Observer: w, MaxConnsPerHost: 1}).listen()
	c := s.dial(ClientOptions{})
	data := make([]byte, 5000)
	for _, proc := range []uint32{procNull, procDeny, 99} {
		if r, err := c.Call(soon(t), testProgram, 4, proc, nil); err == nil {
			r.Release()
		}
	}
	r := c.NewRequest(testProgram, 3, procEcho)
	r.Args.Opaque(data)
	r.Send()
	reply, err := r.Wait(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	reply.Release()
	second := s.dial(ClientOptions{})
	if _, err := second.Call(soon(t), testProgram, 4, procNull, nil); err == nil {
		t.Error("second connection of a host let in")
	}
	want := []CallInfo{
		{Program: testProgram, Version: 4, Procedure: procNull, In: 40, Out: 28, Sent: true},
		{Program: testProgram, Version: 4, Procedure: procDeny, In: 40, Out: 24, Sent: true, Denied: true, Auth: AuthTooWeak},
		{Program: testProgram, Version: 4, Procedure: 99, In: 40, Out: 28, Sent: true, Stat: ProcUnavail},
		{Program: testProgram, Version: 3, Procedure: procEcho, In: 40 + 5004, Out: 28 + 5004, Sent: true},
	}
	for i, got := range w.done(t, len(want)) {
		if got.Total < got.Run || got.Run < 0 || got.Total == 0 {
			t.Errorf("call %d: run %v, total %v", i, got.Run, got.Total)
		}
		got.Run, got.Total = 0, 0
		if got != want[i] {
			t.Errorf("call %d:\n got %+v\nwant %+v", i, got, want[i])
		}
	}
	c.Close()
	w.closedFor(t, io.EOF)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.opened != 1 || len(w.refused) != 1 || w.refused[0] != ErrTooManyFromHost {
		t.Errorf("opened %d, refused %v", w.opened, w.refused)
	}
}
