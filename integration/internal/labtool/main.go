// Command labtool is the part of the lab's workloads that a shell cannot do: it generates inputs that are the same
// everywhere, describes file trees so that two of them can be compared byte for byte, and exercises system calls.
//
//	labtool tree [-mtime] [-skip NAME] DIR    describe every entry below DIR
//	labtool sum FILE...                       size and checksum of files by their blocks that are not zero
//	labtool gen-tree DIR                      a tree with links, special files, odd names, modes and times
//	labtool gen-git COMMITS                   a stream for git fast-import
//	labtool gen-c DIR FILES                   a C project with a Makefile
//	labtool gen-sparse FILE MIB               a sparse file with data at a few places
//	labtool many DIR COUNT                    COUNT entries in directories of different sizes
//	labtool posix CASE DIR                    one of the cases listed by "labtool posix"
package main

import (
	"fmt"
	"os"
	"strconv"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "labtool:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("no command")
	}
	cmd, args := args[0], args[1:]
	number := func(i int) (int, error) {
		if len(args) <= i {
			return 0, fmt.Errorf("%s: too few arguments", cmd)
		}
		return strconv.Atoi(args[i])
	}
	switch cmd {
	case "tree":
		return treeCommand(args)
	case "sum":
		return sumCommand(args)
	case "gen-git":
		n, err := number(0)
		if err != nil {
			return err
		}
		return genGit(os.Stdout, n)
	case "posix":
		return posixCommand(args)
	case "gen-tree":
		if len(args) == 1 {
			return genTree(args[0])
		}
	case "gen-c", "gen-sparse", "many":
		n, err := number(1)
		if err != nil {
			return err
		}
		switch cmd {
		case "gen-c":
			return genC(args[0], n)
		case "many":
			return many(args[0], n)
		default:
			return genSparse(args[0], n)
		}
	}
	return fmt.Errorf("%s: unknown command or wrong arguments", cmd)
}
