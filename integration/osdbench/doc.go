// Command osdbench compares object reads and writes of package cephfs/osd with
// those of librados, on one cluster in one run.
//
//	osdbench -conf ceph.conf -pool POOL [-rounds 5] [-window 2s] [-into docs/performance.md]
//
// Each side runs in a process of its own, so that its CPU time is known, and
// keeps a number of operations under way, librados by its asynchronous calls
// from C. The two take turns, in opposite order every other round; the tables
// show medians, and ratios of neighbouring windows. Without the build tag
// librados there is nothing to compare with, and it says so.
package main
