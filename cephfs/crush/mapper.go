package crush

// DefaultLimit is the number of items a mapping looks at before it gives up,
// unless [Work.Limit] says otherwise. A healthy map needs some thousands; a
// crowded one with many tries some millions.
const DefaultLimit = 1 << 24

// Work is the memory that mappings need. The zero Work is ready for use. It may
// serve one map after another, but one goroutine at a time.
type Work struct {
	// Limit bounds the items that one mapping looks at; 0 means DefaultLimit.
	Limit int

	m     *Map
	perms []perm  // of m, by bucket number; nil until one is needed
	vecs  []int32 // cut into the vectors of one mapping
	pos   int     // of vecs that is in use
	left  int     // of Limit
}

// reset prepares w for one mapping with m that needs n words.
func (w *Work) reset(m *Map, n int) {
	if w.m != m {
		w.m, w.perms = m, nil
	}
	if len(w.vecs) < n {
		w.vecs = make([]int32, n)
	}
	w.pos = 0
	w.left = w.Limit
	if w.left <= 0 {
		w.left = DefaultLimit
	}
}

// vec returns the next n words, with any content.
func (w *Work) vec(n int) []int32 {
	v := w.vecs[w.pos : w.pos+n : w.pos+n]
	w.pos += n
	return v
}

// perm returns the permutation of bucket b.
func (w *Work) perm(b *Bucket) *perm {
	if w.perms == nil {
		w.perms = make([]perm, len(w.m.Buckets))
	}
	return &w.perms[^b.ID]
}

// mapping is what stays the same during one mapping.
type mapping struct {
	m       *Map
	w       *Work
	x       uint32
	weights []uint32
	args    *ChooseArgs
}

// Do maps x by a rule to at most size items, usually devices (crush_do_rule).
// weights are the chances of devices to be used, in 16.16 fixed point; a device
// beyond its end is out. args may be nil.
//
// Rules of the indep kind keep a position for every item they were asked for and
// leave [ItemNone] where they found none; rules of the firstn kind give fewer.
// The result is nil if there is no such rule or if the map made the mapping
// exceed w.Limit. It lies in w and is overwritten by the next mapping.
func (m *Map) Do(w *Work, rule int, x uint32, size int, weights []uint32, args *ChooseArgs) []int32 {
	r := m.Rule(rule)
	if r == nil || size <= 0 {
		return nil
	}
	if r.Type.IsMSR() {
		return m.doMSR(w, r, x, size, weights, args)
	}
	w.reset(m, 4*size)
	c := mapping{m, w, x, weights, args}
	result := c.run(r, w.vec(size), w.vec(size), w.vec(size), w.vec(size))
	if w.left < 0 {
		return nil
	}
	return result
}

// run executes the steps of r. in and out hold the working set before and after
// a step, leaves the devices that chooseleaf found below it.
func (c *mapping) run(r *Rule, result, in, out, leaves []int32) []int32 {
	t := &c.m.Tunables
	size := len(result)
	result = result[:0]
	n := 0 // of in

	// The number in the map counts retries, that in a step counts tries.
	tries := t.ChooseTotalTries + 1
	leafTries := uint32(0)
	localTries, fallback := t.ChooseLocalTries, t.ChooseLocalFallbackTries
	varyR, stable := uint32(t.ChooseLeafVaryR), t.ChooseLeafStable != 0

	for _, s := range r.Steps {
		switch s.Op {
		case OpTake:
			if s.Arg1 >= 0 && s.Arg1 < c.m.MaxDevices || c.m.Bucket(s.Arg1) != nil {
				in[0], n = s.Arg1, 1
			}
		case OpSetChooseTries:
			if s.Arg1 > 0 {
				tries = uint32(s.Arg1)
			}
		case OpSetChooseLeafTries:
			if s.Arg1 > 0 {
				leafTries = uint32(s.Arg1)
			}
		case OpSetChooseLocalTries:
			if s.Arg1 >= 0 {
				localTries = uint32(s.Arg1)
			}
		case OpSetChooseLocalFallback:
			if s.Arg1 >= 0 {
				fallback = uint32(s.Arg1)
			}
		case OpSetChooseLeafVaryR:
			if s.Arg1 >= 0 {
				varyR = uint32(s.Arg1)
			}
		case OpSetChooseLeafStable:
			if s.Arg1 >= 0 {
				stable = s.Arg1 != 0
			}

		case OpChooseFirstN, OpChooseLeafFirstN, OpChooseIndep, OpChooseLeafIndep:
			if n == 0 {
				break
			}
			leaf := s.Op == OpChooseLeafFirstN || s.Op == OpChooseLeafIndep
			found := 0
			for _, item := range in[:n] {
				want := int(s.Arg1)
				if want <= 0 {
					if want += size; want <= 0 {
						continue
					}
				}
				b := c.m.Bucket(item)
				if b == nil { // a device, or ItemNone
					continue
				}
				room := size - found
				if s.Op == OpChooseFirstN || s.Op == OpChooseLeafFirstN {
					f := firstN{
						mapping: c, kind: s.Arg2, localTries: localTries, fallback: fallback,
						varyR: varyR, stable: stable, leafTries: tries,
					}
					switch {
					case leafTries > 0:
						f.leafTries = leafTries
					case t.ChooseLeafDescendOnce != 0:
						f.leafTries = 1
					}
					var below []int32
					if leaf {
						below = leaves[found:]
					}
					found += f.choose(b, want, out[found:], 0, room, tries, below, 0)
				} else {
					f := indep{mapping: c, want: want, leafTries: max(leafTries, 1)}
					var below []int32
					if leaf {
						below = leaves[found:]
					}
					f.choose(b, s.Arg2, out[found:], 0, min(want, room), tries, below, 0)
					found += min(want, room)
				}
			}
			if leaf {
				copy(out[:found], leaves)
			}
			in, out, n = out, in, found

		case OpEmit:
			result = append(result, in[:min(n, size-len(result))]...)
			n = 0
		}
	}
	return result
}

// choose picks an item of b. position is the place in the result, for weight
// sets. b is not empty.
func (c *mapping) choose(b *Bucket, r int32, position int) int32 {
	c.w.left -= len(b.Items)
	switch b.Alg {
	case Uniform:
		return c.w.perm(b).choose(b, c.x, r)
	case List:
		return b.chooseList(c.x, r)
	case Tree:
		return b.chooseTree(c.x, r)
	case Straw:
		return b.chooseStraw(c.x, r)
	case Straw2:
		var arg *ChooseArg
		if c.args != nil {
			arg = c.args.Bucket(b.ID)
		}
		return b.chooseStraw2(c.x, r, arg, position)
	}
	return b.Items[0]
}

// kindOf returns the bucket that item names and its type, or nil and 0 for a
// device; ok is false for a device or bucket that does not exist.
func (c *mapping) kindOf(item int32) (b *Bucket, kind int32, ok bool) {
	if item >= 0 {
		return nil, 0, item < c.m.MaxDevices
	}
	if b = c.m.Bucket(item); b == nil {
		return nil, 0, false
	}
	return b, int32(b.Type), true
}

// spent charges one round of a search and reports whether the mapping has used
// up its limit.
func (c *mapping) spent() bool {
	c.w.left--
	return c.w.left < 0
}

// isOut reports whether x is among the inputs that a device does not take: all
// of them if its weight is 0, a share if it is below 1.
func (c *mapping) isOut(item int32) bool {
	if item < 0 || int(item) >= len(c.weights) {
		return true
	}
	w := c.weights[item]
	return w < 0x10000 && (w == 0 || Hash2(c.x, uint32(item))&0xffff >= w)
}
