package nfstest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/rpc"
)

// Trial 2: WRITE and COMMIT agree on the verifier, and COMMIT tells of data
// that were lost or could not be written.
func TestTrial02WriteVerifier(t *testing.T) {
	eachDialect(t, Options{}, func(t *testing.T, b *bed, d dialect) {
		fh := d.create(d.root(), "f")
		writes := func(d dialect) (v nfsv4.Verifier) {
			t.Helper()
			for i := range 16 {
				_, _, got, err := d.write(fh, uint64(i)*4096, nfsv4.Unstable, make([]byte, 4096))
				if err != nil {
					t.Fatal(err)
				}
				if i > 0 && got != v {
					t.Errorf("write %d: verifier %x, before it %x", i, got, v)
				}
				v = got
			}
			return v
		}
		// (1) One verifier in all replies.
		v := writes(d)
		if got, st := d.commit(fh); st != "" || got != v {
			t.Errorf("COMMIT answers %x %s, WRITE %x", got, st, v)
		}
		// (3) Nothing can be written back: COMMIT says so, and says it as long as it
		// is so. Success afterwards comes with another verifier.
		for _, fault := range []export.Status{export.ErrNoSpc, export.ErrDQuot, export.ErrIO} {
			v = writes(d)
			b.vol.Fail("Commit", fault)
			for range 2 {
				if _, st := d.commit(fh); st == "" {
					t.Errorf("%v: COMMIT succeeds", fault)
				}
			}
			b.vol.Fail("Commit", nil)
			if got, st := d.commit(fh); st != "" || got == v {
				t.Errorf("%v is over: COMMIT answers %x %s, as the lost WRITE", fault, got, st)
			}
		}
		// (2) A restart in between.
		v = writes(d)
		b.restart()
		version := "v3"
		if s, ok := d.(*v4Dialect); ok {
			version = fmt.Sprintf("v4.%d", s.s.Client.Minor)
		}
		d = b.speak(t, version)
		if got, st := d.commit(fh); st != "" || got == v {
			t.Errorf("after a restart COMMIT answers %x %s, as the WRITE before it", got, st)
		}
	})
}

// Trial 3: the change attribute differs after every write that changes
// something, and what is committed is never less than was asked for.
func TestTrial03ChangeAttribute(t *testing.T) {
	eachMinor(t, func(t *testing.T, minor uint32) {
		b := newBed(t, Options{})
		s := mount(t, b.srv, minor, "trial")
		dir, err := s.Walk(t.Context(), "data")
		if err != nil {
			t.Fatal(err)
		}
		o, err := s.Open(t.Context(), dir, OpenArgs{Owner: "o", How: Guarded(Attrs{}), Claim: ByName("f")})
		if err != nil {
			t.Fatal(err)
		}
		change := func() uint64 {
			t.Helper()
			c, err := s.Attr(t.Context(), o.FH, nfsv4.AttrChange)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		// In one COMPOUND, as close together as can be.
		r := do(t, s, s.Begin().PutFH(o.FH).
			GetAttr(nfsv4.AttrChange).Write(o.ID, 0, nfsv4.Unstable, []byte("a")).
			GetAttr(nfsv4.AttrChange).Write(o.ID, 0, nfsv4.Unstable, []byte("a")).
			GetAttr(nfsv4.AttrChange).Write(o.ID, 0, nfsv4.FileSync, nil).
			GetAttr(nfsv4.AttrChange))
		var seen []uint64
		for _, res := range r.Results {
			if a, ok := res.Body.(*GetAttrRes); ok {
				seen = append(seen, a.Uint64())
			}
		}
		if seen[0] == seen[1] || seen[1] == seen[2] || seen[0] == seen[2] {
			t.Errorf("change is %v across two writes", seen)
		}
		if seen[2] != seen[3] {
			t.Errorf("change is %v across a write of no bytes", seen[2:])
		}
		last, often := change(), map[uint64]bool{}
		for range 1000 {
			do(t, s, s.Begin().PutFH(o.FH).Write(o.ID, 0, nfsv4.Unstable, []byte("b")))
			now := change()
			if now == last || often[now] {
				t.Fatalf("change %d comes again", now)
			}
			often[now], last = true, now
		}
		stable := 0
		for _, asked := range []uint32{nfsv4.FileSync, nfsv4.DataSync, nfsv4.Unstable} {
			r := do(t, s, s.Begin().PutFH(o.FH).Write(o.ID, 0, asked, []byte("c")))
			got := Get[WriteRes](r).Committed
			if got < asked {
				t.Errorf("asked for stability %d, got %d", asked, got)
			}
			if asked == nfsv4.Unstable && got == nfsv4.FileSync {
				stable++
			}
		}
		if stable > 0 {
			t.Error("every unstable write is made FILE_SYNC")
		}
	})
}

// Trial 4: reads at and across the end of a file.
func TestTrial04EndOfFile(t *testing.T) {
	eachDialect(t, Options{}, func(t *testing.T, _ *bed, d dialect) {
		check := func(fh, content []byte, off uint64, count uint32) {
			t.Helper()
			data, eof, err := d.read(fh, off, count)
			if err != nil {
				t.Errorf("READ %d at %d: %v", count, off, err)
				return
			}
			size := uint64(len(content))
			var want []byte
			if off < size {
				want = content[off:min(size, off+uint64(count))]
			}
			if !bytes.Equal(data, want) {
				t.Errorf("READ %d at %d of %d: %d bytes, want %d", count, off, size, len(data), len(want))
			}
			if wantEOF := off >= size || off+uint64(count) >= size; eof != wantEOF {
				t.Errorf("READ %d at %d of %d: eof %v", count, off, size, eof)
			}
		}
		put := func(name string, content []byte) []byte {
			t.Helper()
			fh := d.create(d.root(), name)
			if len(content) > 0 {
				if _, _, _, err := d.write(fh, 0, nfsv4.FileSync, content); err != nil {
					t.Fatal(err)
				}
			}
			return fh
		}
		ten := []byte("0123456789")
		fh := put("ten", ten)
		for _, x := range []struct {
			off   uint64
			count uint32
		}{{0, 4096}, {5, 5}, {5, 6}, {9, 1}, {10, 1}, {10, 0}, {0, 0}, {1 << 63, 1}, {1<<63 - 1, 1}, {1<<64 - 1, 1}, {1<<64 - 1, 0}} {
			check(fh, ten, x.off, x.count)
		}
		check(put("empty", nil), nil, 0, 4096)

		rsize, _ := d.maxIO()
		full := bytes.Repeat([]byte("x"), int(rsize))
		fh = put("full", full)
		check(fh, full, 0, rsize)
		check(fh, full, 0, rsize-1)
		check(fh, full, uint64(rsize)-1, 1)

		fh = put("hole", ten)
		d.setSize(fh, 10_000)
		check(fh, append(bytes.Clone(ten), make([]byte, 9990)...), 0, 4096)
		check(fh, append(bytes.Clone(ten), make([]byte, 9990)...), 4096, 8192)
		check(fh, append(bytes.Clone(ten), make([]byte, 9990)...), 9999, 1)
	})
}

// Trial 4: 64 readers at the end of a file that grows under them: every read
// gets a reply, with no byte that was not written, and eof is never claimed
// where more was there all along.
func TestTrial04ReadersOfAGrowingFile(t *testing.T) {
	eachDialect(t, Options{}, func(t *testing.T, b *bed, d dialect) {
		fh := d.create(d.root(), "grows")
		const step, steps = 1000, 50
		var g errgroup.Group
		done := make(chan struct{})
		for i := range 64 {
			g.Go(func() error {
				rng := rand.New(rand.NewPCG(1, uint64(i)))
				var known uint64 // the file is at least this long
				for {
					off := rng.Uint64N(step * steps)
					data, eof, err := d.read(fh, off, 2*step)
					if err != nil {
						return err
					}
					for _, c := range data {
						if c != 'g' {
							return fmt.Errorf("a byte %d that was never written, behind %d", c, off)
						}
					}
					if !eof && len(data) != 2*step {
						return fmt.Errorf("%d of %d bytes at %d without eof", len(data), 2*step, off)
					}
					if eof && off+uint64(len(data)) < known && off < known {
						return fmt.Errorf("eof at %d, the file has %d", off+uint64(len(data)), known)
					}
					if len(data) > 0 {
						known = max(known, off+uint64(len(data)))
					}
					select {
					case <-done:
						return nil
					default:
					}
				}
			})
		}
		for i := range uint64(steps) {
			if _, _, _, err := d.write(fh, i*step, nfsv4.Unstable, bytes.Repeat([]byte("g"), step)); err != nil {
				t.Error(err)
			}
		}
		close(done)
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		if got := d.size(fh); got != step*steps {
			t.Errorf("size %d", got)
		}
	})
}

// Limits: what is announced is taken, what is larger is cut or refused, and
// odd sizes in any order come out right.
func TestTrialLimitsOfIO(t *testing.T) {
	o := Options{RPC: rpc.Options{MaxRecord: 8 << 20}}
	o.State.Limits.MaxRequest, o.State.Limits.MaxResponse = 8<<20, 8<<20
	eachDialect(t, o, func(t *testing.T, _ *bed, d dialect) {
		rsize, wsize := d.maxIO()
		if rsize < 1<<20 || wsize < 1<<20 || rsize > 4<<20 || wsize > 4<<20 {
			t.Errorf("announced are %d and %d", rsize, wsize)
		}
		fh := d.create(d.root(), "f")
		want := make([]byte, 4<<20+100)
		rng := rand.NewChaCha8([32]byte{1})
		rng.Read(want)
		for _, size := range []int{int(wsize), int(wsize) + 1, 1<<20 + 1, 4 << 20, 4096, 1, 4095} {
			n, _, _, err := d.write(fh, 0, nfsv4.Unstable, want[:size])
			if err != nil || int(n) != min(size, int(wsize)) {
				t.Errorf("WRITE of %d: %d, %v", size, n, err)
			}
			data, _, err := d.read(fh, 0, uint32(size))
			if err != nil || len(data) != min(size, int(rsize), int(d.size(fh))) || !bytes.Equal(data, want[:len(data)]) {
				t.Errorf("READ of %d: %d bytes, %v", size, len(data), err)
			}
		}

		// Pieces of odd sizes, many at a time, in no order.
		fh = d.create(d.root(), "pieces")
		var cuts []int
		for at := 0; at < len(want); {
			cuts = append(cuts, at)
			at += 1 + int(rng.Uint64()%200_000)
		}
		order := rand.New(rng).Perm(len(cuts))
		var g errgroup.Group
		g.SetLimit(16)
		for _, i := range order {
			end := len(want)
			if i+1 < len(cuts) {
				end = cuts[i+1]
			}
			piece := want[cuts[i]:end]
			g.Go(func() error {
				n, _, _, err := d.write(fh, uint64(cuts[i]), nfsv4.Unstable, piece)
				if err == nil && int(n) != len(piece) {
					err = fmt.Errorf("%d of %d bytes written", n, len(piece))
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if _, st := d.commit(fh); st != "" {
			t.Error(st)
		}
		var got []byte
		for eof := false; !eof; {
			var data []byte
			var err error
			if data, eof, err = d.read(fh, uint64(len(got)), 65_537); err != nil {
				t.Fatal(err)
			}
			got = append(got, data...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d bytes came back, or others", len(got))
		}
	})
}
