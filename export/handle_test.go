package export

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata anew")

// testKey is a key that is the same in every run.
func testKey(id uint8, fill byte) Key {
	k := Key{ID: id}
	for i := range k.Secret {
		k.Secret[i] = fill + byte(i)
	}
	return k
}

func testRing(t testing.TB, current Key, older ...Key) *KeyRing {
	t.Helper()
	r, err := NewKeyRing(current, older...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// handleTable has two exports of one volume, with fixed keys.
func handleTable(t testing.TB, ring *KeyRing, change ...func([]*Export)) *Table {
	t.Helper()
	v := newFakeVolume()
	exports := []*Export{
		{ID: 1, FSCID: 5, Path: "/a", Volume: v, Rules: []Rule{AllowAll}},
		{ID: 0x01020304, FSCID: 0x0a0b0c0d, Path: "/b", Volume: v, Rules: []Rule{AllowAll}},
	}
	for _, c := range change {
		c(exports)
	}
	table, err := NewTable(t.Context(), exports, WithKeys(ring))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestHandleGolden keeps the bytes of handles for ever: clients hold them over
// restarts and updates of capstan.
func TestHandleGolden(t *testing.T) {
	table := handleTable(t, testRing(t, testKey(9, 0x40)))
	nodes := []struct {
		name string
		node Node
	}{
		{"pseudo root", table.node(table.tree.root)},
		{"root of export 1", Node{table.Export(1), Live(1)}},
		{"live inode", Node{table.Export(0x01020304), Live(0x1000000abcd)}},
		{"snapped inode", Node{table.Export(0x01020304), Object{
			Ino: 0x1122334455667788, Snap: 0x99, Parent: 0x8877665544332211, NameHash: 0xdeadbeef,
		}}},
	}
	var b strings.Builder
	for _, n := range nodes {
		b.WriteString(n.name + ": " + hex.EncodeToString(table.AppendHandle(nil, n.node)) + "\n")
	}
	file := filepath.Join("testdata", "handles.v1.txt")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("handles:\n%swant:\n%s", b.String(), want)
	}
}

func TestHandleRoundTrip(t *testing.T) {
	table := handleTable(t, testRing(t, testKey(1, 1)))
	for _, e := range append(table.Exports(), table.pseudo) {
		for _, o := range []Object{
			Live(1), Live(^uint64(0)), {}, {Ino: 1, Snap: 2, Parent: 3, NameHash: 4},
			{Ino: ^uint64(0), Snap: ^uint64(0), Parent: ^uint64(0), NameHash: ^uint32(0)},
		} {
			n := Node{e, o}
			fh := table.AppendHandle([]byte("before"), n)[len("before"):]
			if len(fh) != HandleSize {
				t.Fatalf("%d bytes", len(fh))
			}
			got, err := table.Resolve(fh)
			if err != nil || got != n {
				t.Errorf("%v became %v, %v", n, got, err)
			}
		}
	}
}

// TestHandleForged changes every bit of a handle, its length, and copies what
// one export's handle holds into another's.
func TestHandleForged(t *testing.T) {
	table := handleTable(t, testRing(t, testKey(1, 1), testKey(2, 9)))
	good := table.AppendHandle(nil, Node{table.Export(1), Live(77)})
	for bit := range HandleSize * 8 {
		fh := bytes.Clone(good)
		fh[bit/8] ^= 1 << (bit % 8)
		_, err := table.Resolve(fh)
		// Another key's number: it is there or it is not.
		if bit/8 == 1 {
			if err == nil {
				t.Errorf("bit %d: accepted", bit)
			}
			continue
		}
		if !errors.Is(err, ErrBadHandle) {
			t.Errorf("bit %d: %v", bit, err)
		}
	}
	for n := range 2 * HandleSize {
		fh := append(bytes.Clone(good), good...)[:n]
		if _, err := table.Resolve(fh); n != HandleSize && !errors.Is(err, ErrBadHandle) {
			t.Errorf("length %d: %v", n, err)
		}
	}
	// What makes up another handle of the same inode, MAC and all.
	other := table.AppendHandle(nil, Node{table.Export(0x01020304), Live(77)})
	for _, part := range [][2]int{{handleExport, handleFSCID}, {handleExport, handleIno}, {handleMAC, handlePad}, {handleIno, handlePad}} {
		fh := bytes.Clone(good)
		copy(fh[part[0]:part[1]], other[part[0]:part[1]])
		if bytes.Equal(fh, other) {
			t.Fatal("this is no forgery")
		}
		if n, err := table.Resolve(fh); !errors.Is(err, ErrBadHandle) {
			t.Errorf("bytes %v of the other: %v, %v", part, n, err)
		}
	}
}

func TestHandleAfterChange(t *testing.T) {
	old, current := testKey(1, 1), testKey(2, 100)
	before := handleTable(t, testRing(t, old))
	n := Node{before.Export(1), Live(77)}
	fh := before.AppendHandle(nil, n)

	resolve := func(table *Table) error {
		got, err := table.Resolve(fh)
		if err == nil && got.Object != n.Object {
			t.Errorf("another object: %v", got)
		}
		return err
	}
	if err := resolve(handleTable(t, testRing(t, old))); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if err := resolve(handleTable(t, testRing(t, current, old))); err != nil {
		t.Errorf("with its key accepted: %v", err)
	}
	if err := resolve(handleTable(t, testRing(t, current))); !errors.Is(err, ErrStale) {
		t.Errorf("with its key gone: %v", err)
	}
	if err := resolve(handleTable(t, testRing(t, testKey(1, 2)))); !errors.Is(err, ErrBadHandle) {
		t.Errorf("with another key of its number: %v", err)
	}
	if err := resolve(handleTable(t, testRing(t, old), func(e []*Export) { e[0].ID = 2 })); !errors.Is(err, ErrStale) {
		t.Errorf("with its export gone: %v", err)
	}
	if err := resolve(handleTable(t, testRing(t, old), func(e []*Export) { e[0].FSCID = 6 })); !errors.Is(err, ErrStale) {
		t.Errorf("with another file system behind its export: %v", err)
	}
	if err := resolve(handleTable(t, testRing(t, old), func(e []*Export) { e[0].Path = "/elsewhere/deep" })); err != nil {
		t.Errorf("with its export at another path: %v", err)
	}
}

func TestHandleAllocs(t *testing.T) {
	table := handleTable(t, testRing(t, testKey(1, 1)))
	n := Node{table.Export(1), Live(77)}
	buf := make([]byte, 0, HandleSize)
	if got := testing.AllocsPerRun(100, func() { buf = table.AppendHandle(buf[:0], n) }); got != 0 {
		t.Errorf("AppendHandle: %v allocations", got)
	}
	bad := bytes.Repeat([]byte{1}, HandleSize)
	if got := testing.AllocsPerRun(100, func() {
		_, _ = table.Resolve(buf)
		_, _ = table.Resolve(bad)
	}); got != 0 {
		t.Errorf("Resolve: %v allocations", got)
	}
}

// FuzzResolve checks that no bytes but those AppendHandle makes are accepted.
func FuzzResolve(f *testing.F) {
	table := handleTable(f, testRing(f, testKey(1, 1), testKey(7, 2)))
	good := table.AppendHandle(nil, Node{table.Export(1), Live(77)})
	f.Add(good)
	f.Add(table.AppendHandle(nil, table.node(table.tree.root)))
	f.Add(table.AppendHandle(nil, Node{table.Export(0x01020304), Object{Ino: 1, Snap: 2, Parent: 3, NameHash: 4}}))
	f.Add(good[:HandleSize-1])
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	for _, i := range []int{0, 1, handleExport, handleFSCID, handleIno, handleMAC, handlePad} {
		b := bytes.Clone(good)
		b[i] ^= 0x80
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, fh []byte) {
		n, err := table.Resolve(fh)
		switch {
		case err == nil:
			if again := table.AppendHandle(nil, n); !bytes.Equal(again, fh) {
				t.Errorf("%x accepted as %x", fh, again)
			}
		case err != error(ErrBadHandle) && err != error(ErrStale):
			t.Errorf("%x: %v", fh, err)
		}
	})
}

func BenchmarkAppendHandle(b *testing.B) {
	table := handleTable(b, testRing(b, testKey(1, 1)))
	n := Node{table.Export(1), Live(77)}
	buf := make([]byte, 0, HandleSize)
	b.ReportAllocs()
	for b.Loop() {
		buf = table.AppendHandle(buf[:0], n)
	}
}

func BenchmarkResolve(b *testing.B) {
	table := handleTable(b, testRing(b, testKey(1, 1)))
	fh := table.AppendHandle(nil, Node{table.Export(1), Live(77)})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := table.Resolve(fh); err != nil {
			b.Fatal(err)
		}
	}
}
