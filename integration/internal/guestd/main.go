// Command guestd is process 1 of a lab guest and the agent that runs the harness's commands in it.
//
// As process 1 it builds the guest's file tree: the host's root, read-only, under an overlay in memory, so that
// any program of the host runs and may write anywhere, but nothing it writes reaches the host. Only /lab, the guest's
// own scratch directory, is the host's. Then it starts itself a second time as the agent and reaps orphans.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "agent" {
		fmt.Fprintln(os.Stderr, "guestd:", serve())
		os.Exit(1)
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guestd: this is the first process of a lab guest; there is nothing to run by hand")
		os.Exit(2)
	}
	boot()
}
