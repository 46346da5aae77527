// Package integration is the lab: real Ceph clusters, real Linux NFS and CephFS clients, a reference server, and
// means to break each of them, for tests of every package and for the demo.
//
// # What there is
//
//   - Net: a network namespace with a bridge. It has no name, so nothing of it outlives the process.
//   - Cluster: monitors, a manager, OSDs in memory or on BlueStore, MDS daemons with ranks and standbys, several file
//     systems, limited keys. Ready in about five seconds. Runs in a Net, or on the host's loopback with free ports.
//   - Guest: a Linux kernel as a process (user-mode Linux) in a Net, booted in about two seconds. It runs the host's
//     programs on a copy-on-write root: nothing that a guest writes reaches the host but in /lab, its Share. Commands
//     reach it on a link of their own, which Cut does not touch.
//   - Ganesha: NFS-Ganesha over libcephfs, the server to compare with.
//   - Capstan: our own server, built once per process, started, killed and restarted.
//   - Proxy: a TCP proxy that cuts (also at an exact byte), delays, holds back and counts.
//   - LibNFS: the libnfs tools, a client that needs no root.
//   - Workload: what people do to a file system (git, make, rsync, sqlite, ...), as deterministic scripts whose reports
//     are compared with that of a local file system.
//   - Lab: all of these started when first asked for and shared by the tests of a package.
//
// # A test
//
//	var lab = integration.NewLab(integration.LabOptions{})
//
//	func TestMain(m *testing.M) { os.Exit(integration.Main(m, lab)) }
//
//	func TestRename(t *testing.T) {
//		c, g := lab.Cluster(t), lab.Guest(t, 0)
//		at := integration.MountCeph(t, g, integration.CephMount{Cluster: c})
//		if _, err := g.Run(integration.Context(t), "mv", at+"/a", at+"/b"); err != nil {
//			t.Fatal(err)
//		}
//	}
//
// A test that a machine cannot run (not root, packages missing) is skipped with the reason; CAPSTAN_REQUIRE_PEERS=1
// makes it fail instead. Each test that had a real peer is listed in the file named by CAPSTAN_PEER_LOG. The Debian
// packages that the lab needs are listed in packages.txt. CAPSTAN_LAB_KEEP=1 keeps the scratch directory with all
// logs; CAPSTAN_LAB_DIR says where it is made. CAPSTAN_WORKLOADS chooses the workloads that this package's own tests
// try on CephFS: "all", "full" (all in full size) or a name.
//
// # What is left behind
//
// Nothing. Daemons run in the foreground as children with a parent-death signal, so they die with the test binary
// even when it is killed; namespaces and taps go with their last process; no mount is made in the host's mount
// namespace; the scratch directory is removed by Main, or by the next process if this one was killed.
//
// # Goroutines and locks
//
// Each child process has one goroutine, which owns the thread that started it and waits for it. A Proxy has one
// goroutine that accepts and three for each connection; Close waits for all. A running guest command has one that
// feeds its input and one that watches for its end; both end with the call. Locks: Lab.mu before Guest.mu before
// Net.mu; Cluster.mu before Daemon.mu; none is held while waiting for a test's command.
package integration
