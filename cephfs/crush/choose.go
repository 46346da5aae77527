package crush

import "slices"

// firstN is a choose step whose result is a list without gaps.
type firstN struct {
	*mapping
	kind                 int32 // of the wanted items
	leafTries            uint32
	localTries, fallback uint32
	varyR                uint32
	stable               bool
}

// choose adds items below bucket to out, of which the first pos are taken, until
// it has want items or found room of them; it returns the new number of items.
// If leaves is not nil, it also adds one device below each item there, at the
// same place (crush_choose_firstn).
func (f *firstN) choose(bucket *Bucket, want int, out []int32, pos, room int, tries uint32, leaves []int32, parentR int32) int {
	rep := pos
	if f.stable {
		rep = 0
	}
	for ; rep < want && room > 0; rep++ {
		if item, ok := f.find(bucket, rep, out, pos, room, tries, leaves, parentR); ok {
			out[pos] = item
			pos++
			room--
		}
		if f.w.left < 0 {
			break
		}
	}
	return pos
}

// find looks for the item of replica rep: one of the wanted kind that is neither
// in out yet nor out of service.
func (f *firstN) find(bucket *Bucket, rep int, out []int32, pos, room int, tries uint32, leaves []int32, parentR int32) (int32, bool) {
	failures := uint32(0)
	for { // a descent from bucket
		in := bucket
		failuresHere := uint32(0)
	descent:
		for {
			if f.spent() {
				return 0, false
			}
			collide, reject := false, len(in.Items) == 0
			if !reject {
				r := int32(rep) + parentR + int32(failures)
				var item int32
				if f.fallback > 0 && failuresHere >= uint32(len(in.Items))>>1 && failuresHere > f.fallback {
					f.w.left -= len(in.Items)
					item = f.w.perm(in).choose(in, f.x, r)
				} else {
					item = f.mapping.choose(in, r, pos)
				}
				below, kind, ok := f.kindOf(item)
				if !ok {
					return 0, false
				}
				if kind != f.kind {
					if below == nil {
						return 0, false
					}
					in = below
					continue
				}
				collide = slices.Contains(out[:pos], item)
				if !collide && leaves != nil {
					if below == nil {
						leaves[pos] = item
					} else {
						reject = !f.leaf(below, leaves, pos, room, r)
					}
				}
				if !collide && !reject && kind == 0 {
					reject = f.isOut(item)
				}
				if !collide && !reject {
					return item, true
				}
			}

			failures++
			failuresHere++
			switch {
			case collide && failuresHere <= f.localTries:
				// Again in the same bucket.
			case f.fallback > 0 && failuresHere <= uint32(len(in.Items))+f.fallback:
				// Exhaust the bucket.
			case failures < tries:
				break descent
			default:
				return 0, false
			}
		}
	}
}

// leaf looks for a device below b for position pos.
func (f *firstN) leaf(b *Bucket, leaves []int32, pos, room int, r int32) bool {
	parentR := int32(0)
	if f.varyR > 0 {
		parentR = r >> min(f.varyR-1, 31)
	}
	want := pos + 1
	if f.stable {
		want = 1
	}
	g := *f
	g.kind = 0
	return g.choose(b, want, leaves, pos, room, f.leafTries, nil, parentR) > pos
}

// indep is a choose step whose items keep their positions.
type indep struct {
	*mapping
	want      int // items in all, the stride of retries
	leafTries uint32
}

// choose fills out[pos:pos+n] with items of a kind below bucket, breadth first,
// and leaves ItemNone where it finds none. If leaves is not nil, it also puts a
// device below each item there (crush_choose_indep).
func (f *indep) choose(bucket *Bucket, kind int32, out []int32, pos, n int, tries uint32, leaves []int32, parentR int32) {
	end := pos + n
	for i := pos; i < end; i++ {
		out[i] = itemUndef
		if leaves != nil {
			leaves[i] = itemUndef
		}
	}
	left := n
	for failures := uint32(0); left > 0 && failures < tries && f.w.left >= 0; failures++ {
		if f.spent() {
			break
		}
		for i := pos; i < end; i++ {
			if out[i] != itemUndef {
				continue
			}
			item, ok := f.find(bucket, kind, out, pos, end, i, failures, leaves, parentR)
			if !ok {
				continue
			}
			out[i] = item
			if leaves != nil && item == ItemNone {
				leaves[i] = ItemNone
			}
			left--
		}
	}
	for i := pos; i < end; i++ {
		if out[i] == itemUndef {
			out[i] = ItemNone
		}
		if leaves != nil && leaves[i] == itemUndef {
			leaves[i] = ItemNone
		}
	}
}

// find tries once to fill position i of out[pos:end]. The item is ItemNone if
// the map has nothing to offer there, also later.
func (f *indep) find(bucket *Bucket, kind int32, out []int32, pos, end, i int, failures uint32, leaves []int32, parentR int32) (item int32, ok bool) {
	for in := bucket; ; {
		if len(in.Items) == 0 || f.spent() {
			return 0, false
		}
		stride := uint32(f.want)
		if in.Alg == Uniform && uint32(len(in.Items))%stride == 0 {
			stride++
		}
		r := int32(i) + parentR + int32(stride*failures)
		item := f.mapping.choose(in, r, pos)
		below, k, ok := f.kindOf(item)
		if !ok {
			return ItemNone, true
		}
		if k != kind {
			if below == nil {
				return ItemNone, true
			}
			in = below
			continue
		}
		if slices.Contains(out[pos:end], item) {
			return 0, false
		}
		if leaves != nil {
			if below == nil {
				leaves[i] = item
			} else {
				f.choose(below, 0, leaves, i, 1, f.leafTries, nil, r)
				if leaves[i] == ItemNone {
					return 0, false
				}
			}
		}
		if k == 0 && f.isOut(item) {
			return 0, false
		}
		return item, true
	}
}
