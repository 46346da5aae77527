// Package crush computes CRUSH mappings: which devices hold what a number x
// stands for, given the map of a Ceph cluster. It decodes the map's binary form
// of Ceph releases 16 to 20 and gives the same result as Ceph's own mapper, for
// every kind of bucket (uniform, list, tree, straw, straw2), every step of a
// rule, legacy tunables, choose_args (weight sets and ids), and the multi-step
// retry (MSR) rules of release 19. Device classes need nothing of their own:
// their shadow trees are ordinary buckets.
//
//	m, err := crush.Decode(blob)
//	...
//	var w crush.Work
//	osds := m.Do(&w, rule, x, 3, weights, m.ChooseArgsFor(poolID))
//
// A [Map] does not change after it is decoded: any number of goroutines may use
// it at once without a lock. A [Work] belongs to one goroutine at a time; with
// the same Work a mapping allocates nothing. The package starts no goroutine.
//
// # Malformed maps
//
// [Decode] refuses what cannot be mapped with (bucket ids that do not fit their
// place, loops), and never allocates much beyond the size of its input. What
// remains odd (items that name no bucket, weights that do not add up, absurd
// numbers of tries) ends in fewer results: [Work] counts the draws of a mapping
// and gives up, with no result, after [Work.Limit] of them.
//
// The mapping algorithm is that of ceph/ceph src/crush/mapper.c; the encoding is
// that of src/crush/CrushWrapper.cc.
package crush
