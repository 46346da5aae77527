package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// pattern fills b with the bytes that belong at off of the content seed, which
// never repeat: lost, moved and stale data show.
func pattern(b []byte, seed, off uint64) {
	var word [8]byte
	for i := 0; i < len(b); {
		at := off + uint64(i)
		x := (at/8+1)*0x9e3779b97f4a7c15 ^ seed*0xc2b2ae3d27d4eb4f
		x ^= x >> 29
		x *= 0xbf58476d1ce4e5b9
		binary.LittleEndian.PutUint64(word[:], x)
		i += copy(b[i:], word[at%8:])
	}
}

// recordSpan returns where record i begins and how long it is: sizes that
// straddle pages and blocks.
func recordSpan(i int) (off uint64, size int) {
	size = 1000 + i%7*613
	rounds := uint64(i / 7)
	off = rounds * (7*1000 + 21*613)
	for k := range i % 7 {
		off += uint64(1000 + k*613)
	}
	return off, size
}

func records(args []string) error {
	seed, count := uint64(number(args[1])), number(args[2])
	f, err := os.OpenFile(args[0], os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range count {
		off, size := recordSpan(i)
		b := make([]byte, size)
		pattern(b, seed, off)
		if _, err := f.WriteAt(b, int64(off)); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		fmt.Println("ack", i)
	}
	return f.Close()
}

func checkRecords(args []string) error {
	seed, count := uint64(number(args[1])), number(args[2])
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range count {
		off, size := recordSpan(i)
		got, want := make([]byte, size), make([]byte, size)
		pattern(want, seed, off)
		if n, err := f.ReadAt(got, int64(off)); err != nil {
			return fmt.Errorf("record %d: %d bytes, %w", i, n, err)
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("record %d at %d begins with % x, want % x", i, off, got[:16], want[:16])
		}
	}
	fmt.Println("whole", count)
	return nil
}

// writeContent writes mib MiB of the content seed and returns its checksum.
func writeContent(f *os.File, seed uint64, mib int) ([]byte, error) {
	h := sha256.New()
	b := make([]byte, 1<<20)
	for i := range mib {
		pattern(b, seed, uint64(i)<<20)
		h.Write(b)
		if _, err := f.WriteAt(b, int64(i)<<20); err != nil {
			return nil, err
		}
	}
	return h.Sum(nil), nil
}

func stream(args []string) error {
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	sum, err := writeContent(f, uint64(number(args[1])), number(args[2]))
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	fmt.Printf("%x\n", sum)
	return nil
}

func held(args []string) error {
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	sum, err := writeContent(f, uint64(number(args[1])), number(args[2]))
	if err != nil {
		return err
	}
	// This sends the pages and waits for the replies, and commits nothing.
	const all = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	if err := unix.SyncFileRange(int(f.Fd()), 0, 0, all); err != nil {
		return fmt.Errorf("sync_file_range: %w", err)
	}
	fmt.Println("written")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	fmt.Printf("%x\n", sum)
	return nil
}

func strided(args []string) error {
	seed, size := uint64(number(args[1])), int64(number(args[2]))<<20
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	const block = 64 << 10
	read := func(name string, order []int64) error {
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return err
		}
		if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("1"), 0); err != nil {
			return err
		}
		got, want := make([]byte, block), make([]byte, block)
		start := time.Now()
		for _, off := range order {
			if _, err := f.ReadAt(got, off); err != nil {
				return fmt.Errorf("%s at %d: %w", name, off, err)
			}
			if pattern(want, seed, uint64(off)); !bytes.Equal(got, want) {
				return fmt.Errorf("%s at %d: wrong data", name, off)
			}
		}
		fmt.Println(name, time.Since(start).Milliseconds())
		return nil
	}
	var forward, stride []int64
	for off := int64(0); off < size; off += block {
		forward = append(forward, off)
	}
	for first := int64(0); first < 3; first++ {
		for off := first * block; off < size; off += 3 * block {
			stride = append(stride, off)
		}
	}
	backward := slices.Clone(forward)
	slices.Reverse(backward)
	if err := read("warm", forward); err != nil {
		return err
	}
	// A machine that pauses makes one of them slower, not all.
	for range 3 {
		for _, r := range []struct {
			name  string
			order []int64
		}{{"forward", forward}, {"backward", backward}, {"stride", stride}} {
			if err := read(r.name, r.order); err != nil {
				return err
			}
		}
	}
	return nil
}

func scattered(args []string) error {
	seed, size := uint64(number(args[1])), number(args[2])<<20
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	type span struct{ off, n int }
	var spans []span
	rnd := rand.New(rand.NewPCG(seed, 1))
	for off := 0; off < size; {
		n := min(size-off, 1+rnd.IntN(200_000))
		spans = append(spans, span{off, n})
		off += n
	}
	rnd.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
	work := make(chan span)
	errs := make(chan error, len(spans))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for s := range work {
				b := make([]byte, s.n)
				pattern(b, seed, uint64(s.off))
				if _, err := f.WriteAt(b, int64(s.off)); err != nil {
					errs <- err
				}
			}
		})
	}
	for _, s := range spans {
		work <- s
	}
	close(work)
	wg.Wait()
	close(errs)
	for err := range errs {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	// Read back from the server.
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("1"), 0); err != nil {
		return err
	}
	r, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer r.Close()
	got, want := make([]byte, 1<<20), make([]byte, 1<<20)
	for off := 0; off < size; off += len(got) {
		if _, err := io.ReadFull(r, got); err != nil {
			return err
		}
		if pattern(want, seed, uint64(off)); !bytes.Equal(got, want) {
			return fmt.Errorf("wrong data in the MiB at %d", off)
		}
	}
	return nil
}
