package billyfs_test

import (
	"os"
	"sync"

	"github.com/go-git/go-billy/v5"
)

// locked makes memfs safe for several goroutines.
type locked struct {
	mu sync.Mutex
	fs billy.Filesystem
}

func (l *locked) Create(p string) (billy.File, error) {
	return l.OpenFile(p, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}
func (l *locked) Open(p string) (billy.File, error) { return l.OpenFile(p, os.O_RDONLY, 0) }

func (l *locked) OpenFile(p string, flag int, perm os.FileMode) (billy.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := l.fs.OpenFile(p, flag, perm)
	if err != nil {
		return nil, err
	}
	return &lockedFile{l, f}, nil
}

func (l *locked) Stat(p string) (os.FileInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fs.Stat(p)
}

func (l *locked) Lstat(p string) (os.FileInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fs.Lstat(p)
}

func (l *locked) Rename(from, to string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fs.Rename(from, to)
}

func (l *locked) Remove(p string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fs.Remove(p)
}

func (l *locked) ReadDir(p string) ([]os.FileInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fs.ReadDir(p)
}

func (l *locked) MkdirAll(p string, perm os.FileMode) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fs.MkdirAll(p, perm)
}

func (l *locked) Symlink(target, link string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fs.Symlink(target, link)
}

func (l *locked) Readlink(p string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fs.Readlink(p)
}

func (l *locked) TempFile(dir, prefix string) (billy.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fs.TempFile(dir, prefix)
}

func (l *locked) Join(elem ...string) string                { return l.fs.Join(elem...) }
func (l *locked) Chroot(p string) (billy.Filesystem, error) { return l.fs.Chroot(p) }
func (l *locked) Root() string                              { return l.fs.Root() }

type lockedFile struct {
	l *locked
	f billy.File
}

func (f *lockedFile) Name() string { return f.f.Name() }

func (f *lockedFile) Read(p []byte) (int, error) {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	return f.f.Read(p)
}

func (f *lockedFile) ReadAt(p []byte, off int64) (int, error) {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	return f.f.ReadAt(p, off)
}

func (f *lockedFile) Write(p []byte) (int, error) {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	return f.f.Write(p)
}

func (f *lockedFile) Seek(off int64, whence int) (int64, error) {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	return f.f.Seek(off, whence)
}

func (f *lockedFile) Truncate(n int64) error {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	return f.f.Truncate(n)
}

func (f *lockedFile) Close() error {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	return f.f.Close()
}

func (f *lockedFile) Lock() error   { return f.f.Lock() }
func (f *lockedFile) Unlock() error { return f.f.Unlock() }
