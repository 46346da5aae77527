package crush

import (
	"errors"
	"slices"
	"testing"

	"capstan/cephfs/denc"
	"capstan/internal/testutil"
)

// smallMap has a root of hosts with disks each, straw2 and of weight 1.
func smallMap(hosts, disks int, rules ...*Rule) *Map {
	m := &Map{Tunables: legacyTunables(), Rules: rules, MaxDevices: int32(hosts * disks)}
	m.Tunables.ChooseTotalTries, m.Tunables.ChooseLeafStable, m.Tunables.ChooseLeafVaryR = 50, 1, 1
	root := &Bucket{ID: -1, Type: 2, Alg: Straw2}
	m.Buckets = append(m.Buckets, root)
	for h := range hosts {
		b := &Bucket{ID: int32(-2 - h), Type: 1, Alg: Straw2}
		for d := range disks {
			b.Items, b.ItemWeights = append(b.Items, int32(h*disks+d)), append(b.ItemWeights, 0x10000)
		}
		root.Items, root.ItemWeights = append(root.Items, b.ID), append(root.ItemWeights, uint32(disks)<<16)
		m.Buckets = append(m.Buckets, b)
	}
	return m
}

func allIn(n int) []uint32 { return slices.Repeat([]uint32{0x10000}, n) }

func TestDoWithoutResult(t *testing.T) {
	m := smallMap(2, 2, nil, &Rule{Type: RuleReplicated, Steps: []Step{{OpTake, -1, 0}, {OpChooseLeafFirstN, 0, 1}, {OpEmit, 0, 0}}})
	var w Work
	for _, tc := range []struct{ rule, size int }{{-1, 3}, {0, 3}, {2, 3}, {1, 0}, {1, -4}} {
		if got := m.Do(&w, tc.rule, 1, tc.size, allIn(4), nil); got != nil {
			t.Errorf("%+v: %v", tc, got)
		}
	}
	if got := m.Do(&w, 1, 1, 5, nil, nil); len(got) != 0 {
		t.Errorf("no weights: %v", got)
	}
	if got := m.Do(&w, 1, 1, 5, allIn(4), nil); len(got) != 2 || got[0]/2 == got[1]/2 {
		t.Errorf("two hosts: %v", got)
	}
}

// Hosts that share no stride, an out device whose stride moves to another host
// only if it must: the promises of an MSR rule.
func TestMSRPromises(t *testing.T) {
	rule := &Rule{Type: RuleMSRIndep, Steps: []Step{{OpTake, -1, 0}, {OpChooseMSR, 3, 1}, {OpChooseMSR, 2, 0}, {OpEmit, 0, 0}}}
	m := smallMap(6, 4, rule)
	var w Work
	for x := range uint32(300) {
		before := slices.Clone(m.Do(&w, 0, x, 6, allIn(24), nil))
		if len(before) != 6 || slices.Contains(before, ItemNone) {
			t.Fatalf("x %d: %v", x, before)
		}
		for i := range 6 {
			for k := range i {
				if before[i] == before[k] || (before[i]/4 == before[k]/4) != (i/2 == k/2) {
					t.Fatalf("x %d: positions %d and %d of %v", x, k, i, before)
				}
			}
		}
		out := allIn(24)
		out[before[3]] = 0
		after := m.Do(&w, 0, x, 6, out, nil)
		moved := 0
		for i := range after {
			if after[i] != before[i] {
				moved++
			}
		}
		if moved == 0 || slices.Contains(after, before[3]) || slices.Contains(after, ItemNone) {
			t.Fatalf("x %d: %v, then %v", x, before, after)
		}
	}
}

// MSR rules that Ceph aborts at, or loops over for ever, give nothing or little.
func TestMSRMalformed(t *testing.T) {
	for name, steps := range map[string][]Step{
		"no emit":          {{OpTake, -1, 0}, {OpChooseMSR, 1, 0}},
		"no take":          {{OpChooseMSR, 1, 0}, {OpEmit, 0, 0}},
		"other step":       {{OpTake, -1, 0}, {OpChooseFirstN, 1, 0}, {OpEmit, 0, 0}},
		"no choose":        {{OpTake, -1, 0}, {OpEmit, 0, 0}},
		"no such bucket":   {{OpTake, -99, 0}, {OpChooseMSR, 1, 0}, {OpEmit, 0, 0}},
		"below a device":   {{OpTake, 1, 0}, {OpChooseMSR, 1, 0}, {OpEmit, 0, 0}},
		"negative":         {{OpTake, -1, 0}, {OpChooseMSR, -1, 0}, {OpEmit, 0, 0}},
		"too wide":         {{OpTake, -1, 0}, {OpChooseMSR, 1 << 20, 1}, {OpChooseMSR, 1 << 20, 0}, {OpEmit, 0, 0}},
		"behind devices":   {{OpTake, -1, 0}, {OpChooseMSR, 2, 0}, {OpChooseMSR, 2, 0}, {OpEmit, 0, 0}},
		"ends at hosts":    {{OpTake, -1, 0}, {OpChooseMSR, 2, 1}, {OpEmit, 0, 0}},
		"no such type":     {{OpTake, -1, 0}, {OpChooseMSR, 2, 7}, {OpChooseMSR, 2, 0}, {OpEmit, 0, 0}},
		"nothing but sets": {{OpSetMSRDescents, 3, 0}},
	} {
		for _, kind := range []RuleType{RuleMSRFirstN, RuleMSRIndep} {
			m := smallMap(3, 3, &Rule{Type: kind, Steps: steps})
			var w Work
			for _, item := range m.Do(&w, 0, 1, 4, allIn(9), nil) {
				if item != ItemNone {
					t.Errorf("%s: device %d", name, item)
				}
			}
		}
	}
	m := smallMap(3, 3, &Rule{Type: RuleMSRFirstN, Steps: []Step{{OpTake, 5, 0}, {OpEmit, 0, 0}, {OpTake, -1, 0}, {OpChooseMSR, 2, 0}, {OpEmit, 0, 0}}})
	var w Work
	if got := m.Do(&w, 0, 1, 4, allIn(9), nil); len(got) != 3 || got[0] != 5 {
		t.Errorf("a device, then others: %v", got)
	}
}

// Searches that cannot succeed end at the limit, with no result.
func TestLimit(t *testing.T) {
	endless := []Step{{OpSetChooseTries, 1<<31 - 1, 0}, {OpSetMSRDescents, -1, 0}, {OpSetMSRCollisionTries, -1, 0}}
	for name, r := range map[string]*Rule{
		"firstn":     {Type: RuleReplicated, Steps: append(endless[:1:1], []Step{{OpTake, -1, 0}, {OpChooseLeafFirstN, 0, 1}, {OpEmit, 0, 0}}...)},
		"indep":      {Type: RuleErasure, Steps: append(endless[:1:1], []Step{{OpTake, -1, 0}, {OpChooseIndep, 0, 0}, {OpEmit, 0, 0}}...)},
		"msr":        {Type: RuleMSRIndep, Steps: append(endless[1:], []Step{{OpTake, -1, 0}, {OpChooseMSR, 0, 0}, {OpEmit, 0, 0}}...)},
		"msr firstn": {Type: RuleMSRFirstN, Steps: append(endless[1:], []Step{{OpTake, -1, 0}, {OpChooseMSR, 9, 1}, {OpChooseMSR, 1, 0}, {OpEmit, 0, 0}}...)},
	} {
		m := smallMap(3, 2, r)
		w := Work{Limit: 10_000}
		if got := m.Do(&w, 0, 1, 9, allIn(6), nil); got != nil {
			t.Errorf("%s: %v", name, got)
		}
		if w.left < -10_000 {
			t.Errorf("%s: went on for %d", name, -w.left)
		}
	}
}

// Items that name nothing and empty buckets are passed over.
func TestDanglingItems(t *testing.T) {
	m := smallMap(3, 2,
		&Rule{Type: RuleReplicated, Steps: []Step{{OpTake, -1, 0}, {OpChooseLeafFirstN, 0, 1}, {OpEmit, 0, 0}}},
		&Rule{Type: RuleErasure, Steps: []Step{{OpTake, -1, 0}, {OpChooseLeafIndep, 0, 1}, {OpEmit, 0, 0}}},
		&Rule{Type: RuleMSRIndep, Steps: []Step{{OpTake, -1, 0}, {OpChooseMSR, 0, 1}, {OpChooseMSR, 1, 0}, {OpEmit, 0, 0}}})
	m.Buckets[1].Items[0] = -77
	m.Buckets[2].Items, m.Buckets[2].ItemWeights = nil, nil
	m.Buckets[3].Items[0] = 1 << 30
	var w Work
	for rule := range m.Rules {
		for x := range uint32(50) {
			for _, item := range m.Do(&w, rule, x, 3, allIn(6), nil) {
				if item != 1 && item != 5 && item != ItemNone {
					t.Fatalf("rule %d: device %d", rule, item)
				}
			}
		}
	}
}

func TestWorkServesSeveralMaps(t *testing.T) {
	rule := &Rule{Type: RuleReplicated, Steps: []Step{{OpTake, -1, 0}, {OpChooseFirstN, 0, 0}, {OpEmit, 0, 0}}}
	a, b := smallMap(1, 9, rule), smallMap(1, 5, rule)
	for _, m := range []*Map{a, b} {
		for _, bucket := range m.Buckets {
			bucket.Alg = Uniform
		}
	}
	var shared Work
	for x := range uint32(40) {
		for _, m := range []*Map{a, b, a} {
			var own Work
			got, want := m.Do(&shared, 0, x, 4, allIn(9), nil), m.Do(&own, 0, x, 4, allIn(9), nil)
			if !slices.Equal(got, want) {
				t.Fatalf("x %d: %v, want %v", x, got, want)
			}
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	loop := smallMap(2, 2)
	loop.Buckets[2].Items[1] = -1
	self := smallMap(2, 2)
	self.Buckets[1].Items[0] = -2
	id := smallMap(2, 2)
	id.Buckets[1].ID = -9
	alg := smallMap(2, 2)
	alg.Buckets[1].Alg = 9
	tree := smallMap(1, 2)
	tree.Buckets[1].Alg, tree.Buckets[1].NodeWeights = Tree, make([]uint32, 6)
	long := smallMap(1, 1, &Rule{Steps: make([]Step, maxSteps+1)})
	for name, m := range map[string]*Map{"loop": loop, "in itself": self, "wrong id": id, "alg": alg, "tree": tree, "long rule": long} {
		_, err := Decode(m.Encode(false))
		if e := (*denc.Error)(nil); !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := smallMap(2, 2, &Rule{Steps: make([]Step, 2)}).Encode(true)
	for n := range good {
		m, err := Decode(good[:n])
		if e := (*denc.Error)(nil); err != nil && !errors.As(err, &e) || err == nil && m == nil {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	if _, err := Decode(append([]byte{1}, good[1:]...)); !errors.Is(err, denc.ErrValue) {
		t.Errorf("magic: %v", err)
	}
	if _, err := Decode(append(good, "what release 21 adds"...)); err != nil {
		t.Errorf("unknown tail: %v", err)
	}
}

// Weight sets of a size that is not the bucket's, as old monitors left them.
func TestChooseArgsAreCutAndFilled(t *testing.T) {
	m := smallMap(2, 3)
	args := make([]*ChooseArg, len(m.Buckets))
	args[1] = &ChooseArg{WeightSets: [][]uint32{{1, 2, 3, 4, 5}, {6}}}
	m.ChooseArgs = map[int64]*ChooseArgs{7: {args}}
	got, err := Decode(m.Encode(false))
	if err != nil {
		t.Fatal(err)
	}
	sets := got.ChooseArgsFor(7).Bucket(-2).WeightSets
	if !slices.Equal(sets[0], []uint32{1, 2, 3}) || !slices.Equal(sets[1], []uint32{6, 0, 0}) {
		t.Errorf("%v", sets)
	}
	if got.ChooseArgsFor(8) != nil || got.ChooseArgsFor(7).Bucket(-9) != nil {
		t.Error("choose_args of nobody")
	}
	args[1] = &ChooseArg{IDs: []int32{1}}
	if _, err := Decode(m.Encode(false)); !errors.Is(err, denc.ErrValue) {
		t.Errorf("too few ids: %v", err)
	}
}

func BenchmarkDo(b *testing.B) {
	for _, bc := range []struct {
		name, path string
		size       int
	}{
		{"straw2-1000", "build-large", 3},
		{"straw2-60", "straw2-3", 3},
		{"legacy", "build-legacy", 3},
		{"msr", "msr-0", 6},
	} {
		b.Run(bc.name, func(b *testing.B) {
			m, err := Decode(testutil.ReadGzip(b, "testdata/"+bc.path+".crush.gz"))
			if err != nil {
				b.Fatal(err)
			}
			weights := allIn(int(m.MaxDevices))
			var w Work
			m.Do(&w, 0, 0, bc.size, weights, nil)
			b.ReportAllocs()
			for x := uint32(0); b.Loop(); x++ {
				m.Do(&w, 0, x, bc.size, weights, nil)
			}
		})
	}
}

func TestMappingsDoNotAllocate(t *testing.T) {
	for _, name := range []string{"straw2-3", "uniform", "mixed-0", "weight-set-positions", "msr-0", "msr-1"} {
		m, err := Decode(testutil.ReadGzip(t, "testdata/"+name+".crush.gz"))
		if err != nil {
			t.Fatal(err)
		}
		weights, args := allIn(int(m.MaxDevices)), m.ChooseArgsFor(0)
		var w Work
		for rule := range m.Rules {
			all := func() {
				for x := range uint32(20) {
					m.Do(&w, rule, x, 4, weights, args)
				}
			}
			all() // the permutations of uniform buckets are made as they are met
			if n := testing.AllocsPerRun(3, all); n > 0 {
				t.Errorf("%s, rule %d: %v allocations", name, rule, n)
			}
		}
	}
}
