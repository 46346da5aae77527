package rangelock

import (
	"fmt"
	"slices"
	"testing"

	"capstan/export"

	"pgregory.net/rapid"
)

const end = uint64(export.LockEnd)

func read(owner, from, to uint64) export.Lock {
	return export.Lock{Owner: owner, Start: from, End: to}
}

func write(owner, from, to uint64) export.Lock {
	return export.Lock{Owner: owner, Write: true, Start: from, End: to}
}

func TestTableOneOwner(t *testing.T) {
	type step struct {
		unlock bool
		l      export.Lock
	}
	lock := func(l export.Lock) step { return step{l: l} }
	unlock := func(from, to uint64) step { return step{unlock: true, l: read(1, from, to)} }
	for _, tc := range []struct {
		name  string
		steps []step
		want  []export.Lock
	}{
		{"split", []step{lock(write(1, 0, 99)), unlock(40, 59)}, []export.Lock{write(1, 0, 39), write(1, 60, 99)}},
		{"merge touching", []step{lock(read(1, 0, 9)), lock(read(1, 20, 29)), lock(read(1, 10, 19))}, []export.Lock{read(1, 0, 29)}},
		{"kinds do not merge", []step{lock(read(1, 0, 9)), lock(write(1, 10, 19))}, []export.Lock{read(1, 0, 9), write(1, 10, 19)}},
		{"upgrade in the middle", []step{lock(read(1, 0, 99)), lock(write(1, 10, 19))}, []export.Lock{read(1, 0, 9), write(1, 10, 19), read(1, 20, 99)}},
		{"downgrade merges back", []step{lock(read(1, 0, 99)), lock(write(1, 10, 19)), lock(read(1, 10, 19))}, []export.Lock{read(1, 0, 99)}},
		{"same kind inside", []step{lock(read(1, 0, 99)), lock(read(1, 10, 19))}, []export.Lock{read(1, 0, 99)}},
		{"cover many", []step{lock(read(1, 5, 6)), lock(write(1, 8, 9)), lock(read(1, 20, end)), lock(write(1, 0, 30))}, []export.Lock{write(1, 0, 30), read(1, 31, end)}},
		{"whole range", []step{lock(write(1, 0, end))}, []export.Lock{write(1, 0, end)}},
		{"last byte", []step{lock(write(1, 0, end)), unlock(end, end)}, []export.Lock{write(1, 0, end-1)}},
		{"last byte joins", []step{lock(write(1, 0, end-1)), lock(write(1, end, end))}, []export.Lock{write(1, 0, end)}},
		{"no wrap to 0", []step{lock(write(1, end, end)), lock(write(1, 0, 0))}, []export.Lock{write(1, 0, 0), write(1, end, end)}},
		{"first byte", []step{lock(write(1, 0, end)), unlock(0, 0)}, []export.Lock{write(1, 1, end)}},
		{"unlock nothing", []step{lock(write(1, 5, 9)), unlock(10, end)}, []export.Lock{write(1, 5, 9)}},
		{"unlock all", []step{lock(write(1, 5, 9)), unlock(0, end)}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var tab Table
			for _, s := range tc.steps {
				if s.unlock {
					tab.Unlock(s.l)
				} else if c, ok := tab.Lock(s.l); !ok {
					t.Fatalf("lock %v conflicts with %v", s.l, c)
				}
			}
			if got := slices.Collect(tab.All()); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if tab.Len() != len(tc.want) {
				t.Errorf("Len %d, want %d", tab.Len(), len(tc.want))
			}
		})
	}
}

func TestTableReportsLowestConflict(t *testing.T) {
	var tab Table
	for _, l := range []export.Lock{read(2, 50, 59), read(3, 30, 70), write(4, 100, 100)} {
		if c, ok := tab.Lock(l); !ok {
			t.Fatalf("%v: %v", l, c)
		}
	}
	if c, ok := tab.Test(write(1, 0, end)); ok || c != read(3, 30, 70) {
		t.Errorf("write over all: %v %v", c, ok)
	}
	if c, ok := tab.Test(read(1, 0, end)); ok || c != write(4, 100, 100) {
		t.Errorf("read over all: %v %v", c, ok)
	}
	if c, ok := tab.Test(read(1, 0, 99)); !ok {
		t.Errorf("reads conflict with %v", c)
	}
	if _, ok := tab.Lock(write(4, 60, 100)); ok {
		t.Error("upgrade over another's read lock was granted")
	}
	if !tab.UnlockOwner(3) || tab.UnlockOwner(3) || tab.Holds(3) {
		t.Error("UnlockOwner")
	}
	if c, ok := tab.Lock(write(4, 60, 100)); !ok {
		t.Errorf("still in the way: %v", c)
	}
}

// model is the same by brute force: for each byte, what each owner holds.
type model map[uint64]*[modelSize]byte // 0 nothing, 'r', 'w'

const modelSize = 48

// at maps a model index to an offset: half of them at the bottom of the range
// of offsets and half at its very top.
func at(i int) uint64 {
	if i < modelSize/2 {
		return uint64(i)
	}
	return end - uint64(modelSize-1-i)
}

func (m model) conflict(l export.Lock) bool {
	for owner, held := range m {
		for i, h := range held {
			if owner != l.Owner && h != 0 && l.Start <= at(i) && at(i) <= l.End && (l.Write || h == 'w') {
				return true
			}
		}
	}
	return false
}

func (m model) set(l export.Lock, kind byte) {
	if m[l.Owner] == nil {
		m[l.Owner] = new([modelSize]byte)
	}
	for i := range m[l.Owner] {
		if l.Start <= at(i) && at(i) <= l.End {
			m[l.Owner][i] = kind
		}
	}
}

func kindOf(l export.Lock) byte {
	if l.Write {
		return 'w'
	}
	return 'r'
}

func TestTableAgainstBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tab Table
		m := model{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			a, b := rapid.IntRange(0, modelSize-1).Draw(t, "a"), rapid.IntRange(0, modelSize-1).Draw(t, "b")
			l := export.Lock{
				Owner: uint64(rapid.IntRange(0, 3).Draw(t, "owner")),
				Write: rapid.Bool().Draw(t, "write"),
				Start: at(min(a, b)), End: at(max(a, b)),
			}
			switch rapid.IntRange(0, 5).Draw(t, "op") {
			case 0, 1, 2:
				want := !m.conflict(l)
				c, ok := tab.Lock(l)
				if ok != want {
					t.Fatalf("lock %v: granted %v, want %v", l, ok, want)
				}
				if ok {
					m.set(l, kindOf(l))
				} else {
					checkConflict(t, m, l, c)
				}
			case 3:
				c, ok := tab.Test(l)
				if ok == m.conflict(l) {
					t.Fatalf("test %v: %v", l, ok)
				}
				if !ok {
					checkConflict(t, m, l, c)
				}
			case 4:
				tab.Unlock(l)
				m.set(l, 0)
			case 5:
				tab.UnlockOwner(l.Owner)
				delete(m, l.Owner)
			}
			checkTable(t, &tab, m)
		}
	})
}

// checkConflict: c is really held and really in the way.
func checkConflict(t *rapid.T, m model, l, c export.Lock) {
	if !l.Conflicts(c) {
		t.Fatalf("%v does not conflict with %v", c, l)
	}
	for i := range modelSize {
		if c.Start <= at(i) && at(i) <= c.End && m[c.Owner][i] != kindOf(c) {
			t.Fatalf("%v is not held at %d", c, i)
		}
	}
}

// checkTable: the table holds exactly what the model holds, in order, with no
// two locks that could be one.
func checkTable(t *rapid.T, tab *Table, m model) {
	got := model{}
	var prev export.Lock
	n := 0
	for l := range tab.All() {
		if l.Start > l.End {
			t.Fatalf("empty lock %v", l)
		}
		if n > 0 && prev.Owner == l.Owner {
			if prev.End >= l.Start || prev.Write == l.Write && prev.End+1 == l.Start {
				t.Fatalf("%v then %v", prev, l)
			}
		}
		if n > 0 && prev.Owner > l.Owner {
			t.Fatalf("owners out of order: %v then %v", prev, l)
		}
		got.set(l, kindOf(l))
		prev = l
		n++
	}
	if n != tab.Len() {
		t.Fatalf("Len %d, but %d locks", tab.Len(), n)
	}
	for owner := range uint64(4) {
		var g, w [modelSize]byte
		if got[owner] != nil {
			g = *got[owner]
		}
		if m[owner] != nil {
			w = *m[owner]
		}
		if g != w {
			t.Fatalf("owner %d: got %q, want %q", owner, g, w)
		}
	}
}

func BenchmarkLockUnlock(b *testing.B) {
	for _, owners := range []uint64{1, 100, 10000} {
		b.Run(fmt.Sprint(owners), func(b *testing.B) {
			var tab Table
			for o := range owners {
				tab.Lock(write(o, o*100, o*100+9))
			}
			b.ReportAllocs()
			for i := range b.N {
				o := uint64(i) % owners
				tab.Lock(write(o, o*100+50, o*100+59))
				tab.Unlock(write(o, o*100+50, o*100+59))
			}
		})
	}
}
