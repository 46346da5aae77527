package linear

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func write(call, ret int64, v int) Op[int] {
	return Op[int]{call, ret, func(int) (int, bool) { return v, true }, fmt.Sprint("write ", v)}
}

func read(call, ret int64, v int) Op[int] {
	return Op[int]{call, ret, func(s int) (int, bool) { return s, s == v }, fmt.Sprint("read ", v)}
}

func TestSmall(t *testing.T) {
	for _, c := range []struct {
		name string
		ops  []Op[int]
		ok   bool
	}{
		{"empty", nil, true},
		{"read of the start", []Op[int]{read(0, 1, 0)}, true},
		{"read of nothing written", []Op[int]{read(0, 1, 5)}, false},
		{"one after the other", []Op[int]{write(0, 1, 1), read(2, 3, 1)}, true},
		{"stale", []Op[int]{write(0, 1, 1), read(2, 3, 0)}, false},
		{"concurrent, old", []Op[int]{write(0, 3, 1), read(1, 2, 0)}, true},
		{"concurrent, new", []Op[int]{write(0, 3, 1), read(1, 2, 1)}, true},
		{"new then old", []Op[int]{write(0, 9, 1), read(1, 2, 1), read(3, 4, 0)}, false},
		{"never returned, seen", []Op[int]{write(0, Never, 1), read(5, 6, 0), read(7, 8, 1)}, true},
		{"never returned, seen and gone", []Op[int]{write(0, Never, 1), read(5, 6, 1), read(7, 8, 0)}, false},
		{"never returned, not seen", []Op[int]{write(0, Never, 1), read(5, 6, 0)}, true},
		{"two orders", []Op[int]{write(0, 5, 1), write(0, 5, 2), read(6, 7, 1)}, true},
		{"both", []Op[int]{write(0, 5, 1), write(0, 5, 2), read(6, 7, 1), read(8, 9, 2)}, false},
	} {
		if ok, stuck := Check(0, c.ops); ok != c.ok || ok == (len(stuck) > 0) && len(c.ops) > 0 && !ok {
			t.Errorf("%s: %v, want %v (%v)", c.name, ok, c.ok, len(stuck))
		}
	}
}

// TestGenerated takes histories that are linearizable because they were made
// from an order, and spoils them.
func TestGenerated(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(1, seed))
		var ops []Op[int]
		var reads []int
		state := 0
		for i := range int64(300) {
			// It takes effect at 10i; call and return lie around that.
			call, ret := 10*i-rng.Int64N(60), 10*i+rng.Int64N(60)
			if rng.IntN(2) == 0 {
				state = int(i) + 1
				ops = append(ops, write(call, ret, state))
			} else {
				reads = append(reads, len(ops))
				ops = append(ops, read(call, ret, state))
			}
		}
		if ok, _ := Check(0, ops); !ok {
			t.Fatalf("seed %d: a linearizable history was refused", seed)
		}
		i := reads[len(reads)/2]
		ops[i] = read(ops[i].Call, ops[i].Return, 100000)
		if ok, _ := Check(0, ops); ok {
			t.Fatalf("seed %d: a value that nobody wrote was accepted", seed)
		}
	}
}
