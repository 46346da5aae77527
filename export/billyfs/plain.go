package billyfs

import (
	"io"
	"sync"

	"github.com/go-git/go-billy/v5"
)

// sizer is a file that knows its size better than a path does.
type sizer interface{ size() (int64, error) }

// plainFile makes a [File] of a billy.File, whose position all writes share.
type plainFile struct {
	mu sync.Mutex // held while the position matters
	f  billy.File
}

func newPlainFile(f billy.File) File {
	p := &plainFile{f: f}
	if s, ok := f.(Syncer); ok { // osfs: an *os.File is inside
		return &plainSyncFile{p, s}
	}
	return p
}

// ReadAt implements io.ReaderAt. Not every billy file allows it beside a
// write, so it takes its turn.
func (p *plainFile) ReadAt(b []byte, off int64) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.f.ReadAt(b, off)
}

// WriteAt implements io.WriterAt. A gap before off is filled with zeros first,
// since not every billy file does that.
func (p *plainFile) WriteAt(b []byte, off int64) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w, ok := p.f.(io.WriterAt); ok {
		return w.WriteAt(b, off)
	}
	end, err := p.f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	if end < off {
		if err := p.f.Truncate(off); err != nil {
			return 0, err
		}
	}
	if _, err := p.f.Seek(off, io.SeekStart); err != nil {
		return 0, err
	}
	return p.f.Write(b)
}

func (p *plainFile) Truncate(size int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.f.Truncate(size)
}

func (p *plainFile) size() (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.f.Seek(0, io.SeekEnd)
}

func (p *plainFile) Close() error { return p.f.Close() }

// plainSyncFile is a plainFile that can be synced.
type plainSyncFile struct {
	*plainFile
	s Syncer
}

// Sync implements [Syncer].
func (p *plainSyncFile) Sync() error { return p.s.Sync() }
