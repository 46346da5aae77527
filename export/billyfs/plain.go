package billyfs

import (
	"io"
	"os"
	"sync"

	"github.com/go-git/go-billy/v5"

	"capstan/export"
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
	o, ok := f.(osFile)
	if !ok {
		return p
	}
	if fi, err := o.Stat(); err == nil {
		if _, ok := infoOfSys(fi); ok {
			return &plainOSFile{p, o}
		}
	}
	return p
}

// osFile is what a billy.File has that wraps an *os.File, as osfs' do.
type osFile interface {
	Stat() (os.FileInfo, error)
	Sync() error
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

// plainOSFile is a plainFile with an *os.File or its like inside.
type plainOSFile struct {
	*plainFile
	o osFile
}

// Sync implements [Syncer].
func (p *plainOSFile) Sync() error { return p.o.Sync() }

// StatInode implements [FileStater].
func (p *plainOSFile) StatInode(export.AttrMask) (Info, error) {
	fi, err := p.o.Stat()
	if err != nil {
		return Info{}, err
	}
	info, _ := infoOfSys(fi)
	return info, nil
}
