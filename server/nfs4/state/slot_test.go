package state

import (
	"bytes"
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"capstan/server/nfs4/nfsv4"
)

// A retry of a request that still runs is answered at once and disturbs
// nothing; a server that makes it wait has it wait for ever if the request is
// never finished.
func TestSequenceRetryOfRunningRequest(t *testing.T) { // RFC 8881 section 2.10.6.2
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	args := &SequenceArgs{Session: p.ses, Sequence: p.seq + 1, CacheThis: true, Digest: 7}
	var first, retry SlotUse
	w.want(w.s.Sequence(args, &first), ok, "SEQUENCE")
	for range 3 {
		w.want(w.s.Sequence(args, &retry), nfsv4.ErrDelay, "retry while it runs")
		retry.Finish([]byte("not mine")) // must not end the first
	}
	next := *args
	next.Sequence++
	w.want(w.s.Sequence(&next, &retry), nfsv4.ErrSeqMisordered, "next request while it runs")
	first.Finish([]byte("reply"))
	w.want(w.s.Sequence(args, &retry), ok, "retry when it is done")
	if retry.Action != SlotReplay || string(retry.Replay) != "reply" {
		t.Errorf("action %d, %q", retry.Action, retry.Replay)
	}
	if n := w.s.clients[p.id].gate.running(); n != 0 {
		t.Errorf("%d requests still counted", n)
	}
}

func TestSequenceReplies(t *testing.T) { // RFC 8881 sections 2.10.6.1.1 to .3
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	var u SlotUse
	send := func(seq uint32, cache bool, digest uint64) nfsv4.Status {
		return w.s.Sequence(&SequenceArgs{Session: p.ses, Slot: 3, HighestSlot: 3, Sequence: seq, CacheThis: cache, Digest: digest}, &u)
	}
	w.want(send(0, true, 1), nfsv4.ErrSeqMisordered, "first request with 0")
	w.want(send(2, true, 1), nfsv4.ErrSeqMisordered, "first request with 2")
	w.want(send(1, true, 1), ok, "first request")
	if r := u.Result; r.Session != p.ses || r.Slot != 3 || r.Sequence != 1 || r.HighestSlot != 15 || r.TargetHighestSlot != 15 || r.StatusFlags != 0 {
		t.Errorf("result %+v", r)
	}
	if u.CacheLimit() != 2048 {
		t.Errorf("cache limit %d", u.CacheLimit())
	}
	reply := []byte("one")
	u.Finish(reply)
	u.Finish([]byte("twice")) // does nothing
	copy(reply, "xxx")
	w.want(send(1, true, 1), ok, "retry")
	kept := u.Replay
	if string(kept) != "one" {
		t.Errorf("replay %q", kept)
	}
	w.want(send(1, true, 2), nfsv4.ErrSeqFalseRetry, "another request of the same number")
	w.want(send(2, false, 2), ok, "second request")
	if u.CacheLimit() != 0 {
		t.Error("a limit for a reply that need not be cached")
	}
	u.Finish([]byte("two"))
	if string(kept) != "one" {
		t.Errorf("a replay handed out changed to %q", kept)
	}
	w.want(send(2, false, 2), ok, "retry of an uncached one")
	if u.Action != SlotUncached || u.Result.Sequence != 2 {
		t.Errorf("action %d, %+v", u.Action, u.Result)
	}
	w.want(send(1, true, 1), nfsv4.ErrSeqMisordered, "older request")
	w.want(send(4, true, 1), nfsv4.ErrSeqMisordered, "request from the future")
	w.want(send(3, true, 3), ok, "third request")
	u.Finish(bytes.Repeat([]byte{1}, 2049)) // the engine should not have done that
	w.want(send(3, true, 3), ok, "retry")
	if u.Action != SlotUncached {
		t.Errorf("a reply above the limit was cached")
	}
}

// A client that lost track of a request probes its slot with a SEQUENCE alone.
// As long as the request runs, the answer is to wait.
func TestSequenceProbeOfRunning(t *testing.T) { // RFC 8881 section 2.10.6.2
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	request := SequenceArgs{Session: p.ses, Slot: 3, HighestSlot: 3, Sequence: 1, CacheThis: true, Digest: 1}
	probe := SequenceArgs{Session: p.ses, Slot: 3, HighestSlot: 3, Sequence: 1, Digest: 2}
	var u, v SlotUse
	w.want(w.s.Sequence(&request, &u), ok, "request")
	w.want(w.s.Sequence(&probe, &v), nfsv4.ErrDelay, "probe while it runs")
	u.Finish([]byte("reply"))
	w.want(w.s.Sequence(&probe, &v), nfsv4.ErrSeqFalseRetry, "probe of the finished request")
	request.HighestSlot, request.CacheThis = 7, false
	w.want(w.s.Sequence(&request, &v), ok, "retry of the finished request")
	if v.Action != SlotReplay || string(v.Replay) != "reply" {
		t.Errorf("action %d, replay %q", v.Action, v.Replay)
	}
}

func TestSequenceSlotNumbers(t *testing.T) { // RFC 8881 section 18.46.3
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	var u SlotUse
	seq := func(slot, highest uint32) nfsv4.Status {
		st := w.s.Sequence(&SequenceArgs{Session: p.ses, Slot: slot, HighestSlot: highest, Sequence: 1}, &u)
		u.Finish(nil)
		return st
	}
	w.want(seq(16, 16), nfsv4.ErrBadSlot, "slot behind the table")
	w.want(seq(^uint32(0), 0), nfsv4.ErrBadSlot, "last slot there can be")
	w.want(seq(1, 16), nfsv4.ErrBadHighSlot, "highest behind the table")
	w.want(seq(15, 15), ok, "last slot")
	w.want(w.s.Sequence(&SequenceArgs{Session: nfsv4.SessionID{1}, Sequence: 1}, &u), nfsv4.ErrBadSession, "unknown session")
}

func TestSequenceWraps(t *testing.T) { // RFC 8881 section 2.10.6.1
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	ses := w.s.sessions.get(p.ses)
	ses.mu.Lock()
	ses.slots[0].seq = 1<<32 - 2
	ses.mu.Unlock()
	p.seq = 1<<32 - 2
	for range 4 {
		p.do(func(*Client) {})
	}
	if p.seq != 2 {
		t.Errorf("sequence %d", p.seq)
	}
}

// The target goes down, the client complies, the slots are retired, and come
// back later.
func TestSlotsShrinkAndGrow(t *testing.T) { // RFC 8881 section 2.10.6.1
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	ses := w.s.sessions.get(p.ses)
	var u, high SlotUse
	seqs := map[uint32]uint32{0: p.seq}
	send := func(slot, highest uint32, u *SlotUse) nfsv4.Status {
		st := w.s.Sequence(&SequenceArgs{Session: p.ses, Slot: slot, HighestSlot: highest, Sequence: seqs[slot] + 1}, u)
		if st == ok {
			seqs[slot]++
		}
		return st
	}
	before := w.s.cacheInUse.Load()
	w.want(send(10, 10, &high), ok, "high slot")
	ses.mu.Lock()
	ses.resizeLocked(4)
	ses.mu.Unlock()
	for i := range 3 { // not before the client has seen it, nor while slot 10 runs
		w.want(send(0, 3, &u), ok, "low slot")
		u.Finish(nil)
		if u.Result.TargetHighestSlot != 3 || u.Result.HighestSlot != 15 {
			t.Fatalf("%d: %+v", i, u.Result)
		}
	}
	high.Finish(nil)
	w.want(send(9, 9, &u), ok, "a client that has not complied yet")
	u.Finish(nil)
	w.want(send(0, 3, &u), ok, "complied")
	u.Finish(nil)
	if u.Result.HighestSlot != 3 {
		t.Fatalf("not retired: %+v", u.Result)
	}
	if n := before - w.s.cacheInUse.Load(); n != 12*2048 {
		t.Errorf("%d bytes freed", n)
	}
	w.want(send(10, 10, &u), nfsv4.ErrBadSlot, "retired slot")
	w.want(send(0, 10, &u), nfsv4.ErrBadHighSlot, "retired highest")
	ses.mu.Lock()
	ses.resizeLocked(16)
	ses.mu.Unlock()
	seqs[9] = 0
	w.want(send(9, 9, &u), ok, "slot begun anew")
	u.Finish(nil)
	w.want(send(10, 10, &u), ok, "slot gone on with")
	u.Finish(nil)
	if w.s.cacheInUse.Load() != before {
		t.Error("memory not counted again")
	}
}

func TestReplyCacheIsBounded(t *testing.T) { // RFC 8881 section 2.10.6.1
	w := newWorld(t, func(o *Options) { o.Limits.MaxReplyCache = 64 * 2048 })
	var ps []*peer
	for i := range 12 {
		p := w.connect(string(rune('a'+i)), 1)
		ps = append(ps, p)
	}
	if in := w.s.cacheInUse.Load(); in > (64+12*minSlots)*2048 {
		t.Errorf("%d bytes spoken for", in)
	}
	for range 4 {
		w.s.Sweep()
		for _, p := range ps {
			p.alive()
			p.alive()
		}
	}
	for _, p := range ps {
		if n := w.s.sessions.get(p.ses).status().Slots; n < minSlots || n > 8 {
			t.Errorf("%d slots left", n)
		}
	}
	for _, p := range ps[1:] {
		w.want(w.s.DestroySession(p.ses, nil, &SlotUse{session: w.s.sessions.get(p.ses)}), ok, "DESTROY_SESSION")
	}
	for range 4 {
		w.s.Sweep()
	}
	if n := w.s.sessions.get(ps[0].ses).status().Slots; n != 16 {
		t.Errorf("%d slots when there is room again", n)
	}
}

// TestSlotModel drives one slot with requests of all kinds and compares with
// the rules told in words.
func TestSlotModel(t *testing.T) { // RFC 8881 section 2.10.6.1
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	rapid.Check(t, func(t *rapid.T) {
		r, _ := w.s.ExchangeID(exchangeArgs("model", 1))
		cs, st := w.s.CreateSession(context.Background(), createArgs(r.ClientID, r.Sequence))
		if st != ok {
			t.Fatal(st)
		}
		defer w.s.DestroyClientID(r.ClientID)
		defer w.s.DestroySession(cs.Session, nil, &SlotUse{session: w.s.sessions.get(cs.Session)})
		var (
			seq     uint32
			used    bool
			digest  uint64
			cached  []byte
			running *SlotUse
			cache   bool
		)
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				a := SequenceArgs{Session: cs.Session,
					Sequence:  seq + uint32(rapid.IntRange(-2, 3).Draw(t, "ahead")),
					CacheThis: rapid.Bool().Draw(t, "cache"),
					Digest:    uint64(rapid.IntRange(0, 1).Draw(t, "digest"))}
				var u SlotUse
				got := w.s.Sequence(&a, &u)
				switch {
				case used && a.Sequence == seq && running != nil:
					expect(t, got, nfsv4.ErrDelay)
				case used && a.Sequence == seq && a.Digest != digest:
					expect(t, got, nfsv4.ErrSeqFalseRetry)
				case used && a.Sequence == seq && cached != nil:
					expect(t, got, ok)
					if u.Action != SlotReplay || !bytes.Equal(u.Replay, cached) {
						t.Fatalf("replayed %q, want %q", u.Replay, cached)
					}
				case used && a.Sequence == seq:
					expect(t, got, ok)
					if u.Action != SlotUncached {
						t.Fatalf("action %d", u.Action)
					}
				case a.Sequence == seq+1 && running == nil:
					expect(t, got, ok)
					if u.Action != SlotExecute {
						t.Fatalf("action %d", u.Action)
					}
					seq, used, digest, cached, running, cache = a.Sequence, true, a.Digest, nil, &u, a.CacheThis
				default:
					expect(t, got, nfsv4.ErrSeqMisordered)
				}
			},
			"finish": func(t *rapid.T) {
				if running == nil {
					t.Skip()
				}
				reply := rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "reply")
				running.Finish(reply)
				running = nil
				if cache {
					cached = reply
				}
			},
		})
		if running != nil {
			running.Finish(nil)
		}
	})
	if !p.alive() {
		t.Error("another client suffered")
	}
}

func expect(t *rapid.T, got, want nfsv4.Status) {
	t.Helper()
	if got != want {
		t.Fatalf("%v, want %v", got, want)
	}
}

func TestDigest(t *testing.T) {
	a := bytes.Repeat([]byte("x"), 5000)
	d := Digest(a, 3, 1, 0)
	if d != Digest(bytes.Clone(a), 3, 1, 0) {
		t.Error("equal requests differ")
	}
	b := bytes.Clone(a)
	b[0] = 'y'
	c := bytes.Clone(a)
	c[4999] = 'y'
	for i, other := range []uint64{Digest(b, 3, 1, 0), Digest(c, 3, 1, 0), Digest(a[1:], 3, 1, 0), Digest(a, 4, 1, 0), Digest(a, 3, 0, 0), Digest(a, 3, 1, 1)} {
		if other == d {
			t.Errorf("difference %d is not seen", i)
		}
	}
}

func TestFinishRenewsTheLease(t *testing.T) { // RFC 8881 section 8.3
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	p.mustOpen("o", key(1), read, both)
	q := w.connect("b", 1)
	var u SlotUse
	w.want(p.sequence(&u), ok, "SEQUENCE")
	w.advance(200 * time.Second) // a slow request
	_, st := q.open("o", key(1), read, none)
	w.want(st, nfsv4.ErrShareDenied, "OPEN against a client whose request runs")
	u.Finish(nil)
	_, st = q.open("o", key(1), read, none)
	w.want(st, nfsv4.ErrShareDenied, "OPEN right behind it")
}
