package mon_test

import (
	"flag"
	"os"
	"testing"

	"capstan/cephfs/mon"
)

var update = flag.Bool("update", false, "record testdata from the live cluster")

// The active manager's map, as a real monitor sends it, is recorded by
// -run LiveRecord -update, with the release in CAPSTAN_TEST_RELEASE.
func TestLiveRecord(t *testing.T) {
	if !*update {
		t.Skip("records only with -update")
	}
	c := open(t, live(t, "client.admin"), nil)
	for _, r := range []struct {
		what mon.What
		file string
	}{{mon.WhatMonMap, "monmap-message"}, {mon.WhatMgrMap, "mgrmap"}, {mon.WhatFSMap, "fsmap"}, {mon.WhatMDSMap, "mdsmap"}, {mon.WhatOSDMap, "osdmap"}} {
		got := make(chan []byte, 1)
		s := c.Subscribe(r.what, 0, func(u *mon.Update) uint64 {
			select {
			case got <- u.Front:
			default:
			}
			return u.Epoch
		})
		select {
		case b := <-got:
			if err := os.WriteFile("testdata/"+r.file+"-"+os.Getenv("CAPSTAN_TEST_RELEASE"), b, 0o644); err != nil {
				t.Fatal(err)
			}
		case <-within(t).Done():
			t.Fatal(r.what)
		}
		s.Close()
	}
}
