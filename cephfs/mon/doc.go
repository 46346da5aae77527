// Package mon is a client of Ceph's monitors: it stays in touch with one of
// them, follows the cluster's maps and gives commands, to monitors and, with
// the addresses it learns from them, to the manager and to single daemons.
//
//	c, err := mon.New(mon.Options{Messenger: m, Auth: a, Monitors: addrs})
//	defer c.Close()
//	err = c.Ready(ctx)
//	r, err := c.Command(ctx, mon.Command{Args: mon.Args{"prefix": "status"}})
//	s := c.Subscribe(mon.WhatOSDMap, 0, func(u *mon.Update) uint64 { ... })
//
// One monitor is used at a time. When it is lost another is looked for; then
// subscriptions go on from the epochs reached, questions and commands that
// only read are put again, and other commands that were under way end with
// [ErrOutcomeUnknown]. Users of maps notice nothing. Every wait ends with its
// context.
//
// Sources: ceph/ceph src/mon/MonClient.cc, MonMap.cc, MonSub.h, MgrMap.h,
// src/mgr/MgrClient.cc and src/messages/.
//
// # Goroutines
//
// A Client runs two: run, which looks for monitors and renews tickets, and
// deliver, which calls the subscribers' handlers one after the other, from a
// queue bounded in bytes: slow ones stop what is received from the monitor. The
// methods of monSession and tell run on the messenger's dispatch goroutines.
// Close waits for all of them.
//
// # Lock order
//
// Client.mu comes before the locks of the messenger, its connections and
// package auth; the queue's lock is a leaf. No handler is called with either held.
package mon
