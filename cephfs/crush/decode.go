package crush

import (
	"math/bits"

	"capstan/cephfs/denc"
)

// magic begins every encoded map (CRUSH_MAGIC).
const magic = 0x00010000

const (
	// maxSteps bounds a rule. Ceph's rules have below ten steps; the recursion of
	// an MSR rule is as deep as it has steps.
	maxSteps = 1024
	// chooseArgsSlots bounds the memory of choose_args, in buckets, beyond what
	// the size of the input makes plausible: every set has a slot for every bucket.
	chooseArgsSlots = 1 << 20
)

// Decode reads an encoded map. What newer releases added at its end is ignored.
// The map keeps nothing of b. Faults are of type *[denc.Error].
func Decode(b []byte) (*Map, error) {
	d := denc.NewDecoder(b)
	m := &Map{Tunables: legacyTunables()}
	if d.Uint32("crush.magic") != magic {
		d.Fail("crush.magic", denc.ErrValue)
	}
	buckets := d.Int32("crush.max_buckets")
	rules := d.Uint32("crush.max_rules")
	d.Skip("crush.max_devices", 4) // Ceph counts anew: see countDevices
	if buckets < 0 {
		d.Fail("crush.max_buckets", denc.ErrValue)
	}
	if (int64(buckets)+int64(rules))*4 > int64(d.Remaining()) {
		d.Fail("crush.max_buckets", denc.ErrTooLong)
	}
	if !d.OK() {
		return nil, d.Err()
	}
	m.Buckets = make([]*Bucket, buckets)
	for i := range m.Buckets {
		m.Buckets[i] = decodeBucket(d, int32(-1-i))
	}
	m.Rules = make([]*Rule, rules)
	for i := range m.Rules {
		m.Rules[i] = decodeRule(d)
	}
	m.TypeNames = decodeNames(d, "crush.type_map")
	m.ItemNames = decodeNames(d, "crush.name_map")
	m.RuleNames = decodeNames(d, "crush.rule_name_map")
	m.decodeTunables(d)
	if d.Remaining() > 0 {
		m.decodeClasses(d)
	}
	if d.Remaining() > 0 {
		m.decodeChooseArgs(d, len(b))
	}
	if d.Remaining() > 0 {
		m.Tunables.MSRDescents = d.Uint32("crush.msr_descents")
		m.Tunables.MSRCollisionTries = d.Uint32("crush.msr_collision_tries")
	}
	if d.OK() && m.loops() {
		d.Fail("crush.buckets(a bucket is below itself)", denc.ErrValue)
	}
	if !d.OK() {
		return nil, d.Err()
	}
	m.countDevices()
	return m, nil
}

// countDevices sets MaxDevices to what the buckets hold. After the last device
// was removed, what a monitor sends may still be higher (crush_finalize).
func (m *Map) countDevices() {
	m.MaxDevices = 0
	for _, b := range m.Buckets {
		if b == nil {
			continue
		}
		for _, item := range b.Items {
			if item >= m.MaxDevices && item < itemUndef {
				m.MaxDevices = item + 1
			}
		}
	}
}

// decodeBucket reads the bucket whose id is to be id, or nil.
func decodeBucket(d *denc.Decoder, id int32) *Bucket {
	alg := d.Uint32("crush.bucket.alg")
	if alg == 0 || !d.OK() {
		return nil
	}
	b := &Bucket{
		ID:   d.Int32("crush.bucket.id"),
		Type: d.Uint16("crush.bucket.type"),
		Alg:  Alg(d.Uint8("crush.bucket.alg")),
		Hash: d.Uint8("crush.bucket.hash"),
	}
	b.Weight = d.Uint32("crush.bucket.weight")
	if d.OK() && (b.ID != id || uint32(b.Alg) != alg) {
		d.Fail("crush.bucket.id", denc.ErrValue)
	}
	n := d.Count("crush.bucket.size", 4)
	b.Items = make([]int32, n)
	for i := range b.Items {
		b.Items[i] = d.Int32("crush.bucket.items")
	}
	switch b.Alg {
	case Uniform:
		b.ItemWeight = d.Uint32("crush.bucket.item_weight")
	case List:
		b.ItemWeights, b.SumWeights = decodePairs(d, n)
	case Straw:
		b.ItemWeights, b.Straws = decodePairs(d, n)
	case Straw2:
		b.ItemWeights = decodeWords(d, "crush.bucket.item_weights", n)
	case Tree:
		// Eight bits: a tree of more than 128 items never worked.
		nodes := int(d.Uint8("crush.bucket.num_nodes"))
		if bits.OnesCount(uint(nodes)) > 1 {
			d.Fail("crush.bucket.num_nodes", denc.ErrValue)
		}
		b.NodeWeights = decodeWords(d, "crush.bucket.node_weights", nodes)
	default:
		d.Fail("crush.bucket.alg", denc.ErrValue)
	}
	return b
}

// decodeWords reads n words.
func decodeWords(d *denc.Decoder, field string, n int) []uint32 {
	if int64(n)*4 > int64(d.Remaining()) {
		d.Fail(field, denc.ErrShort)
		return nil
	}
	v := make([]uint32, n)
	for i := range v {
		v[i] = d.Uint32(field)
	}
	return v
}

// decodePairs reads n pairs of words.
func decodePairs(d *denc.Decoder, n int) (a, b []uint32) {
	if int64(n)*8 > int64(d.Remaining()) {
		d.Fail("crush.bucket.weights", denc.ErrShort)
		return nil, nil
	}
	a, b = make([]uint32, n), make([]uint32, n)
	for i := range a {
		a[i] = d.Uint32("crush.bucket.item_weights")
		b[i] = d.Uint32("crush.bucket.weights")
	}
	return a, b
}

func decodeRule(d *denc.Decoder) *Rule {
	if d.Uint32("crush.rule.exists") == 0 || !d.OK() {
		return nil
	}
	n := int(d.Uint32("crush.rule.len"))
	r := &Rule{
		Ruleset: d.Uint8("crush.rule.ruleset"),
		Type:    RuleType(d.Uint8("crush.rule.type")),
		MinSize: d.Uint8("crush.rule.min_size"),
		MaxSize: d.Uint8("crush.rule.max_size"),
	}
	if n > maxSteps || n*12 > d.Remaining() {
		d.Fail("crush.rule.len", denc.ErrTooLong)
		return nil
	}
	r.Steps = make([]Step, n)
	for i := range r.Steps {
		r.Steps[i] = Step{Op(d.Uint32("crush.rule.op")), d.Int32("crush.rule.arg1"), d.Int32("crush.rule.arg2")}
	}
	return r
}

// decodeNames reads a map of numbers to names. An old bug encoded the numbers
// with 64 bits; no name is empty, so a length of 0 gives those away
// (decode_32_or_64_string_map).
func decodeNames(d *denc.Decoder, field string) map[int32]string {
	n := d.Count(field, 8)
	names := make(map[int32]string, n)
	for range n {
		key := d.Int32(field)
		size := d.Uint32(field)
		if size == 0 {
			size = d.Uint32(field)
		}
		if int64(size) > int64(d.Remaining()) {
			d.Fail(field, denc.ErrShort)
		}
		names[key] = string(d.Raw(field, int(size)))
		if !d.OK() {
			return nil
		}
	}
	return names
}

// decodeTunables reads what the map has of them: each release added some.
func (m *Map) decodeTunables(d *denc.Decoder) {
	t := &m.Tunables
	if d.Remaining() == 0 {
		return
	}
	t.ChooseLocalTries = d.Uint32("crush.choose_local_tries")
	t.ChooseLocalFallbackTries = d.Uint32("crush.choose_local_fallback_tries")
	t.ChooseTotalTries = d.Uint32("crush.choose_total_tries")
	if d.Remaining() > 0 {
		t.ChooseLeafDescendOnce = d.Uint32("crush.chooseleaf_descend_once")
	}
	if d.Remaining() > 0 {
		t.ChooseLeafVaryR = d.Uint8("crush.chooseleaf_vary_r")
	}
	if d.Remaining() > 0 {
		t.StrawCalcVersion = d.Uint8("crush.straw_calc_version")
	}
	if d.Remaining() > 0 {
		t.AllowedBucketAlgs = d.Uint32("crush.allowed_bucket_algs")
	}
	if d.Remaining() > 0 {
		t.ChooseLeafStable = d.Uint8("crush.chooseleaf_stable")
	}
}

func (m *Map) decodeClasses(d *denc.Decoder) {
	n := d.Count("crush.class_map", 8)
	m.Classes = make(map[int32]int32, n)
	for range n {
		device := d.Int32("crush.class_map")
		m.Classes[device] = d.Int32("crush.class_map")
	}
	n = d.Count("crush.class_name", 8)
	m.ClassNames = make(map[int32]string, n)
	for range n {
		class := d.Int32("crush.class_name")
		m.ClassNames[class] = d.String("crush.class_name")
	}
	n = d.Count("crush.class_bucket", 8)
	m.ClassBuckets = make(map[int32]map[int32]int32, n)
	for range n {
		bucket := d.Int32("crush.class_bucket")
		k := d.Count("crush.class_bucket", 8)
		shadows := make(map[int32]int32, k)
		for range k {
			class := d.Int32("crush.class_bucket")
			shadows[class] = d.Int32("crush.class_bucket")
		}
		m.ClassBuckets[bucket] = shadows
	}
}

// decodeChooseArgs reads all sets of choose_args of a map of size bytes.
func (m *Map) decodeChooseArgs(d *denc.Decoder, size int) {
	n := d.Count("crush.choose_args", 12)
	if n > 0 && int64(n)*int64(len(m.Buckets)) > int64(size)+chooseArgsSlots {
		d.Fail("crush.choose_args", denc.ErrTooLong)
		return
	}
	m.ChooseArgs = make(map[int64]*ChooseArgs, n)
	for range n {
		key := d.Int64("crush.choose_args.key")
		args := make([]*ChooseArg, len(m.Buckets))
		for range d.Count("crush.choose_args.size", 12) {
			i := d.Uint32("crush.choose_args.bucket")
			arg := m.decodeChooseArg(d, i)
			if !d.OK() {
				return
			}
			args[i] = arg
		}
		m.ChooseArgs[key] = &ChooseArgs{args}
	}
}

// decodeChooseArg reads the replacement for bucket number i. It is nil if it
// does not apply: there is no such bucket, or not one that takes it.
func (m *Map) decodeChooseArg(d *denc.Decoder, i uint32) *ChooseArg {
	if d.OK() && int64(i) >= int64(len(m.Buckets)) {
		d.Fail("crush.choose_args.bucket", denc.ErrValue)
		return nil
	}
	arg := &ChooseArg{}
	if n := d.Count("crush.choose_args.positions", 4); n > 0 {
		arg.WeightSets = make([][]uint32, n)
		for p := range arg.WeightSets {
			arg.WeightSets[p] = decodeWords(d, "crush.choose_args.weights", d.Count("crush.choose_args.weights", 4))
		}
	}
	if n := d.Count("crush.choose_args.ids", 4); n > 0 {
		arg.IDs = make([]int32, n)
		for k := range arg.IDs {
			arg.IDs[k] = d.Int32("crush.choose_args.ids")
		}
	}
	if !d.OK() {
		return nil
	}
	b := m.Buckets[i]
	if b == nil || b.Alg != Straw2 {
		return nil
	}
	if len(arg.IDs) > 0 && len(arg.IDs) != len(b.Items) {
		d.Fail("crush.choose_args.ids", denc.ErrValue)
		return nil
	}
	// A bug of old monitors left weight sets of another size than their bucket;
	// Ceph cuts or fills them when it decodes (update_choose_args).
	for p, set := range arg.WeightSets {
		if len(set) > len(b.Items) {
			arg.WeightSets[p] = set[:len(b.Items)]
		} else if len(set) < len(b.Items) {
			if len(arg.WeightSets)*len(b.Items) > len(m.Buckets)+d.Offset() {
				d.Fail("crush.choose_args.weights", denc.ErrTooLong)
				return nil
			}
			full := make([]uint32, len(b.Items))
			copy(full, set)
			arg.WeightSets[p] = full
		}
	}
	return arg
}

// loops reports whether a bucket can be reached from itself.
func (m *Map) loops() bool {
	const (
		unseen = iota
		open
		done
	)
	type frame struct {
		b    *Bucket
		next int // of its items
	}
	state := make([]uint8, len(m.Buckets))
	var path []frame
	for _, root := range m.Buckets {
		if root == nil || state[^root.ID] != unseen {
			continue
		}
		state[^root.ID] = open
		path = append(path[:0], frame{b: root})
		for len(path) > 0 {
			f := &path[len(path)-1]
			if f.next == len(f.b.Items) {
				state[^f.b.ID] = done
				path = path[:len(path)-1]
				continue
			}
			child := m.Bucket(f.b.Items[f.next])
			f.next++
			if child == nil {
				continue
			}
			switch state[^child.ID] {
			case open:
				return true
			case unseen:
				state[^child.ID] = open
				path = append(path, frame{b: child})
			}
		}
	}
	return false
}
