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
