package crush_test

import (
	"fmt"

	"capstan/cephfs/crush"
)

func Example() {
	// Three hosts with two disks each, below one root.
	m := &crush.Map{MaxDevices: 6, Tunables: crush.Tunables{ChooseTotalTries: 50, ChooseLeafDescendOnce: 1, ChooseLeafVaryR: 1, ChooseLeafStable: 1}}
	root := &crush.Bucket{ID: -1, Type: 10, Alg: crush.Straw2}
	m.Buckets = append(m.Buckets, root)
	for h := range int32(3) {
		m.Buckets = append(m.Buckets, &crush.Bucket{
			ID: -2 - h, Type: 1, Alg: crush.Straw2,
			Items: []int32{2 * h, 2*h + 1}, ItemWeights: []uint32{0x10000, 0x10000},
		})
		root.Items, root.ItemWeights = append(root.Items, -2-h), append(root.ItemWeights, 0x20000)
	}
	// A device on each of as many hosts as asked for.
	m.Rules = []*crush.Rule{{Type: crush.RuleReplicated, Steps: []crush.Step{
		{Op: crush.OpTake, Arg1: -1}, {Op: crush.OpChooseLeafFirstN, Arg1: 0, Arg2: 1}, {Op: crush.OpEmit},
	}}}

	weights := []uint32{0x10000, 0x10000, 0x10000, 0x10000, 0x10000, 0x10000}
	var w crush.Work
	fmt.Println(m.Do(&w, 0, 1234, 2, weights, nil))
	weights[1] = 0 // out: another takes its place
	fmt.Println(m.Do(&w, 0, 1234, 2, weights, nil))
	// Output:
	// [1 5]
	// [5 0]
}
