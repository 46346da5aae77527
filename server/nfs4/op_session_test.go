package nfs4

import (
	"testing"

	"capstan/server/nfs4/nfsv4"
)

func TestExchangeID(t *testing.T) {
	s := newSite(t)
	r := s.do(root, newRequest(1).add(nfsv4.OpExchangeID, nfsv4.Verifier{1}, "me", 0x101, nfsv4.ProtectNone, 1,
		"kernel.org", "Linux 6.1", int64(5), 6)).op(nfsv4.OpExchangeID, nfsv4.OK)
	r.Uint64("clientid")
	r.Uint32("sequenceid")
	if flags := r.Uint32("flags"); flags&nfsv4.ExchangeUseNonPNFS == 0 || flags&nfsv4.ExchangeConfirmed != 0 {
		t.Errorf("flags %#x", flags)
	}
	if how, minor, major, scope := r.Uint32(""), r.Uint64(""), r.String("", 99), r.String("", 99); how != 0 || minor != 0 || major != "test" || scope != "test" {
		t.Errorf("protection %d, owner %q:%d, scope %q", how, major, minor, scope)
	}
	if n, name := r.Uint32(""), r.String("", 99)+" "+r.String("", 99); n != 1 || name != "capstan.invalid capstan" {
		t.Errorf("implementation %d %q", n, name)
	}
	decodeTime(&r.Decoder)
	r.end()

	refuse := func(want nfsv4.Status, args ...any) {
		t.Helper()
		s.do(root, newRequest(1).add(nfsv4.OpExchangeID, args...)).op(nfsv4.OpExchangeID, want).end()
	}
	v := nfsv4.Verifier{1}
	refuse(nfsv4.ErrInval, v, "me", 1<<20, 0, 0)                                               // an unknown flag
	refuse(nfsv4.ErrBadXDR, v, "me", 0, 3, 0)                                                  // an unknown protection
	refuse(nfsv4.ErrBadXDR, v, "me", 0, 0, 2)                                                  // two implementations
	refuse(nfsv4.ErrBadXDR, v, string(make([]byte, 1025)), 0, 0, 0)                            // an owner too long
	refuse(nfsv4.ErrBadXDR, v, "me", 0, 2, 0, 0, 100, 0, 0, 0, 0)                              // algorithms that are not there
	s.do(root, newRequest(1).add(nfsv4.OpExchangeID, v, "me", 0, 1, bitmap(53), bitmap(9), 0)) // decodes
	s.do(root, newRequest(1).add(nfsv4.OpExchangeID, v, "me", 0, 2, bitmap(53), bitmap(9), 1, "oid", 1, "oid", 1, 1, 0))
}

func TestCreateSession(t *testing.T) {
	s := newSite(t)
	r := s.do(root, newRequest(2).add(nfsv4.OpExchangeID, exchangeID("me", 1)...)).op(nfsv4.OpExchangeID, nfsv4.OK)
	id, seq := r.Uint64("clientid"), r.Uint32("sequenceid")
	args := func(id uint64, seq uint32, sec ...any) []any {
		return join([]any{id, seq, nfsv4.SessionConnBackCh | nfsv4.SessionPersist}, channel(1<<30, 1<<30, 1<<30, 1000, 1000),
			channel(4096, 4096, 4096, 2, 16), []any{0x40000000}, sec)
	}
	create := func(want nfsv4.Status, args []any) *reply {
		t.Helper()
		return s.do(root, newRequest(2).add(nfsv4.OpCreateSession, args...)).op(nfsv4.OpCreateSession, want)
	}
	create(nfsv4.ErrStaleClientID, args(id+1, seq, 0)).end()
	create(nfsv4.ErrSeqMisordered, args(id, seq+1, 0)).end()
	create(nfsv4.ErrBadXDR, args(id, seq, 1, 99))
	sec := []any{3, nfsv4.AuthNone, nfsv4.AuthSys, 0, "host", 1, 2, 2, 3, 4, 6, 1, "server", "client"}
	r = create(nfsv4.OK, args(id, seq, sec...))
	session := nfsv4.DecodeSessionID(&r.Decoder)
	if r.Uint32("seq") != seq || r.Uint32("flags")&nfsv4.SessionPersist != 0 {
		t.Error("sequence or flags")
	}
	if pad, request := r.Uint32(""), r.Uint32(""); pad != 0 || request > 1<<20+Overhead {
		t.Errorf("padding %d, requests of %d bytes", pad, request)
	}
	again := create(nfsv4.OK, args(id, seq, sec...))
	if nfsv4.DecodeSessionID(&again.Decoder) != session {
		t.Error("the retry made another session")
	}
	use := func(seq uint32, slot, highest int) *request {
		return newRequest(2).add(nfsv4.OpSequence, session, seq, slot, highest, false)
	}
	s.do(root, use(1, 1<<20, 1<<20)).op(nfsv4.OpSequence, nfsv4.ErrBadSlot).end()
	s.do(root, use(1, 0, 1<<20)).op(nfsv4.OpSequence, nfsv4.ErrBadHighSlot).end()
	s.do(root, use(2, 0, 0)).op(nfsv4.OpSequence, nfsv4.ErrSeqMisordered).end()
	s.do(root, use(1, 0, 0).add(nfsv4.OpBackChannelCtl, 0x40000001, 1, nfsv4.AuthNone)).
		op(nfsv4.OpSequence, nfsv4.OK).skip(36).op(nfsv4.OpBackChannelCtl, nfsv4.OK).end()
	s.do(root, use(2, 0, 0).add(nfsv4.OpDestroyClientID, id)).
		op(nfsv4.OpSequence, nfsv4.OK).skip(36).op(nfsv4.OpDestroyClientID, nfsv4.ErrClientIDBusy).end()
	s.do(root, use(3, 0, 0).add(nfsv4.OpDestroySession, session)).
		op(nfsv4.OpSequence, nfsv4.OK).skip(36).op(nfsv4.OpDestroySession, nfsv4.OK).end()
	s.do(root, newRequest(2).add(nfsv4.OpDestroySession, session)).op(nfsv4.OpDestroySession, nfsv4.ErrBadSession).end()
	s.do(root, newRequest(2).add(nfsv4.OpBindConnToSession, session, nfsv4.BindFore, false)).op(nfsv4.OpBindConnToSession, nfsv4.ErrBadSession).end()
	s.do(root, newRequest(2).add(nfsv4.OpBindConnToSession, session, 9, false)).op(nfsv4.OpBindConnToSession, nfsv4.ErrBadXDR).end()
	s.do(root, newRequest(2).add(nfsv4.OpDestroyClientID, id)).op(nfsv4.OpDestroyClientID, nfsv4.OK).end()
	s.do(root, newRequest(2).add(nfsv4.OpDestroyClientID, id)).op(nfsv4.OpDestroyClientID, nfsv4.ErrStaleClientID).end()
}
