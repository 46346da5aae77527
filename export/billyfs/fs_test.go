package billyfs_test

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/go-git/go-billy/v5/util"

	"capstan/export"
	"capstan/export/billyfs"
	"capstan/export/memory"
)

func newFilesystem(t *testing.T, c *export.Cred) (*billyfs.Filesystem, export.Volume) {
	t.Helper()
	v, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close(context.Background()) })
	return billyfs.NewFilesystem(t.Context(), v, c), v
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesystemWalksLinksInsideTheRoot(t *testing.T) {
	fs, _ := newFilesystem(t, export.System())
	ok(t, util.WriteFile(fs, "a/b/file", []byte("x"), 0o644))
	ok(t, fs.Symlink("../../../../a/b", "a/up"))
	ok(t, fs.Symlink("/a/b/file", "abs"))
	ok(t, fs.Symlink("loop", "loop"))
	for _, p := range []string{"a/up/file", "abs", "/a/./b/../b/file", "../../a/b/file"} {
		b, err := util.ReadFile(fs, p)
		if err != nil || string(b) != "x" {
			t.Errorf("%s: %q, %v", p, b, err)
		}
	}
	if _, err := fs.Stat("loop"); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("loop: %v", err)
	}
	if fi, err := fs.Lstat("loop"); err != nil || fi.Mode()&os.ModeSymlink == 0 {
		t.Errorf("lstat of a link: %v, %v", fi, err)
	}
	sub, err := fs.Chroot("a")
	ok(t, err)
	// In the chroot the same links mean other things, and still lead nowhere out.
	if _, err := sub.Stat("up"); !os.IsNotExist(err) {
		t.Errorf("up in the chroot: %v", err)
	}
	if _, err := sub.Stat("../abs"); !os.IsNotExist(err) {
		t.Errorf("out of the chroot: %v", err)
	}
	fresh, err := fs.Chroot("not/yet/there")
	ok(t, err)
	ok(t, util.WriteFile(fresh, "f", []byte("y"), 0o600))
	if _, err := fs.Stat("not/yet/there/f"); err != nil {
		t.Error(err)
	}
}

func TestFilesystemActsWithItsCredential(t *testing.T) {
	root, v := newFilesystem(t, export.System())
	ok(t, util.WriteFile(root, "d/secret", []byte("x"), 0o600))
	user := billyfs.NewFilesystem(t.Context(), v, &export.Cred{UID: 1000, GID: 1000})
	if _, err := user.Open("d/secret"); !os.IsPermission(err) {
		t.Errorf("open: %v", err)
	}
	if err := user.Chmod("d/secret", 0o777); !os.IsPermission(err) {
		t.Errorf("chmod: %v", err)
	}
	if err := user.Remove("d/secret"); !os.IsPermission(err) {
		t.Errorf("remove: %v", err)
	}
	ok(t, root.Lchown("d", 1000, -1))
	ok(t, user.Rename("d/secret", "d/moved"))
	fi, err := user.Stat("d/moved")
	ok(t, err)
	if st, okay := fi.Sys().(*syscall.Stat_t); !okay || st.Ino == 0 || st.Nlink != 1 {
		t.Errorf("Sys is %#v", fi.Sys())
	}
}

func TestFilesystemFiles(t *testing.T) {
	fs, _ := newFilesystem(t, export.System())
	f, err := fs.OpenFile("log", os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o640)
	ok(t, err)
	for _, s := range []string{"one ", "two "} {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, s); err != nil {
			t.Fatal(err)
		}
	}
	b := make([]byte, 16)
	if n, err := f.ReadAt(b, 0); string(b[:n]) != "one two " || err != io.EOF {
		t.Errorf("read %q, %v", b[:n], err)
	}
	ok(t, f.Truncate(3))
	if off, err := f.Seek(0, io.SeekEnd); off != 3 || err != nil {
		t.Errorf("end at %d, %v", off, err)
	}
	if _, err := fs.OpenFile("log", os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); !os.IsExist(err) {
		t.Errorf("exclusive: %v", err)
	}
	at := time.Unix(1e9, 5).UTC()
	ok(t, fs.Chtimes("log", at, at))
	ok(t, fs.Chmod("log", 0o755|os.ModeSetuid))
	fi, err := fs.Stat("log")
	ok(t, err)
	if fi.Mode() != 0o755|os.ModeSetuid || !fi.ModTime().Equal(at) || fi.Size() != 3 {
		t.Errorf("%v %v %d", fi.Mode(), fi.ModTime(), fi.Size())
	}
	ok(t, f.Lock())
	g, err := fs.OpenFile("log", os.O_RDWR, 0)
	ok(t, err)
	locked := make(chan error)
	go func() { locked <- g.Lock() }()
	select {
	case err := <-locked:
		t.Fatalf("two locks at once: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	ok(t, f.Close()) // drops the lock
	ok(t, <-locked)
	ok(t, g.Close())
	tmp, err := fs.TempFile("tmp", "x")
	ok(t, err)
	ok(t, tmp.Close())
	fis, err := fs.ReadDir("/")
	ok(t, err)
	if len(fis) != 2 || fis[0].Name() != "log" || fis[1].Name() != "tmp" {
		t.Errorf("listing %v", fis)
	}
}
