package mon_test

import (
	"context"
	"fmt"
	"log"

	"capstan/cephfs/auth"
	"capstan/cephfs/mon"
	"capstan/cephfs/msgr"
)

// Connect to the cluster of /etc/ceph/ceph.conf as client.admin, or as the
// environment says (CEPH_CONF, CEPH_KEYRING, CEPH_ARGS), ask for the pools and
// follow the osdmap.
func Example() {
	ctx := context.Background()

	cfg, err := auth.Load(auth.LoadOptions{})
	if err != nil {
		log.Fatal(err)
	}
	identity, err := cfg.NewClient()
	if err != nil {
		log.Fatal(err)
	}
	monitors, err := cfg.Monitors(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}

	messenger := msgr.New(msgr.Options{Auth: identity})
	defer messenger.Close()
	c, err := mon.New(mon.Options{Messenger: messenger, Auth: identity, Monitors: monitors})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := c.Ready(ctx); err != nil {
		log.Fatal(err) // a wrong key, for one
	}

	var pools []string
	r, err := c.Command(ctx, mon.Command{Args: mon.Args{"prefix": "osd pool ls"}})
	if err != nil {
		log.Fatal(err)
	}
	if err := r.Decode(&pools); err != nil {
		log.Fatal(err)
	}
	fmt.Println(pools)

	s := c.Subscribe(mon.WhatOSDMap, 0, func(u *mon.Update) uint64 {
		fmt.Println("osdmap", u.Epoch)
		return u.Epoch
	})
	defer s.Close()
}

// Commands of the manager's modules and of single daemons.
func ExampleClient_MgrCommand() {
	var c *mon.Client // from New
	ctx := context.Background()

	r, err := c.MgrCommand(ctx, mon.Command{Args: mon.Args{
		"prefix": "fs subvolume getpath", "vol_name": "a", "sub_name": "home", "format": "",
	}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", r.Output)

	if r, err = c.Tell(ctx, "osd.0", mon.Command{Args: mon.Args{"prefix": "version"}}); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", r.Output)
}
