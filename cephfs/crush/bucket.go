package crush

import (
	"math"
	"math/bits"
)

// perm is the part of a bucket's random permutation that the present x needed
// so far. It belongs to a [Work].
type perm struct {
	x     uint32
	n     uint32 // entries of order that are final; permOne: only the first is known, the rest unset
	order []uint32
}

// permOne marks a permutation of which only entry 0 was computed, the common
// case. Ceph uses this same value, which a bucket of more items also reaches by
// counting.
const permOne = 0xffff

// choose picks item r of the permutation of b for x (bucket_perm_choose).
// b is not empty.
func (p *perm) choose(b *Bucket, x uint32, r int32) int32 {
	size := uint32(len(b.Items))
	pr := uint32(r) % size
	if len(p.order) != len(b.Items) {
		*p = perm{order: make([]uint32, size)}
	}
	switch {
	case p.x != x || p.n == 0:
		p.x = x
		if pr == 0 {
			s := b.hash3(x, uint32(b.ID), 0) % size
			p.order[0] = s
			p.n = permOne
			return b.Items[s]
		}
		for i := range p.order {
			p.order[i] = uint32(i)
		}
		p.n = 0
	case p.n == permOne:
		for i := uint32(1); i < size; i++ {
			p.order[i] = i
		}
		p.order[p.order[0]] = 0
		p.n = 1
	}
	for ; p.n <= pr; p.n++ {
		if n := p.n; n < size-1 {
			if i := b.hash3(x, uint32(b.ID), n) % (size - n); i != 0 {
				p.order[n], p.order[n+i] = p.order[n+i], p.order[n]
			}
		}
	}
	return b.Items[p.order[pr]]
}

// hash3 is Hash3, or 0 if b names a hash that does not exist.
func (b *Bucket) hash3(x, y, z uint32) uint32 {
	if b.Hash != 0 {
		return 0
	}
	return Hash3(x, y, z)
}

func (b *Bucket) hash4(x, y, z, w uint32) uint32 {
	if b.Hash != 0 {
		return 0
	}
	return Hash4(x, y, z, w)
}

// chooseList walks from the newest item to the oldest and stops where the draw
// falls below the item's share of all that are older (bucket_list_choose).
func (b *Bucket) chooseList(x uint32, r int32) int32 {
	for i := len(b.Items) - 1; i >= 0; i-- {
		w := uint64(b.hash4(x, uint32(b.Items[i]), uint32(r), uint32(b.ID)) & 0xffff)
		w = w * uint64(b.SumWeights[i]) >> 16
		if w < uint64(b.ItemWeights[i]) {
			return b.Items[i]
		}
	}
	return b.Items[0]
}

// chooseTree descends a binary tree stored in order: leaves are the odd nodes
// (bucket_tree_choose). Weights that do not add up may end at a leaf without an
// item.
func (b *Bucket) chooseTree(x uint32, r int32) int32 {
	n := len(b.NodeWeights) >> 1
	if n == 0 {
		return ItemNone
	}
	for n&1 == 0 {
		t := uint64(b.hash4(x, uint32(n), uint32(r), uint32(b.ID))) * uint64(b.NodeWeights[n]) >> 32
		step := 1 << (bits.TrailingZeros(uint(n)) - 1)
		if t < uint64(b.NodeWeights[n-step]) {
			n -= step
		} else {
			n += step
		}
	}
	if n>>1 >= len(b.Items) {
		return ItemNone
	}
	return b.Items[n>>1]
}

// chooseStraw takes the longest of the drawn straws (bucket_straw_choose).
func (b *Bucket) chooseStraw(x uint32, r int32) int32 {
	high, highDraw := 0, uint64(0)
	for i, item := range b.Items {
		draw := uint64(b.hash3(x, uint32(item), uint32(r))&0xffff) * uint64(b.Straws[i])
		if i == 0 || draw > highDraw {
			high, highDraw = i, draw
		}
	}
	return b.Items[high]
}

// chooseStraw2 gives each item an exponentially distributed draw of a rate that
// is its weight, and takes the largest (bucket_straw2_choose). position is the
// place in the result, for weight sets.
func (b *Bucket) chooseStraw2(x uint32, r int32, arg *ChooseArg, position int) int32 {
	weights, ids := b.ItemWeights, b.Items
	if arg != nil {
		if n := len(arg.WeightSets); n > 0 {
			weights = arg.WeightSets[min(position, n-1)]
		}
		if len(arg.IDs) > 0 {
			ids = arg.IDs
		}
	}
	weights, ids = weights[:len(b.Items)], ids[:len(b.Items)]
	high, highDraw := 0, int64(math.MinInt64)
	if b.Hash != 0 { // no such function: every hash is 0
		for i, w := range weights {
			if d := draw(0, w); d > highDraw {
				high, highDraw = i, d
			}
		}
		return b.Items[high]
	}
	i := 0
	for ; i+1 < len(weights); i += 2 {
		u0, u1 := hash3Pair(x, uint32(ids[i]), uint32(ids[i+1]), uint32(r))
		if d := draw(u0, weights[i]); d > highDraw {
			high, highDraw = i, d
		}
		if d := draw(u1, weights[i+1]); d > highDraw {
			high, highDraw = i+1, d
		}
	}
	if i < len(weights) {
		if d := draw(Hash3(x, uint32(ids[i]), uint32(r)), weights[i]); d > highDraw {
			high = i
		}
	}
	return b.Items[high]
}

// draw is an item's draw: of the lower 16 bits of its hash, and its weight, which
// goes through a C int.
func draw(hash, weight uint32) int64 {
	if weight == 0 {
		return math.MinInt64
	}
	return (ln(hash&0xffff) - 1<<48) / int64(int32(weight))
}

// ln returns 2^44*log2(u+1), as Ceph's tables approximate it, for u up to 0xffff
// (crush_ln).
func ln(u uint32) int64 {
	x := u + 1
	exp := uint(15)
	if x&0x18000 == 0 {
		shift := uint(bits.LeadingZeros32(x)) - 16
		x <<= shift
		exp -= shift
	}
	i := x>>8<<1 - 256
	rh, lh := rhlhTable[i], rhlhTable[i+1]
	frac := uint64(x) * uint64(rh) >> 48
	return int64(exp)<<44 + (lh+llTable[frac&0xff])>>4
}
