package crush

// Multi-step retry rules (release 19): all choose steps between a take and an
// emit are one descent, and a device that is out makes the whole descent be
// tried again, not only its last step. See ceph/ceph doc/dev/crush-msr.rst and
// crush_msr_do_rule.
//
// The result is cut into strides: "choosemsr 4 host, choosemsr 2 osd" gives four
// strides of two positions. Strides never share a host; one stride may use
// several.

// msrBlock is one take .. emit of a rule.
type msrBlock struct {
	*mapping
	steps   []Step // the choosemsr steps
	size    int    // positions of the whole result
	tries   uint32 // at one bucket after collisions
	firstN  bool
	chosen  []int32 // len(steps) vectors of size items: what each step has chosen, from the start of each stride
	undo    []int32 // len(steps) vectors of size items
	result  []int32
	results int // so far, by all blocks
}

// doMSR maps by a rule of an MSR type.
func (m *Map) doMSR(w *Work, r *Rule, x uint32, size int, weights []uint32, args *ChooseArgs) []int32 {
	descents, tries := m.Tunables.MSRDescents, m.Tunables.MSRCollisionTries
	steps := r.Steps
config:
	for ; len(steps) > 0; steps = steps[1:] {
		switch s := steps[0]; s.Op {
		case OpSetMSRDescents:
			descents = uint32(s.Arg1)
		case OpSetMSRCollisionTries:
			tries = uint32(s.Arg1)
		default:
			break config
		}
	}

	longest := 0
	for rest := steps; len(rest) > 0; {
		n, ok := msrSteps(rest)
		if !ok {
			break
		}
		longest = max(longest, n)
		rest = rest[n+2:]
	}
	w.reset(m, size*(1+2*longest))
	c := mapping{m, w, x, weights, args}
	result := w.vec(size)
	for i := range result {
		result[i] = ItemNone
	}
	b := msrBlock{mapping: &c, size: size, tries: tries, firstN: r.Type == RuleMSRFirstN, result: result}
	vectors := w.pos

	for start := 0; len(steps) > 0; {
		n, ok := msrSteps(steps)
		if !ok {
			return nil
		}
		take, block := steps[0].Arg1, steps[1:1+n]
		steps = steps[n+2:]
		if take >= 0 {
			if n != 0 {
				return nil
			}
			if start < size {
				b.emit(start, take)
				start++
			}
			continue
		}
		root := m.Bucket(take)
		total, ok := msrWidth(block, size)
		if root == nil || !ok || n == 0 {
			return nil
		}
		w.pos = vectors
		b.steps, b.chosen, b.undo = block, w.vec(size*n), w.vec(size*n)
		for i := range b.chosen {
			b.chosen[i] = itemUndef
		}
		end := min(start+total, size)
		full := b.results + end - start
		for try := uint32(0); try < descents && b.results < full && w.left >= 0; try++ {
			b.choose(root, total, start, end, 0, try)
		}
		start = end
	}
	if w.left < 0 {
		return nil
	}
	if b.firstN {
		return result[:b.results]
	}
	return result
}

// msrSteps returns the number of choosemsr steps between the take that steps
// begins with and its emit.
func msrSteps(steps []Step) (int, bool) {
	if steps[0].Op != OpTake {
		return 0, false
	}
	for i, s := range steps[1:] {
		switch s.Op {
		case OpEmit:
			return i, true
		case OpChooseMSR:
		default:
			return 0, false
		}
	}
	return 0, false
}

// msrWidth returns how many positions the steps of a block fill together.
func msrWidth(steps []Step, size int) (int, bool) {
	total := 1
	for _, s := range steps {
		if s.Arg1 < 0 {
			return 0, false
		}
		total *= msrStrides(s, size)
		if total > 1<<31-1 {
			return 0, false
		}
	}
	return total, true
}

// msrStrides returns how many items a step chooses.
func msrStrides(s Step, size int) int {
	if s.Arg1 == 0 {
		return size
	}
	return int(s.Arg1)
}

// emit puts an item into the result: at its position, or behind the others.
func (b *msrBlock) emit(position int, item int32) {
	if b.firstN {
		position = b.results
	}
	if b.results < b.size {
		b.result[position] = item
	}
	b.results++
}

// choose runs step number step for positions start to end below bucket, depth
// first, and returns how many positions it filled. width is the number of
// positions that step and those after it fill in all, which may exceed end-start
// (crush_msr_choose).
func (b *msrBlock) choose(bucket *Bucket, width, start, end, step int, try uint32) int {
	s := b.steps[step]
	stride := width / msrStrides(s, b.size)
	chosen := b.chosen[step*b.size : (step+1)*b.size]
	leaves := b.chosen[(len(b.steps)-1)*b.size:]
	// What a stride chose in vain stays in the way of the others until all had
	// their turn, so that an out device moves as little as possible.
	undo := b.undo[step*b.size : (step+1)*b.size]
	for at := start; at < end; at += stride {
		undo[at] = itemUndef
	}

	filled := 0
	for i, at := 0, start; at < end; i, at = i+1, at+stride {
		if b.spent() {
			return filled
		}
		next := min(at+stride, end)
		if allChosen(leaves[at:next]) {
			continue
		}
		item, ok := b.pick(bucket, s.Arg2, chosen, start, end, at, next, i, try)
		if !ok {
			continue
		}
		if s.Arg2 == 0 {
			if stride != 1 || step+1 != len(b.steps) || b.isOut(item) {
				continue
			}
			push(chosen[at:next], item)
			b.emit(at, item)
			filled++
			continue
		}
		below := b.m.Bucket(item)
		if step+1 >= len(b.steps) || below == nil {
			continue
		}
		n := b.choose(below, stride, at, next, step+1, try)
		if push(chosen[at:next], item) && n == 0 {
			undo[at] = item
		} else {
			filled += n
		}
	}
	for at := start; at < end; at += stride {
		if undo[at] != itemUndef {
			pop(chosen[at:min(at+stride, end)])
		}
	}
	return filled
}

// pick looks below bucket for an item of a kind that no other stride in
// [start,end) has; the stride [at,next) itself may have it already.
func (b *msrBlock) pick(bucket *Bucket, kind int32, chosen []int32, start, end, at, next, index int, try uint32) (int32, bool) {
	for local := uint32(0); local < b.tries && b.w.left >= 0; local++ {
		item, ok := b.descend(bucket, kind, index, try, local)
		if !ok {
			return 0, false
		}
		free := true
		for i := start; i < end; i++ {
			if chosen[i] == item {
				free = i >= at && i < next
				break
			}
		}
		if free {
			return item, true
		}
	}
	return 0, false
}

// descend goes down from bucket to an item of a kind, or to a device
// (crush_msr_descend).
func (b *msrBlock) descend(bucket *Bucket, kind int32, index int, try, local uint32) (int32, bool) {
	r := (try*uint32(b.size)+uint32(index))<<16 + local
	for {
		if len(bucket.Items) == 0 || b.spent() {
			return 0, false
		}
		item := b.mapping.choose(bucket, int32(r), index)
		if item >= 0 {
			return item, item != ItemNone
		}
		if bucket = b.m.Bucket(item); bucket == nil {
			return 0, false
		}
		if int32(bucket.Type) == kind {
			return item, true
		}
	}
}

func allChosen(v []int32) bool {
	for _, item := range v {
		if item == itemUndef {
			return false
		}
	}
	return true
}

// push adds item to a stride and reports whether it is new there.
func push(stride []int32, item int32) bool {
	for i, have := range stride {
		switch have {
		case item:
			return false
		case itemUndef:
			stride[i] = item
			return true
		}
	}
	return false
}

// pop removes the item that was pushed last.
func pop(stride []int32) {
	for i := len(stride) - 1; i >= 0; i-- {
		if stride[i] != itemUndef {
			stride[i] = itemUndef
			return
		}
	}
}
