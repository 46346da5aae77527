package crush

import (
	"maps"
	"slices"

	"capstan/cephfs/denc"
)

// Encode returns the binary form of m, as release 19 and later write it if msr
// is set, else as release 12 to 18 do.
func (m *Map) Encode(msr bool) []byte {
	var e denc.Encoder
	e.Uint32(magic)
	e.Int32(int32(len(m.Buckets)))
	e.Uint32(uint32(len(m.Rules)))
	e.Int32(m.MaxDevices)
	for _, b := range m.Buckets {
		if b == nil {
			e.Uint32(0)
			continue
		}
		b.encode(&e)
	}
	for _, r := range m.Rules {
		if r == nil {
			e.Uint32(0)
			continue
		}
		e.Uint32(1)
		e.Count(len(r.Steps))
		e.Uint8(r.Ruleset)
		e.Uint8(uint8(r.Type))
		e.Uint8(r.MinSize)
		e.Uint8(r.MaxSize)
		for _, s := range r.Steps {
			e.Uint32(uint32(s.Op))
			e.Int32(s.Arg1)
			e.Int32(s.Arg2)
		}
	}
	encodeNames(&e, m.TypeNames)
	encodeNames(&e, m.ItemNames)
	encodeNames(&e, m.RuleNames)

	t := &m.Tunables
	e.Uint32(t.ChooseLocalTries)
	e.Uint32(t.ChooseLocalFallbackTries)
	e.Uint32(t.ChooseTotalTries)
	e.Uint32(t.ChooseLeafDescendOnce)
	e.Uint8(t.ChooseLeafVaryR)
	e.Uint8(t.StrawCalcVersion)
	e.Uint32(t.AllowedBucketAlgs)
	e.Uint8(t.ChooseLeafStable)

	encodeInts(&e, m.Classes)
	encodeNames(&e, m.ClassNames)
	e.Count(len(m.ClassBuckets))
	for _, id := range slices.Sorted(maps.Keys(m.ClassBuckets)) {
		e.Int32(id)
		encodeInts(&e, m.ClassBuckets[id])
	}
	e.Count(len(m.ChooseArgs))
	for _, key := range slices.Sorted(maps.Keys(m.ChooseArgs)) {
		e.Int64(key)
		m.ChooseArgs[key].encode(&e)
	}
	if msr {
		e.Uint32(t.MSRDescents)
		e.Uint32(t.MSRCollisionTries)
	}
	return e.Data()
}

func (b *Bucket) encode(e *denc.Encoder) {
	e.Uint32(uint32(b.Alg))
	e.Int32(b.ID)
	e.Uint16(b.Type)
	e.Uint8(uint8(b.Alg))
	e.Uint8(b.Hash)
	e.Uint32(b.Weight)
	e.Count(len(b.Items))
	for _, item := range b.Items {
		e.Int32(item)
	}
	switch b.Alg {
	case Uniform:
		e.Uint32(b.ItemWeight)
	case List:
		for i, w := range b.ItemWeights {
			e.Uint32(w)
			e.Uint32(b.SumWeights[i])
		}
	case Straw:
		for i, w := range b.ItemWeights {
			e.Uint32(w)
			e.Uint32(b.Straws[i])
		}
	case Straw2:
		for _, w := range b.ItemWeights {
			e.Uint32(w)
		}
	case Tree:
		e.Uint8(uint8(len(b.NodeWeights)))
		for _, w := range b.NodeWeights {
			e.Uint32(w)
		}
	}
}

func (a *ChooseArgs) encode(e *denc.Encoder) {
	n := 0
	for _, arg := range a.args {
		if arg != nil {
			n++
		}
	}
	e.Count(n)
	for i, arg := range a.args {
		if arg == nil {
			continue
		}
		e.Uint32(uint32(i))
		e.Count(len(arg.WeightSets))
		for _, set := range arg.WeightSets {
			e.Count(len(set))
			for _, w := range set {
				e.Uint32(w)
			}
		}
		e.Count(len(arg.IDs))
		for _, id := range arg.IDs {
			e.Int32(id)
		}
	}
}

func encodeNames(e *denc.Encoder, names map[int32]string) {
	e.Count(len(names))
	for _, key := range slices.Sorted(maps.Keys(names)) {
		e.Int32(key)
		e.String(names[key])
	}
}

func encodeInts(e *denc.Encoder, ints map[int32]int32) {
	e.Count(len(ints))
	for _, key := range slices.Sorted(maps.Keys(ints)) {
		e.Int32(key)
		e.Int32(ints[key])
	}
}
