// Package cephtest plays the daemons of a Ceph cluster, so that order, delay
// and loss in tests are exact. Its peers speak real frames over connections in
// memory, which work under testing/synctest.
//
// A [Network] stands in for TCP: give [Network.Dial] to msgr.Options. A [Peer]
// listens at an address of it and does the whole server side by itself:
// banner, hello, authentication, sessions with replay, acknowledgements,
// keepalives. A script takes over where it wants to:
//
//   - [Config.OnMessage] sees each message, and answers with [Stream.Send] at
//     once, later, out of order or never.
//   - [Config.Outgoing] sees each control frame before it is sent, and may
//     change, add to or drop it; [Config.Incoming] may swallow one received.
//   - [Config.OnStream] sees each connection before its first byte, and may
//     cut either direction at a byte: [Stream.CutRead], [Stream.CutWrite].
//   - [Stream.SendFrame] and [Stream.SendRaw] send anything at all,
//     [Stream.Reset] breaks the connection, [Peer.Forget] loses the sessions.
//
// [Monitors] are the monitors of a cluster, with authentication ([Cephx]),
// maps, subscriptions and commands. An [OSD] carries out operations on
// [Objects] and can block, refuse, delay and repeat them: [OSD.Script].
//
// Each stream has two goroutines: one reads and calls the hooks, one writes
// what was sent, so that sending never waits. A peer's mutex guards its
// sessions, a stream's mutex what it has to write; the first may be held while
// the second is taken. Hooks are called without either.
//
// The package is for tests: it panics where a script is impossible.
package cephtest
