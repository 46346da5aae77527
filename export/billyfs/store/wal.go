package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A log is a header of walHeader bytes, then records: u32 length of the
// payload, u32 crc32c of the payload, payload; all little endian. A payload is
// a run of operations: u16 key length, key, u32 value length or opDelete,
// value.
const (
	walMagic   = "capstwal"
	walVersion = 1
	walHeader  = 16
	recHeader  = 8
	opDelete   = 0xffffffff
	maxRecord  = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errTorn = errors.New("store: torn record")

// log is one open log file. Guarded by Store.mu.
type log struct {
	f    *os.File
	path string
	size int64 // of whole records
}

func walName(path string, seq uint64) string { return fmt.Sprintf("%s.wal.%016x", path, seq) }

// listLogs returns the sequence numbers of the logs beside path, oldest first.
func listLogs(path string) ([]uint64, error) {
	names, err := filepath.Glob(escapeGlob(path) + ".wal.*")
	if err != nil {
		return nil, err
	}
	var seqs []uint64
	for _, n := range names {
		seq, err := strconv.ParseUint(strings.TrimPrefix(n, path+".wal."), 16, 64)
		if err == nil {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	return seqs, nil
}

func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

func createLog(path string, seq uint64) (*log, error) {
	name := walName(path, seq)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	var h [walHeader]byte
	copy(h[:], walMagic)
	binary.LittleEndian.PutUint32(h[8:], walVersion)
	if _, err := f.Write(h[:]); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(name))
	}
	return &log{f: f, path: name, size: walHeader}, nil
}

// append writes one record. After a failure the file is cut back to its whole
// records, so that later ones are not lost behind a torn one.
func (l *log) append(rec []byte) error {
	if _, err := l.f.WriteAt(rec, l.size); err != nil {
		return errors.Join(fmt.Errorf("store: append to %s: %w", l.path, err), l.f.Truncate(l.size))
	}
	l.size += int64(len(rec))
	return nil
}

func (l *log) remove() error { return errors.Join(l.f.Close(), os.Remove(l.path)) }

// replayLog calls apply for every operation of the whole records of a log,
// val nil meaning deleted. A torn tail is no error.
func replayLog(path string, apply func(key, val []byte)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var h [walHeader]byte
	if _, err := io.ReadFull(f, h[:]); err != nil {
		return nil // killed before the header was whole: nothing was promised
	}
	if string(h[:8]) != walMagic {
		return fmt.Errorf("store: %s is not a log of ours", path)
	}
	if v := binary.LittleEndian.Uint32(h[8:]); v > walVersion {
		return fmt.Errorf("store: %s has format version %d, this program knows up to %d", path, v, walVersion)
	}
	r := newRecordReader(f)
	for {
		payload, err := r.next()
		if err == io.EOF || errors.Is(err, errTorn) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("store: read %s: %w", path, err)
		}
		if err := parseOps(payload, apply); err != nil {
			return fmt.Errorf("store: %s: %w", path, err)
		}
	}
}

// parseOps splits the payload of a record.
func parseOps(p []byte, apply func(key, val []byte)) error {
	for len(p) > 0 {
		if len(p) < 2 {
			return errTorn
		}
		n := int(binary.LittleEndian.Uint16(p))
		p = p[2:]
		if len(p) < n+4 {
			return errTorn
		}
		key := p[:n]
		vlen := binary.LittleEndian.Uint32(p[n:])
		p = p[n+4:]
		if vlen == opDelete {
			apply(key, nil)
			continue
		}
		if uint64(len(p)) < uint64(vlen) {
			return errTorn
		}
		apply(key, p[:vlen:vlen])
		p = p[vlen:]
	}
	return nil
}

type recordReader struct {
	r   io.Reader
	buf []byte
}

func newRecordReader(r io.Reader) *recordReader { return &recordReader{r: r} }

// next returns the payload of the next record; it stays good until the call
// after.
func (r *recordReader) next() ([]byte, error) {
	var h [recHeader]byte
	if _, err := io.ReadFull(r.r, h[:]); err != nil {
		if err == io.ErrUnexpectedEOF {
			return nil, errTorn
		}
		return nil, err
	}
	n, sum := binary.LittleEndian.Uint32(h[:]), binary.LittleEndian.Uint32(h[4:])
	if n == 0 || n > maxRecord {
		return nil, errTorn
	}
	if int(n) > cap(r.buf) {
		// Grown in steps, so that a torn length costs no more than the file has.
		r.buf = make([]byte, 0, min(int(n), 1<<20))
	}
	r.buf = r.buf[:0]
	for len(r.buf) < int(n) {
		step := min(int(n)-len(r.buf), 1<<20)
		at := len(r.buf)
		r.buf = slices.Grow(r.buf, step)[:at+step]
		if _, err := io.ReadFull(r.r, r.buf[at:]); err != nil {
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return nil, errTorn
			}
			return nil, err
		}
	}
	if crc32.Checksum(r.buf, castagnoli) != sum {
		return nil, errTorn
	}
	return r.buf, nil
}

// A Batch is a set of writes that is applied as a whole. The zero value is
// empty and ready.
type Batch struct {
	rec []byte // record header and payload
	ops []op
}

type op struct {
	key string
	val []byte // nil: deleted; aliases nothing of the caller
}

// Put sets key, of at most 65,535 bytes, to val.
func (b *Batch) Put(key, val []byte) {
	v := make([]byte, len(val))
	copy(v, val)
	b.add(key, v)
}

// Delete removes key.
func (b *Batch) Delete(key []byte) { b.add(key, nil) }

// Empty reports whether nothing was added.
func (b *Batch) Empty() bool { return len(b.ops) == 0 }

func (b *Batch) add(key, val []byte) {
	if len(b.rec) == 0 {
		b.rec = make([]byte, recHeader, 256)
	}
	b.rec = binary.LittleEndian.AppendUint16(b.rec, uint16(len(key)))
	b.rec = append(b.rec, key...)
	if val == nil {
		b.rec = binary.LittleEndian.AppendUint32(b.rec, opDelete)
	} else {
		b.rec = binary.LittleEndian.AppendUint32(b.rec, uint32(len(val)))
		b.rec = append(b.rec, val...)
	}
	b.ops = append(b.ops, op{string(key), val})
}

// seal fills in the record header.
func (b *Batch) seal() []byte {
	p := b.rec[recHeader:]
	binary.LittleEndian.PutUint32(b.rec, uint32(len(p)))
	binary.LittleEndian.PutUint32(b.rec[4:], crc32.Checksum(p, castagnoli))
	return b.rec
}
