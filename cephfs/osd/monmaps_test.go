package osd

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"capstan/cephfs/crush"
	"capstan/cephfs/osdmap"
)

// mapAt is a whole map of an epoch, encoded.
func mapAt(epoch uint32) []byte {
	m := &osdmap.Map{Epoch: epoch, Crush: &crush.Map{}, RequireOSDRelease: osdmap.ReleasePacific}
	return m.Encode(osdmap.ReleasePacific)
}

// TestMapsInOrder: from what a message holds, each map leads to the next, and a
// gap is jumped over a whole map.
func TestMapsInOrder(t *testing.T) {
	inc := func(e uint32) []byte { return osdmap.NewIncremental(uuid.Nil, e).Encode(osdmap.ReleasePacific) }
	m := &mapMessage{
		fulls:      map[uint32][]byte{3: mapAt(3), 9: mapAt(9)},
		increments: map[uint32][]byte{4: inc(4), 5: inc(5), 10: inc(10)},
	}
	var cur *osdmap.Map
	if first, err := m.after(nil); err != nil || first.Epoch != 9 {
		t.Errorf("the first map: %v, %v; want the newest whole one", first, err)
	}
	cur, err := osdmap.Decode(mapAt(3))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []uint32{4, 5, 9, 10} {
		next, err := m.after(cur)
		if err != nil || next == nil || next.Epoch != want {
			t.Fatalf("after %d: %v, %v; want %d", cur.Epoch, next, err, want)
		}
		cur = next
	}
	if next, err := m.after(cur); next != nil || err != nil {
		t.Errorf("after the last: %v, %v", next, err)
	}
}

// TestMapOfAnotherEpoch: what is labelled wrong would be taken again and again.
func TestMapOfAnotherEpoch(t *testing.T) {
	cur, err := osdmap.Decode(mapAt(3))
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*mapMessage{
		"older content": {fulls: map[uint32][]byte{5: mapAt(3)}},
		"newer content": {fulls: map[uint32][]byte{5: mapAt(6)}},
	} {
		if next, err := m.after(cur); !errors.Is(err, errEpoch) {
			t.Errorf("%s: %v, %v", name, next, err)
		}
	}
	m := &mapMessage{increments: map[uint32][]byte{4: osdmap.NewIncremental(uuid.Nil, 7).Encode(osdmap.ReleasePacific)}}
	if next, err := m.after(cur); err == nil {
		t.Errorf("an increment to 7 labelled 4: %v", next)
	}
	last, err := osdmap.Decode(mapAt(1<<32 - 1))
	if err != nil {
		t.Fatal(err)
	}
	m = &mapMessage{increments: map[uint32][]byte{0: osdmap.NewIncremental(uuid.Nil, 0).Encode(osdmap.ReleasePacific)}}
	if next, err := m.after(last); next != nil || err != nil {
		t.Errorf("after the last epoch there is: %v, %v", next, err)
	}
}

// TestCompareResults: how OSDs say where a comparison failed.
func TestCompareResults(t *testing.T) {
	for result, want := range map[int32]uint64{-4095: 0, -4096: 1, -4102: 7} {
		var diff *CompareError
		if err := resultError(result); !errors.As(err, &diff) || diff.Offset != want {
			t.Errorf("%d: %v, want byte %d", result, err, want)
		}
	}
}
