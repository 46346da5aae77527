package nfs3

import (
	"encoding/binary"
	"testing"

	"capstan/export"
	"capstan/internal/testutil"
	"capstan/server/rpc"
)

// FuzzCall3 makes calls with any arguments: no panic, no payload left behind,
// and every reply that is given can be read by the protocol. Input is a
// sequence of calls: procedure and length of the arguments, then these. The
// first handle of a call is replaced by that of an object that is there, so
// that the fuzzer gets past the MAC: which one is said by the top bits of the
// procedure byte.
func FuzzCall3(f *testing.F) {
	seed := newBed(f)
	call := func(proc uint32, what byte, args args3) []byte {
		b := []byte{byte(proc) | what<<6}
		b = binary.BigEndian.AppendUint16(b, uint16(len(args)))
		return append(b, args...)
	}
	var all []byte
	for proc := uint32(1); proc < uint32(len(procedures)); proc++ {
		b := newBed(f)
		s := subjects[proc]
		one := call(proc, 0, s.args(b.target(proc), "f"))
		f.Add(one)
		all = append(all, one...)
		all = append(all, call(proc, 1, s.args(seed.root, "d"))...)
	}
	f.Add(all)
	f.Add(call(procCreate, 1, enc().fh(seed.root).str("x").u32(createExclusive).u64(7)))
	f.Add(call(procMknod, 1, enc().fh(seed.root).str("x").u32(3).sattr(plain).u32(1).u32(2)))
	f.Add(call(procSetAttr, 2, enc().fh(seed.root).sattr(export.SetAttr{Set: export.SetSize, Size: 1 << 40}).bool(true).u32(1).u32(2)))
	f.Add(call(procWrite, 2, enc().fh(seed.root).u64(1<<62).u32(3).u32(2).str("abc")))
	f.Add(call(procReadDirPlus, 1, enc().fh(seed.root).u64(1<<63-1).u64(0).u32(1).u32(1<<32-1)))

	// What the Linux client and libnfs said.
	captures, err := testutil.ReadCaptures("../nfstest/testdata/*-v3*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range captures {
		for _, r := range c {
			if _, _, proc, args, ok := r.Call(); ok && len(args) < 4096 {
				f.Add(call(proc, 1, args))
				f.Add(call(proc, 2, args))
			}
		}
	}

	f.Fuzz(func(t *testing.T, in []byte) {
		b := newBedWith(t, Options{MaxRead: 4096, MaxWrite: 4096, MaxDir: 4096})
		handles := [4][]byte{nil, b.mkdir(b.root, "d", 0o777), b.create(b.root, "f", 0o666), nil}
		b.chown(handles[1], 1000, 1000)
		b.chown(handles[2], 1000, 1000)
		handles[3] = b.ok(procSymlink, enc().fh(b.root).str("l").sattr(plain).str("f")).fh
		for calls := 0; len(in) >= 3 && calls < 64; calls++ {
			proc, n := uint32(in[0]&63), int(binary.BigEndian.Uint16(in[1:]))
			fh := handles[in[0]>>6]
			in = in[3:]
			n = min(n, len(in))
			args := append(args3(nil), in[:n]...)
			in = in[n:]
			if fh != nil && len(args) >= 4 && binary.BigEndian.Uint32(args) == uint32(len(fh)) && len(args) >= 4+len(fh) {
				copy(args[4:], fh)
			}
			cred := user(1000, 1000, uint32(calls))
			if stat, out := b.serve(b.server.NFS(), cred, proc, args); stat == rpc.Success && proc != 0 {
				if _, err := parseReply(proc, out); err != nil {
					t.Fatalf("%s: reply cannot be read: %v", procedures[proc].name, err)
				}
			}
			b.serve(b.server.Mount(), cred, proc, args)
		}
	})
}
