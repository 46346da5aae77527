// Package osd does operations on the objects of a Ceph cluster: reads and
// writes with everything that file data need (truncation counters, snapshot
// contexts, many operations in one atomic list), attributes, and keys and
// values.
//
//	maps := osd.NewMonMaps(monitors, logger)
//	c := osd.New(osd.Options{Messenger: m, Maps: maps})
//	defer c.Close()
//
//	o := osd.Object{Pool: 3, Name: "greeting"}
//	err := c.WriteFull(ctx, o, []byte("hello"))
//
//	var op osd.Op
//	op.CompareExtent(0, []byte("hello"))
//	op.Write(0, []byte("HELLO"))
//	op.SetXattr("lang", []byte("en"))
//	reply, err := c.Do(ctx, o, &op) // all three, or none
//
// [Client.Submit] is the same without waiting: a completion is called. An
// operation is done once, whatever happens to connections, OSDs and placement
// groups on the way; operations on one object that follow each other are done
// in that order. Every wait ends with its context.
//
// There is one exception to the order, which is the OSDs': while a pool is full
// they drop what would grow it, and do the rest. A dropped write is sent again
// when there is room, behind later ones on its object that were done meanwhile.
// Who must not see that has no two writes to the same bytes under way at once.
//
// # How the order is kept
//
// The requests on one object are a [chain], in the order of their submission. A
// request is sent only behind all before it. Whether one counts as sent is not
// noted anywhere when a connection breaks or a map comes: it is decided anew
// whenever the chain is looked at, by comparing what it was sent under (the
// connection, the placement group, epochs that ask for everything again) with
// what it would be sent under now. Whatever changes something walks the
// requests in the order of their tids afterwards; a new request that comes to
// its chain before the walk does puts the chain right itself, unless it is behind
// one that is held: whatever lets that one go takes along what is behind it.
//
// A request keeps its tid for life, so that the OSDs know it when it comes
// again, and numbers its tries, so that the answer to an earlier one is known
// too and dropped (Objecter::handle_osd_op_reply).
//
// # What ends an operation without an answer
//
// The end of its context; the end of the client; a blocklist entry for this
// instance, which ends all others too, for good ([ErrBlocklisted]); a pool that
// is gone ([ErrNoPool]); and, if it asked for that, a full cluster or pool
// ([ErrFull], [ErrQuota]). Everything else is waited out: OSDs that are down,
// paused or full clusters, back-offs, the barrier, primaries that refuse for now.
// An answer larger than the messenger takes breaks the connection; it ends its
// operation with [ErrReply] after a few.
//
// # Buffers
//
// Nothing that is written is copied: the data of an operation belong to the
// client from its submission until its completion, that is until Do returns or
// Submit's function is called, and not longer, however it ended. A context that
// ends ends the operation for good: its message is taken back from the
// connection's queue, and if it is being written the connection is broken off,
// for OSDs that do not read would hold the buffers for long. The other
// operations on that connection are sent again.
//
// What is read lies in the storage of the message that brought it, until
// [Reply.Release]; but that of [Op.ReadInto] comes to a buffer of the caller, who
// has that back at the completion too. In crc mode large answers are received
// there, without a copy (place.go has the rules); small ones, and all in secure
// mode, are copied once. If the context ends while an answer is being received
// its connection is broken off, as above.
//
// # Goroutines
//
// Replies and back-offs are taken on the messenger's dispatch goroutine of
// their connection, maps on that of the [MapSource]; both walk there.
// Completions run where the operation ended: on one of these, on that which
// cancels, in Submit, or on a connection's writer or reader when it lets the
// buffers go. The reader also asks where the data of an answer go. The
// client starts goroutines only for the timers after which an OSD that could not
// be reached, or that refused for now, is tried again, and to ask whether a pool
// exists. Close waits for all of them, and for all completions.
//
// # Lock order
//
//	mapMu > sessionsMu, shard.mu > sessionsMu > session.mu > (messenger)
//	shard.mu > link.mu, poolChecks.mu, mapState.mu, throttle.mu, waitMu, the table's
//
// There are [nShards] shards, and nobody holds two. No lock is common to all
// requests: the table's and the throttles' paths are atomics, a shard's lock is
// held while one request of a part of the objects is placed and put in the
// queue of a connection, a session's while a connection is made. Completions
// are called with none of these held but mapMu, for what a map ends.
//
// Sources: ceph/ceph src/osdc/Objecter.cc, src/osd/PrimaryLogPG.cc,
// src/messages/MOSDOp.h, MOSDOpReply.h, MOSDBackoff.h, src/include/rados.h.
package osd
