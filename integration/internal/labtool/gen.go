package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// source is the randomness of all generators: the same in every run.
func source() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// text makes n bytes of words.
func text(r *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+16)
	for len(b) < n {
		b = fmt.Appendf(b, "%x", r.Uint32()>>r.IntN(24))
		if r.IntN(8) == 0 {
			b = append(b, '\n')
		} else {
			b = append(b, ' ')
		}
	}
	return b[:n]
}

// epoch is the time of everything generated: 2024-01-01 00:00:00 UTC, with a fraction that tells nanoseconds from
// coarser clocks.
var epoch = time.Unix(1704067200, 123456789)

// genTree makes a tree of a few hundred entries with everything that an archive must carry.
func genTree(dir string) error {
	r := source()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var files []string
	for d := range 12 {
		sub := filepath.Join(dir, fmt.Sprintf("dir%02d", d), strings.Repeat("deep/", d%4))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return err
		}
		for f := range 15 {
			p := filepath.Join(sub, fmt.Sprintf("file%02d", f))
			if err := os.WriteFile(p, text(r, r.IntN(1<<(f+2))), 0o644); err != nil {
				return err
			}
			files = append(files, p)
		}
	}
	for i, mode := range []os.FileMode{0, 0o400, 0o444, 0o640, 0o755, 0o777, 0o755 | os.ModeSetuid, 0o755 | os.ModeSetgid, 0o777 | os.ModeSticky} {
		p := filepath.Join(dir, fmt.Sprintf("mode%d", i))
		if err := os.WriteFile(p, text(r, 100), 0o644); err != nil {
			return err
		}
		if err := os.Chown(p, 1000+i, 2000+i); err != nil {
			return err
		}
		if err := os.Chmod(p, mode); err != nil {
			return err
		}
		files = append(files, p)
	}
	for i := range 10 {
		if err := os.Link(files[i*7], filepath.Join(dir, fmt.Sprintf("hard%d", i))); err != nil {
			return err
		}
	}
	for i, to := range []string{"file", "dir01/deep/file03", "../nowhere", "/", strings.Repeat("x/", 500)} {
		if err := os.Symlink(to, filepath.Join(dir, fmt.Sprintf("soft%d", i))); err != nil {
			return err
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o640); err != nil {
		return err
	}
	for _, d := range []struct {
		name string
		mode uint32
		dev  uint64
	}{{"char", unix.S_IFCHR | 0o660, unix.Mkdev(1, 3)}, {"block", unix.S_IFBLK | 0o600, unix.Mkdev(250, 70000)}, {"socket", unix.S_IFSOCK | 0o755, 0}} {
		if err := unix.Mknod(filepath.Join(dir, d.name), d.mode, int(d.dev)); err != nil {
			return fmt.Errorf("mknod %s: %w", d.name, err)
		}
	}
	for _, name := range oddNames() {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	if err := genSparse(filepath.Join(dir, "sparse"), 4); err != nil {
		return err
	}
	// Times last, children before their directories.
	var paths []string
	err := filepath.Walk(dir, func(p string, _ os.FileInfo, err error) error {
		paths = append(paths, p)
		return err
	})
	if err != nil {
		return err
	}
	for i := len(paths) - 1; i >= 0; i-- {
		t := unix.NsecToTimespec(epoch.Add(-time.Duration(i) * time.Hour).UnixNano())
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, paths[i], []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("times of %s: %w", paths[i], err)
		}
	}
	return nil
}

// oddNames are file names at the edges of what POSIX allows, all valid UTF-8.
func oddNames() []string {
	return []string{
		strings.Repeat("n", 255), strings.Repeat("ü", 127), "ünïcödé", "日本語", "\U0001f600",
		"e\u0301", "\u00e9", // the same letter, composed and not: two names
		" leading", "trailing ", "new\nline", "tab\t", "quote\"'`", "back\\slash", "*?[", "-rf", "...", ".hidden", "~", "colon:", "CON", "Case", "case",
	}
}

// genSparse makes a file of mib MiB with data at its start, in its middle, around 4 GiB and at its end.
func genSparse(path string, mib int) error {
	r := source()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	size := int64(mib) << 20
	if err := f.Truncate(size); err != nil {
		return err
	}
	for _, at := range []int64{0, size / 3, size/2 + 12345, 1<<32 - 5000, size - 10000} {
		if at < 0 || at+10000 > size {
			continue
		}
		if _, err := f.WriteAt(text(r, 10000), at); err != nil {
			return err
		}
	}
	return f.Close()
}

// genGit writes a history for git fast-import: branches, merges, renames, deletions, modes, tags.
func genGit(w io.Writer, commits int) error {
	r := source()
	b := bufio.NewWriter(w)
	at := epoch.Unix()
	blob := func(path, mode string, n int) {
		t := text(r, n)
		fmt.Fprintf(b, "M %s inline %s\ndata %d\n%s\n", mode, path, len(t), t)
	}
	for i := 1; i <= commits; i++ {
		msg := fmt.Sprintf("commit %d\n\n%s\n", i, text(r, 60))
		fmt.Fprintf(b, "commit refs/heads/main\nmark :%d\ncommitter Lab <lab@example.net> %d +0000\ndata %d\n%s", i, at+int64(i)*60, len(msg), msg)
		if i > 1 {
			fmt.Fprintf(b, "from :%d\n", i-1)
		}
		if i > 20 && i%10 == 0 {
			fmt.Fprintf(b, "merge :%d\n", i-7)
		}
		for range 1 + r.IntN(3) {
			blob(fmt.Sprintf("d%d/e%d/f%d.txt", r.IntN(12), r.IntN(6), r.IntN(10)), "100644", 200+r.IntN(3000))
		}
		if i%50 == 0 {
			blob(fmt.Sprintf("bin/tool%d", i), "100755", 500)
			fmt.Fprintf(b, "M 120000 inline link%d\ndata 9\nbin/tool%d\n", i%7, i%10)
		}
		if i%97 == 0 {
			fmt.Fprintf(b, "D d%d\n", r.IntN(12))
		}
		b.WriteString("\n")
		if i%100 == 0 {
			fmt.Fprintf(b, "tag v%d\nfrom :%d\ntagger Lab <lab@example.net> %d +0000\ndata 4\ntag\n\n", i/100, i, at+int64(i)*60)
		}
	}
	return b.Flush()
}

// genC makes a C project: a program of n files with shared headers, a library, and a Makefile with dependencies.
func genC(dir string, n int) error {
	write := func(name, content string) error {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		return os.WriteFile(p, []byte(content), 0o644)
	}
	var head, body strings.Builder
	for i := range n {
		fmt.Fprintf(&head, "unsigned f%d(unsigned x);\n", i)
		fmt.Fprintf(&body, "\tx = f%d(x);\n", i)
		if err := write(fmt.Sprintf("src/f%d.c", i), fmt.Sprintf("#include \"all.h\"\nunsigned f%d(unsigned x)\n{\n\tfor (unsigned i = 0; i < %d; i++)\n\t\tx = STEP(x, %du);\n\treturn x;\n}\n", i, i+3, i*2654435761%1000003)); err != nil {
			return err
		}
	}
	for name, content := range map[string]string{
		"include/all.h":  "#include \"step.h\"\n" + head.String(),
		"include/step.h": "#define STEP(x, k) (((x) ^ (k)) * 16777619u)\n",
		"src/main.c":     "#include <stdio.h>\n#include \"all.h\"\nint main(void)\n{\n\tunsigned x = 2166136261u;\n" + body.String() + "\tprintf(\"%08x\\n\", x);\n\treturn 0;\n}\n",
		"Makefile": `CFLAGS = -O1 -Iinclude -MMD
OBJS = $(patsubst src/%.c,obj/%.o,$(wildcard src/f*.c))
prog: obj/main.o lib/libf.a
	$(CC) -o $@ obj/main.o -Llib -lf
lib/libf.a: $(OBJS)
	@mkdir -p lib
	rm -f $@
	$(AR) rcsD $@ $(sort $(OBJS))
obj/%.o: src/%.c | obj
	$(CC) $(CFLAGS) -c -o $@ $<
obj:
	mkdir -p obj
clean:
	rm -rf obj lib prog
-include $(wildcard obj/*.d)
.PHONY: clean
`,
	} {
		if err := write(name, content); err != nil {
			return err
		}
	}
	return nil
}

// many makes count entries: half of them in one directory, the others in a tree.
func many(dir string, count int) error {
	if err := os.MkdirAll(filepath.Join(dir, "flat"), 0o755); err != nil {
		return err
	}
	touch := func(p string) error {
		fd, err := unix.Open(p, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		return unix.Close(fd)
	}
	for i := range count / 2 {
		if err := touch(filepath.Join(dir, "flat", fmt.Sprintf("entry-%06d", i))); err != nil {
			return err
		}
	}
	made := 0
	for d := 0; made < count-count/2; d++ {
		sub := filepath.Join(dir, fmt.Sprintf("tree/%d/%d", d%10, d))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return err
		}
		for f := 0; f < 50 && made < count-count/2; f++ {
			if err := touch(filepath.Join(sub, fmt.Sprintf("f%d", f))); err != nil {
				return err
			}
			made++
		}
	}
	return nil
}
