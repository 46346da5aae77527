package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// treeCommand prints one line for each entry below a directory, in the order of the names' bytes: what POSIX
// promises to be equal on every file system, so neither inode numbers nor the sizes and link counts of directories.
func treeCommand(args []string) error {
	f := flag.NewFlagSet("tree", flag.ContinueOnError)
	mtime := f.Bool("mtime", false, "with modification times of everything but directories")
	dirTimes := f.Bool("dirtimes", false, "with those of directories too")
	xattrs := f.Bool("xattr", false, "with user.* attributes")
	skip := f.String("skip", "", "leave out entries of this name")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 {
		return errors.New("tree: one directory, please")
	}
	root := f.Arg(0)
	links := make(map[uint64]string) // inode -> its first path, for files with several
	var lines []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == root {
			return nil
		}
		if *skip != "" && d.Name() == *skip {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return fmt.Errorf("lstat %q: %w", rel, err)
		}
		line, err := describe(path, rel, &st, links)
		if err != nil {
			return err
		}
		isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
		if *mtime && !isDir || *dirTimes && isDir {
			line += fmt.Sprintf(" mtime=%d.%09d", st.Mtim.Sec, st.Mtim.Nsec)
		}
		if *xattrs {
			x, err := userXattrs(path)
			if err != nil {
				return fmt.Errorf("xattrs of %q: %w", rel, err)
			}
			line += x
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, l := range lines {
		out.WriteString(l + "\n")
	}
	_, err = os.Stdout.Write(out.Bytes())
	return err
}

func describe(path, rel string, st *unix.Stat_t, links map[uint64]string) (string, error) {
	line := fmt.Sprintf("%q mode=%06o uid=%d gid=%d", rel, st.Mode, st.Uid, st.Gid)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return line, nil
	case unix.S_IFLNK:
		to, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		line += fmt.Sprintf(" size=%d to=%q", st.Size, to)
	case unix.S_IFREG:
		sum, err := sumFile(path)
		if err != nil {
			return "", fmt.Errorf("%q: %w", rel, err)
		}
		line += " " + sum
	case unix.S_IFCHR, unix.S_IFBLK:
		line += fmt.Sprintf(" dev=%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	}
	line += fmt.Sprintf(" nlink=%d", st.Nlink)
	if st.Nlink > 1 {
		if first, ok := links[st.Ino]; ok {
			line += fmt.Sprintf(" same=%q", first)
		} else {
			links[st.Ino] = rel
		}
	}
	return line, nil
}

func sumCommand(args []string) error {
	for _, a := range args {
		s, err := sumFile(a)
		if err != nil {
			return err
		}
		fmt.Printf("%s %s\n", filepath.Base(a), s)
	}
	return nil
}

// sumFile gives the size of a file and a checksum over its blocks of 4 KiB that are not zero, with their places: the
// same for a hole and for zeros.
func sumFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	const block = 4096
	var zero [block]byte
	h := sha256.New()
	buf := make([]byte, 256*block)
	var size int64
	for {
		n, err := io.ReadFull(f, buf)
		for at := 0; at < n; at += block {
			b := buf[at:min(at+block, n)]
			if !bytes.Equal(b, zero[:len(b)]) {
				fmt.Fprintf(h, "%d\n", size+int64(at))
				h.Write(b)
			}
		}
		size += int64(n)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return fmt.Sprintf("size=%d sum=%.16x", size, h.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// userXattrs lists the user.* attributes of a file or directory.
func userXattrs(path string) (string, error) {
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, buf)
	if err == unix.ENOTSUP {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	names := strings.Split(strings.TrimRight(string(buf[:n]), "\x00"), "\x00")
	sort.Strings(names)
	var out strings.Builder
	for _, name := range names {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		n, err := unix.Lgetxattr(path, name, buf)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(&out, " %s=%q", name, buf[:n])
	}
	return out.String(), nil
}
