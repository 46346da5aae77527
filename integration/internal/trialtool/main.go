// Command trialtool does in a guest what the trials of capstan need and no
// shell can do: it writes records and says which of them were acknowledged,
// holds files open and locked as it is told, and repeats what programs do that
// found faults in other servers. Whatever goes wrong is an exit code of 1 and
// a line on standard error.
//
//	trialtool records FILE SEED COUNT       write records, fsync each, print "ack N" after each
//	trialtool check-records FILE SEED COUNT check that the first COUNT records are there
//	trialtool stream FILE SEED MIB          write without sync, fsync at the end, print the checksum
//	trialtool held FILE SEED MIB            write, have it sent unstable, print "written", wait for a line, fsync
//	trialtool metadata DIR SEED COUNT       make, link, rename and remove entries, and check what is left
//	trialtool append FILE WRITER COUNT      append records of 47 bytes under a lock of the whole file
//	trialtool control                       open, lock, read and write as lines on standard input say
//	trialtool busy DIR FILES SECONDS        read and write under locks; print what failed
//	trialtool save DIR COUNT                save a document as office programs on macOS do
//	trialtool readonly DIR                  write through descriptors of files that nobody may write
//	trialtool strided FILE SEED MIB         read backwards and with strides, print the times
//	trialtool scattered FILE SEED MIB       write blocks of odd sizes in parallel and out of order
//	trialtool seekdir DIR                   list, then return to every position, backwards
//	trialtool prune DIR BATCH               read BATCH entries, remove them, read on
package main

import (
	"fmt"
	"os"
	"strconv"
)

var commands = map[string]struct {
	args int
	run  func(args []string) error
}{
	"records":       {3, records},
	"check-records": {3, checkRecords},
	"stream":        {3, stream},
	"held":          {3, held},
	"metadata":      {3, metadata},
	"append":        {3, appendLocked},
	"control":       {0, control},
	"busy":          {3, busy},
	"save":          {2, save},
	"readonly":      {1, readonly},
	"strided":       {3, strided},
	"scattered":     {3, scattered},
	"seekdir":       {1, seekdir},
	"prune":         {2, prune},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "trialtool:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("no command")
	}
	c, ok := commands[args[0]]
	if !ok || len(args)-1 != c.args {
		return fmt.Errorf("%s: unknown command or wrong arguments", args[0])
	}
	return c.run(args[1:])
}

// number is an argument that the tests wrote.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "trialtool:", err)
		os.Exit(2)
	}
	return n
}
