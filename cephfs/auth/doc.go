// Package auth proves to Ceph's daemons who a client is, and reads the files
// in which administrators say so.
//
// [Client] holds one entity's key and its tickets and implements
// [capstan/cephfs/msgr.Authenticator]: with monitors it goes through cephx'
// challenge and response and comes out with tickets for each kind of daemon;
// to OSDs, MDSs and managers it shows a ticket with an authorizer. Tickets are
// timed from their arrival on the monotonic clock, so that the wall clock of
// the client does not matter. [Client.Renewal] and [Client.Renewed] exchange
// old tickets for new ones over a monitor's connection; package mon calls
// them. Both ciphers are known, AES-128 and that of release 20, and entities
// without authentication (auth none).
//
// [Load] reads ceph.conf, the environment (CEPH_CONF, CEPH_KEYRING,
// CEPH_ARGS) and keyrings in the manner of Ceph's own tools:
//
//	cfg, err := auth.Load(auth.LoadOptions{})
//	client, err := cfg.NewClient()
//	monitors, err := cfg.Monitors(ctx, nil)
//
// Sources: ceph/ceph doc/dev/cephx_protocol.rst, src/auth/Crypto.cc,
// src/auth/cephx/CephxProtocol.h, CephxClientHandler.cc,
// src/common/ConfUtils.cc, src/mon/MonMap.cc.
//
// # Goroutines
//
// None are started. A Client may be used from any goroutine; a session belongs
// to the goroutine of its connection attempt.
//
// # Lock order
//
// Client.mu is a leaf: nothing is called with it held but the clock.
package auth
