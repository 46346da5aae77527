package crush

import "strconv"

// The items a mapping may hold besides devices (ceph/ceph src/crush/crush.h).
const (
	ItemNone  int32 = 0x7fffffff // no device for this position (CRUSH_ITEM_NONE)
	itemUndef int32 = 0x7ffffffe // not yet decided (CRUSH_ITEM_UNDEF)
)

// Alg is how a bucket picks one of its items (enum crush_algorithm).
type Alg uint8

// The bucket algorithms.
const (
	Uniform Alg = 1
	List    Alg = 2
	Tree    Alg = 3
	Straw   Alg = 4
	Straw2  Alg = 5
)

// String returns Ceph's name of a.
func (a Alg) String() string {
	switch a {
	case Uniform:
		return "uniform"
	case List:
		return "list"
	case Tree:
		return "tree"
	case Straw:
		return "straw"
	case Straw2:
		return "straw2"
	}
	return "alg" + strconv.Itoa(int(a))
}

// Bucket is an inner node of the tree. Weights are 16.16 fixed point.
type Bucket struct {
	ID     int32 // negative
	Type   uint16
	Alg    Alg
	Hash   uint8 // 0: rjenkins1, the only one there is
	Weight uint32
	Items  []int32 // devices (>= 0) and buckets (< 0)

	ItemWeight  uint32   // of every item: Uniform
	ItemWeights []uint32 // one for each item: List, Straw, Straw2
	SumWeights  []uint32 // of the items up to and with this one: List
	NodeWeights []uint32 // of the nodes of the binary tree, the root in the middle: Tree
	Straws      []uint32 // the lengths: Straw
}

// Op is what a step of a rule does (enum crush_opcodes).
type Op uint32

// The steps of a rule.
const (
	OpNoop                   Op = 0
	OpTake                   Op = 1 // Arg1: item
	OpChooseFirstN           Op = 2 // Arg1: number, Arg2: type
	OpChooseIndep            Op = 3
	OpEmit                   Op = 4
	OpChooseLeafFirstN       Op = 6
	OpChooseLeafIndep        Op = 7
	OpSetChooseTries         Op = 8 // Arg1: the value
	OpSetChooseLeafTries     Op = 9
	OpSetChooseLocalTries    Op = 10
	OpSetChooseLocalFallback Op = 11
	OpSetChooseLeafVaryR     Op = 12
	OpSetChooseLeafStable    Op = 13
	OpSetMSRDescents         Op = 14
	OpSetMSRCollisionTries   Op = 15
	OpChooseMSR              Op = 16 // Arg1: number, Arg2: type
)

// Step is one step of a rule.
type Step struct {
	Op         Op
	Arg1, Arg2 int32
}

// RuleType is what a rule is for (enum crush_rule_type). The first two are also
// the types of pools.
type RuleType uint8

// The rule types.
const (
	RuleReplicated RuleType = 1
	RuleErasure    RuleType = 3
	RuleMSRFirstN  RuleType = 4
	RuleMSRIndep   RuleType = 5
)

// IsMSR reports whether rules of type t are of the multi-step retry kind.
func (t RuleType) IsMSR() bool { return t == RuleMSRFirstN || t == RuleMSRIndep }

// Rule says how the tree is descended.
type Rule struct {
	Ruleset          uint8 // before release 17 a pool names this; since release 12 it is the rule's number
	Type             RuleType
	MinSize, MaxSize uint8 // of pools that may use the rule; ignored since release 17
	Steps            []Step
}

// Tunables are the map-wide parameters of the algorithm.
type Tunables struct {
	ChooseLocalTries         uint32
	ChooseLocalFallbackTries uint32
	ChooseTotalTries         uint32 // retries, not tries
	ChooseLeafDescendOnce    uint32
	ChooseLeafVaryR          uint8
	StrawCalcVersion         uint8
	AllowedBucketAlgs        uint32 // bit 1<<Alg
	ChooseLeafStable         uint8
	MSRDescents              uint32
	MSRCollisionTries        uint32
}

// legacyTunables hold for what a map is too old to say.
func legacyTunables() Tunables {
	return Tunables{
		ChooseLocalTries:         2,
		ChooseLocalFallbackTries: 5,
		ChooseTotalTries:         19,
		AllowedBucketAlgs:        1<<Uniform | 1<<List | 1<<Straw,
		MSRDescents:              100,
		MSRCollisionTries:        100,
	}
}

// ChooseArgs replace weights and ids of straw2 buckets, for the mappings of one
// pool or of all.
type ChooseArgs struct {
	args []*ChooseArg // by bucket number (-1-id)
}

// ChooseArg is the part of [ChooseArgs] for one bucket.
type ChooseArg struct {
	WeightSets [][]uint32 // by position in the result; the last is for all that follow; empty: the bucket's own
	IDs        []int32    // what is hashed in place of the items; empty: the items
}

// Bucket returns the replacement for the bucket with this id, or nil.
func (a *ChooseArgs) Bucket(id int32) *ChooseArg {
	if a == nil {
		return nil
	}
	if n := int(-1 - id); n >= 0 && n < len(a.args) {
		return a.args[n]
	}
	return nil
}

// defaultChooseArgs is the key of the set that serves pools without their own
// (CrushWrapper::DEFAULT_CHOOSE_ARGS).
const defaultChooseArgs = -1

// Map is a CRUSH map. It is not to be changed while mappings are computed with
// it.
type Map struct {
	MaxDevices int32     // above every device
	Buckets    []*Bucket // the bucket with id i at -1-i; nil where there is none
	Rules      []*Rule   // nil where there is none
	Tunables   Tunables

	TypeNames map[int32]string
	ItemNames map[int32]string
	RuleNames map[int32]string

	Classes      map[int32]int32           // class of a device
	ClassNames   map[int32]string          // by class
	ClassBuckets map[int32]map[int32]int32 // bucket, class: the bucket's shadow

	ChooseArgs map[int64]*ChooseArgs // by pool; -1 is for pools without their own
}

// Bucket returns the bucket with this id, or nil.
func (m *Map) Bucket(id int32) *Bucket {
	// Two's complement: -1-id is ^id, and devices come out above every length.
	if n := uint32(^id); int64(n) < int64(len(m.Buckets)) {
		return m.Buckets[n]
	}
	return nil
}

// Rule returns the rule of this number, or nil.
func (m *Map) Rule(n int) *Rule {
	if n < 0 || n >= len(m.Rules) {
		return nil
	}
	return m.Rules[n]
}

// FindRule returns the number of the rule that pools of the given type and size
// use if they name ruleset, or -1 (crush_find_rule). From release 17 on a pool
// names the rule itself.
func (m *Map) FindRule(ruleset int, t RuleType, size int) int {
	for i, r := range m.Rules {
		if r != nil && int(r.Ruleset) == ruleset && r.Type == t && int(r.MinSize) <= size && size <= int(r.MaxSize) {
			return i
		}
	}
	return -1
}

// ChooseArgsFor returns the choose_args for the mappings of a pool, or nil.
func (m *Map) ChooseArgsFor(pool int64) *ChooseArgs {
	if a, ok := m.ChooseArgs[pool]; ok {
		return a
	}
	return m.ChooseArgs[defaultChooseArgs]
}
