package crush

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// goldenCase is a map that crushtool builds, and the mappings asked of it.
type goldenCase struct {
	name  string
	text  string   // a map in crushtool's language, in the file "text"
	build string   // shell commands that make the file "map"
	tests []string // arguments of crushtool --test
	few   bool     // inputs: the mappings take long
}

// compileText turns text into map.
const compileText = "crushtool -c text --enable-unsafe-tunables -o map"

func decodeBase64(t *testing.T, s string) []byte {
	b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(s, "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The tunables of the profiles that Ceph has names for.
var profiles = map[string]string{
	"argonaut": "2 5 19 0 0 0 0",
	"bobtail":  "0 0 50 1 0 0 0",
	"firefly":  "0 0 50 1 1 0 0",
	"hammer":   "0 0 50 1 1 1 0",
	"jewel":    "0 0 50 1 1 1 1",
	"local":    "3 0 20 0 0 1 0",
	"fallback": "0 2 10 1 4 1 0",
	"greedy":   "1 1 200 0 3 1 1",
	"poor":     "0 0 1 1 1 1 1",
}

func tunables(profile string) string {
	names := []string{
		"choose_local_tries", "choose_local_fallback_tries", "choose_total_tries", "chooseleaf_descend_once",
		"chooseleaf_vary_r", "straw_calc_version", "chooseleaf_stable",
	}
	var s strings.Builder
	for i, v := range strings.Fields(profiles[profile]) {
		fmt.Fprintf(&s, "tunable %s %s\n", names[i], v)
	}
	return s.String() + "tunable allowed_bucket_algs 62\n"
}

// shape describes a random tree: root, racks, hosts, devices.
type shape struct {
	seed                uint64
	profile             string
	algs                []string // to draw from
	racks, hosts, disks int      // at most, in each
	classes             bool
	weightSets          int // positions of choose_args; 0: none
	ids                 bool
	empty               bool // some hosts have no disk, some disks no weight
	gaps                bool // in the numbers of devices
	rules               string
}

type node struct {
	name, kind, alg string
	id              int
	items           []string
	weights         []float64
	children        []int // ids of items
}

func (n *node) sum() (w float64) {
	for _, v := range n.weights {
		w += v
	}
	return w
}

// randomMap writes a map in crushtool's language.
func randomMap(s shape) string {
	r := rand.New(rand.NewPCG(s.seed, 1))
	var devices, buckets strings.Builder
	var nodes []*node
	nextID := -1
	newNode := func(name, kind string) *node {
		n := &node{name: name, kind: kind, alg: s.algs[r.IntN(len(s.algs))], id: nextID}
		nextID--
		nodes = append(nodes, n)
		return n
	}
	dev := 0
	root := newNode("root", "root")
	for k := range 1 + r.IntN(s.racks) {
		rack := newNode(fmt.Sprintf("rack%d", k), "rack")
		for h := range 1 + r.IntN(s.hosts) {
			host := newNode(fmt.Sprintf("host%d-%d", k, h), "host")
			n := 1 + r.IntN(s.disks)
			if s.empty && r.IntN(5) == 0 {
				n = 0
			}
			even := float64(1+r.IntN(64)) / 16
			for range n {
				class := ""
				if s.classes {
					class = " class " + []string{"hdd", "ssd", "nvme"}[r.IntN(3)]
				}
				fmt.Fprintf(&devices, "device %d osd.%d%s\n", dev, dev, class)
				w := float64(1+r.IntN(256)) / 32
				if host.alg == "uniform" {
					w = even
				} else if s.empty && r.IntN(6) == 0 {
					w = 0
				}
				host.items = append(host.items, fmt.Sprintf("osd.%d", dev))
				host.weights = append(host.weights, w)
				host.children = append(host.children, dev)
				dev++
				if s.gaps {
					dev += r.IntN(3)
				}
			}
			rack.items, rack.weights, rack.children = append(rack.items, host.name), append(rack.weights, host.sum()), append(rack.children, host.id)
		}
		root.items, root.weights, root.children = append(root.items, rack.name), append(root.weights, rack.sum()), append(root.children, rack.id)
	}
	for i := len(nodes) - 1; i >= 0; i-- { // children first
		n := nodes[i]
		if n.alg == "uniform" && n.kind != "host" {
			for k := range n.weights {
				n.weights[k] = 4
			}
		}
	}
	for _, kind := range []string{"host", "rack", "root"} {
		for _, n := range nodes {
			if n.kind != kind {
				continue
			}
			fmt.Fprintf(&buckets, "%s %s {\n\tid %d\n\talg %s\n\thash 0\n", kind, n.name, n.id, n.alg)
			for k, item := range n.items {
				fmt.Fprintf(&buckets, "\titem %s weight %.5f\n", item, n.weights[k])
			}
			buckets.WriteString("}\n")
		}
	}
	text := tunables(s.profile) + devices.String() + "type 0 osd\ntype 1 host\ntype 2 rack\ntype 3 root\n" + buckets.String() + s.rules
	if s.weightSets == 0 && !s.ids {
		return text
	}
	var args strings.Builder
	args.WriteString("choose_args 0 {\n")
	for _, n := range nodes {
		if n.alg != "straw2" || len(n.items) == 0 || r.IntN(4) == 0 {
			continue
		}
		fmt.Fprintf(&args, "  {\n    bucket_id %d\n", n.id)
		if s.weightSets > 0 {
			args.WriteString("    weight_set [\n")
			for range s.weightSets {
				args.WriteString("      [")
				for range n.items {
					fmt.Fprintf(&args, " %.3f", float64(r.IntN(300))/50)
				}
				args.WriteString(" ]\n")
			}
			args.WriteString("    ]\n")
		}
		if s.ids {
			args.WriteString("    ids [")
			for range n.children {
				fmt.Fprintf(&args, " %d", -1000-r.IntN(1000))
			}
			args.WriteString(" ]\n")
		}
		args.WriteString("  }\n")
	}
	args.WriteString("}\n")
	return text + args.String()
}

// rule writes a rule of the given number.
func rule(id int, kind string, steps ...string) string {
	return fmt.Sprintf("rule rule%d {\n\tid %d\n\ttype %s\n\tmin_size 1\n\tmax_size 20\n\tstep %s\n\tstep emit\n}\n", id, id, kind, strings.Join(steps, "\n\tstep "))
}

// commonRules use every kind of choose step.
func commonRules(take string) string {
	return rule(0, "replicated", take, "chooseleaf firstn 0 type host") +
		rule(1, "replicated", take, "choose firstn 0 type osd") +
		rule(2, "erasure", "set_chooseleaf_tries 5", "set_choose_tries 100", take, "chooseleaf indep 0 type host") +
		rule(3, "erasure", take, "choose indep 0 type osd") +
		rule(4, "replicated", take, "choose firstn 2 type rack", "chooseleaf firstn 2 type host") +
		rule(5, "erasure", take, "choose indep 3 type rack", "choose indep 2 type osd")
}

// oddRules use what few do.
func oddRules() string {
	return rule(0, "replicated", "take rack0", "chooseleaf firstn 1 type host", "emit", "take root", "chooseleaf firstn -1 type host") +
		rule(1, "replicated", "set_choose_local_tries 4", "set_choose_local_fallback_tries 3", "set_chooseleaf_vary_r 2", "set_chooseleaf_stable 0", "take root", "chooseleaf firstn 0 type rack") +
		rule(2, "erasure", "set_choose_tries 3", "take root", "chooseleaf indep -1 type rack") +
		rule(3, "replicated", "take osd.0", "emit", "take root", "choose firstn 1 type rack", "choose firstn 1 type host", "choose firstn 2 type osd") +
		rule(4, "erasure", "take root", "choose indep 2 type rack", "chooseleaf indep 2 type host", "emit", "take root", "chooseleaf indep -2 type host") +
		rule(5, "replicated", "set_choose_tries 7", "set_chooseleaf_tries 2", "take root", "choose firstn 0 type rack", "chooseleaf firstn 2 type host")
}

func testsOf(rules int, sizes ...int) (tests []string) {
	for r := range rules {
		for _, n := range sizes {
			tests = append(tests, fmt.Sprintf("--rule %d --num-rep %d", r, n))
		}
	}
	return tests
}

// withWeights adds a set of device weights to tests.
func withWeights(tests []string, weights string) []string {
	out := make([]string, len(tests))
	for i, t := range tests {
		out[i] = t + weights
	}
	return out
}

func goldenCases() []goldenCase {
	var cases []goldenCase
	random := func(name string, s shape, tests []string) {
		if s.rules == "" {
			s.rules = commonRules("take root")
		}
		cases = append(cases, goldenCase{name, randomMap(s), compileText, tests, false})
	}
	straw2 := []string{"straw2"}
	all := []string{"straw2", "straw", "list", "tree", "uniform"}

	for i := range 6 {
		random(fmt.Sprintf("straw2-%d", i), shape{seed: uint64(i), profile: "jewel", algs: straw2, racks: 1 + 2*i, hosts: 2 + i, disks: 3 + 2*i}, testsOf(6, 3, 6))
	}
	for i, alg := range all[1:] {
		random(alg, shape{seed: uint64(20 + i), profile: "jewel", algs: []string{alg}, racks: 6, hosts: 5, disks: 7}, testsOf(6, 2, 5))
		random(alg+"-argonaut", shape{seed: uint64(30 + i), profile: "argonaut", algs: []string{alg}, racks: 4, hosts: 4, disks: 9}, testsOf(6, 3))
	}
	for i := range 4 {
		random(fmt.Sprintf("mixed-%d", i), shape{seed: uint64(40 + i), profile: "hammer", algs: all, racks: 5, hosts: 6, disks: 8, empty: i%2 == 1, gaps: i > 1}, testsOf(6, 4))
	}
	for i, profile := range []string{"argonaut", "bobtail", "firefly", "hammer", "local", "fallback", "greedy", "poor"} {
		random("tunables-"+profile, shape{seed: uint64(50 + i), profile: profile, algs: all, racks: 4, hosts: 3, disks: 4}, testsOf(6, 3, 5))
		random("odd-"+profile, shape{seed: uint64(60 + i), profile: profile, algs: all, racks: 4, hosts: 4, disks: 5, rules: oddRules()}, testsOf(6, 4))
	}
	out := " --weight 0 0 --weight 1 0.5 --weight 4 0.1 --weight 7 0 --weight 9 0.9 --weight 11 0"
	random("out", shape{seed: 70, profile: "jewel", algs: straw2, racks: 3, hosts: 4, disks: 5}, withWeights(testsOf(6, 3, 7), out))
	random("out-argonaut", shape{seed: 71, profile: "argonaut", algs: all, racks: 3, hosts: 4, disks: 5}, withWeights(testsOf(6, 3, 7), out))
	random("out-odd", shape{seed: 72, profile: "local", algs: all, racks: 3, hosts: 4, disks: 5, rules: oddRules()}, withWeights(testsOf(6, 5), out))
	for _, class := range []string{"hdd", "ssd"} {
		random("class-"+class, shape{seed: 80, profile: "jewel", algs: straw2, racks: 4, hosts: 4, disks: 6, classes: true, rules: commonRules("take root class " + class)}, testsOf(6, 3))
	}
	random("class-mixed", shape{seed: 81, profile: "jewel", algs: []string{"straw2", "straw", "list"}, racks: 4, hosts: 4, disks: 6, classes: true, rules: commonRules("take root class nvme")}, testsOf(6, 3))
	random("weight-set", shape{seed: 90, profile: "jewel", algs: straw2, racks: 4, hosts: 4, disks: 6, weightSets: 1}, testsOf(6, 3))
	random("weight-set-positions", shape{seed: 91, profile: "jewel", algs: straw2, racks: 4, hosts: 4, disks: 6, weightSets: 4}, testsOf(6, 5))
	random("weight-set-ids", shape{seed: 92, profile: "jewel", algs: straw2, racks: 4, hosts: 4, disks: 6, weightSets: 2, ids: true}, testsOf(6, 4))
	random("ids", shape{seed: 93, profile: "hammer", algs: all, racks: 4, hosts: 4, disks: 6, ids: true}, testsOf(6, 4))

	built := func(name, layers string, osds int, then string) {
		build := fmt.Sprintf("crushtool --build --num_osds %d -o map %s", osds, layers)
		if then != "" {
			build += "; crushtool -i map " + then + " -o map2; mv map2 map"
		}
		cases = append(cases, goldenCase{name, "", build, testsOf(1, 1, 3, 10), false})
	}
	built("build-flat", "root straw2 0", 40, "")
	built("build-legacy", "host straw 4 rack list 5 root uniform 0", 60, "--set-choose-local-tries 2 --set-choose-local-fallback-tries 5 --set-choose-total-tries 19 --set-chooseleaf-descend-once 0 --set-chooseleaf-vary-r 0 --set-chooseleaf-stable 0")
	built("build-tree", "host tree 8 root tree 0", 100, "")
	built("build-large", "host straw2 20 rack straw2 10 root straw2 0", 1000, "")
	built("build-reweight", "host straw2 5 root straw2 0", 50, "--reweight-item osd.3 7.5")
	return append(cases, msrCases()...)
}

// msrCases need a crushtool of release 19 or later.
func msrCases() []goldenCase {
	rules := ""
	for i, r := range []struct{ kind, steps string }{
		{"msr_indep", "set_msr_descents 20;set_msr_collision_tries 20;take root;choosemsr 4 type host;choosemsr 2 type osd"},
		{"msr_firstn", "take root;choosemsr 0 type host;choosemsr 1 type osd"},
		{"msr_indep", "set_msr_descents 3;set_msr_collision_tries 2;take root;choosemsr 2 type rack;choosemsr 2 type host;choosemsr 3 type osd"},
		{"msr_firstn", "set_msr_collision_tries 10;set_msr_descents 20;take root;choosemsr 3 type rack;choosemsr 2 type osd"},
		{"msr_indep", "take root;choosemsr 0 type osd"},
		{"msr_firstn", "set_msr_descents 30;take rack0;choosemsr 1 type host;choosemsr 2 type osd;emit;take root;choosemsr 4 type host;choosemsr 1 type osd"},
	} {
		rules += rule(i, r.kind, strings.Split(r.steps, ";")...)
	}
	out := " --weight 0 0 --weight 1 0.5 --weight 4 0.1 --weight 7 0 --weight 9 0.9 --weight 11 0"
	var cases []goldenCase
	for i, algs := range [][]string{{"straw2"}, {"straw2", "straw", "list", "tree", "uniform"}, {"straw2"}} {
		s := shape{seed: uint64(100 + i), profile: "jewel", algs: algs, racks: 8, hosts: 6, disks: 5, rules: rules}
		if i == 2 {
			s.weightSets = 3
		}
		tests := append(testsOf(6, 4, 8), withWeights(testsOf(6, 6), out)...)
		cases = append(cases, goldenCase{fmt.Sprintf("msr-%d", i), randomMap(s), compileText, tests, true})
	}
	return cases
}
