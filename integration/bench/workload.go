package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfstest"
	"capstan/server/xdr"
)

// row is one thing that is measured, in the windows of a set.
type row struct {
	what         string
	conns, depth int
	calls        int // that make one operation
	proc         *process
	plain        *row // what it is compared with, if anything
	lanes        []*lane
	seen         []window
}

// set is the rows that are measured in alternation, the plain one first. The
// closers end what their set-up began.
type set struct {
	rows    []*row
	closers []func() error
}

// sides are the servers of a group of sets; plain may be nil.
type sides struct{ capstan, plain *process }

func (s *set) close() error {
	var errs []error
	for _, r := range s.rows {
		for _, l := range r.lanes {
			errs = append(errs, l.nc.Close())
		}
	}
	for _, c := range s.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// add adds a row whose lanes are made by lane.
func (s *set) add(r row, lane func(conn int) (*lane, error)) error {
	for i := range r.conns {
		l, err := lane(i)
		if err != nil {
			return fmt.Errorf("%s: %w", r.what, err)
		}
		r.lanes = append(r.lanes, l)
	}
	if len(s.rows) > 0 && s.rows[0].proc != r.proc {
		r.plain = s.rows[0]
	}
	s.rows = append(s.rows, &r)
	return nil
}

// addPlain adds the plain row: requests with data, replies with want bytes.
func (s *set) addPlain(p *process, what string, conns, depth, data, want int) error {
	return s.add(row{what: what, conns: conns, depth: depth, calls: 1, proc: p}, func(int) (*lane, error) {
		nc, err := net.Dial("tcp", p.addr)
		if err != nil {
			return nil, err
		}
		l := newLane(nc, depth, false)
		for i := range l.slots {
			l.slots[i].cycle = []request{plainRequest(data, want)}
		}
		return l, nil
	})
}

// add4 adds a row of NFSv4.1, each connection a client of its own. prepare may
// make what the client needs first.
func (s *set) add4(ctx context.Context, r row, prepare func(*v4) (cycle func(slot int, begin func() *nfstest.Compound) []request, err error)) error {
	return s.add(r, func(conn int) (*lane, error) {
		m, err := mount4(ctx, r.proc, fmt.Sprintf("%s %d x %d, %d", r.what, r.conns, r.depth, conn))
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, m.close)
		cycle, err := prepare(m)
		if err != nil {
			return nil, err
		}
		return m.lane(r.depth, cycle)
	})
}

// fileSet measures READ and WRITE of 1 MiB.
func fileSet(ctx context.Context, on sides, conns, depth int, write bool) (s *set, err error) {
	s = new(set)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	name := func(conn int) string { return fmt.Sprintf("file-%d", conn) }
	setup, err := mount4(ctx, on.capstan, fmt.Sprintf("setup %v %d x %d", write, conns, depth))
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, setup.close)
	for i := range conns {
		if _, err := setup.file(ctx, name(i), fileSize); err != nil {
			return s, err
		}
	}
	v3, err := mount3(ctx, on.capstan)
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, v3.close)

	r := row{conns: conns, depth: depth, calls: 1, proc: on.capstan}
	if !write {
		if err := s.addPlain(on.plain, "plain READ", conns, depth, 0, blockSize); err != nil {
			return s, err
		}
		r.what = "READ, NFSv4.1"
		conn := -1
		if err := s.add4(ctx, r, func(m *v4) (func(int, func() *nfstest.Compound) []request, error) {
			conn++
			f, err := m.file(ctx, name(conn), 0)
			return func(_ int, begin func() *nfstest.Compound) []request {
				c := begin().PutFH(f.FH)
				req := compound(c.Read(f.ID, 0, blockSize))
				req.off, req.reply = len(req.b)-12, blockSize
				return []request{req}
			}, err
		}); err != nil {
			return s, err
		}
		r.what = "READ, NFSv3"
		return s, s.add(r, func(conn int) (*lane, error) {
			fh, err := v3.lookup(ctx, name(conn))
			if err != nil {
				return nil, err
			}
			return lane3(on.capstan, depth, func(int) []request {
				req, at := call3(read3, fh, func(e *xdr.Encoder) { e.Uint64(0); e.Uint32(blockSize) })
				req.off, req.reply = at, blockSize
				return []request{req}
			})
		})
	}

	if err := s.addPlain(on.plain, "plain WRITE", conns, depth, blockSize, 0); err != nil {
		return s, err
	}
	data := make([]byte, blockSize)
	for _, how := range []struct {
		stable uint32
		what   string
	}{{nfsv4.Unstable, "unstable"}, {nfsv4.FileSync, "file sync"}} {
		r.what = "WRITE " + how.what + ", NFSv4.1"
		conn := -1
		if err := s.add4(ctx, r, func(m *v4) (func(int, func() *nfstest.Compound) []request, error) {
			conn++
			f, err := m.file(ctx, name(conn), 0)
			return func(_ int, begin func() *nfstest.Compound) []request {
				req := compound(begin().PutFH(f.FH).Write(f.ID, 0, how.stable, data))
				req.off = len(req.b) - blockSize - 4 - 4 - 8
				return []request{req}
			}, err
		}); err != nil {
			return s, err
		}
		r.what = "WRITE " + how.what + ", NFSv3"
		if err := s.add(r, func(conn int) (*lane, error) {
			fh, err := v3.lookup(ctx, name(conn))
			if err != nil {
				return nil, err
			}
			return lane3(on.capstan, depth, func(int) []request {
				req, at := call3(write3, fh, func(e *xdr.Encoder) {
					e.Uint64(0)
					e.Uint32(blockSize)
					e.Uint32(how.stable)
					e.Opaque(data)
				})
				req.off = at
				return []request{req}
			})
		}); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Sizes of a GETATTR of NFSv4.1, call and reply, about: what its plain
// counterpart sends and gets, in bytes.
const (
	statCall  = 230
	statReply = 240
)

// statSet measures GETATTR.
func statSet(ctx context.Context, on sides, conns, depth int) (s *set, err error) {
	s = new(set)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := s.addPlain(on.plain, "plain", conns, depth, statCall-plainHeader, statReply-prefix); err != nil {
		return s, err
	}
	setup, err := mount4(ctx, on.capstan, fmt.Sprintf("setup %d x %d", conns, depth))
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, setup.close)
	f, err := setup.file(ctx, "file", 0)
	if err != nil {
		return s, err
	}
	r := row{what: "SEQUENCE, PUTFH, GETATTR, NFSv4.1", conns: conns, depth: depth, calls: 1, proc: on.capstan}
	if err := s.add4(ctx, r, func(m *v4) (func(int, func() *nfstest.Compound) []request, error) {
		return func(_ int, begin func() *nfstest.Compound) []request {
			return []request{compound(begin().PutFH(f.FH).GetAttr(statAttrs...))}
		}, nil
	}); err != nil {
		return s, err
	}
	r.what = "GETATTR, NFSv3"
	return s, s.add(r, func(int) (*lane, error) {
		return lane3(on.capstan, depth, func(int) []request {
			req, _ := call3(getAttr3, f.FH, nil)
			return []request{req}
		})
	})
}

// nameSet measures operations on names, which have no plain counterpart.
func nameSet(ctx context.Context, on sides, conns, depth, files int) (s *set, err error) {
	s = new(set)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	setup, err := mount4(ctx, on.capstan, "setup of names")
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, setup.close)
	dir, err := setup.directory(ctx, "list", files)
	if err != nil {
		return s, err
	}
	cookies, verifier, err := setup.pages4(ctx, dir, files)
	if err != nil {
		return s, err
	}
	v3, err := mount3(ctx, on.capstan)
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, v3.close)
	cookies3, err := v3.pages3(ctx, dir, files)
	if err != nil {
		return s, err
	}

	r := row{conns: conns, depth: depth, calls: 1, proc: on.capstan}
	owner := func(slot int) string { return fmt.Sprintf("owner-%d", slot) }
	add4 := func(what string, calls int, cycle func(m *v4, slot int, begin func() *nfstest.Compound) []request) {
		if err != nil {
			return
		}
		r.what, r.calls = what, calls
		err = s.add4(ctx, r, func(m *v4) (func(int, func() *nfstest.Compound) []request, error) {
			return func(slot int, begin func() *nfstest.Compound) []request { return cycle(m, slot, begin) }, nil
		})
	}
	add3 := func(what string, calls int, cycle func(conn, slot int) []request) {
		if err != nil {
			return
		}
		r.what, r.calls = what, calls
		err = s.add(r, func(conn int) (*lane, error) {
			return lane3(on.capstan, depth, func(slot int) []request { return cycle(conn, slot) })
		})
	}
	add4("OPEN and CLOSE in one COMPOUND, NFSv4.1", 1, func(_ *v4, slot int, begin func() *nfstest.Compound) []request {
		return []request{compound(begin().PutFH(dir).Open(nfstest.OpenArgs{Owner: owner(slot), Claim: nfstest.ByName("file-000001")}).
			Close(nfsv4.CurrentStateID))}
	})
	add4("create by OPEN, CLOSE, then REMOVE in one COMPOUND, NFSv4.1", 1, func(m *v4, slot int, begin func() *nfstest.Compound) []request {
		name := fmt.Sprintf("%s %d", m.name, slot)
		return []request{compound(begin().PutFH(m.root).
			Open(nfstest.OpenArgs{Owner: owner(slot), How: nfstest.Guarded(nfstest.Mode(0o644)), Claim: nfstest.ByName(name)}).
			Close(nfsv4.CurrentStateID).PutFH(m.root).Remove(name))}
	})
	add3("CREATE, then REMOVE, NFSv3", 2, func(conn, slot int) []request {
		name := fmt.Sprintf("v3 %d %d", conn, slot)
		create, _ := call3(create3, v3.root, func(e *xdr.Encoder) {
			e.String(name)
			for _, v := range []uint32{1, 1, 0o644, 0, 0, 0, 0, 0} { // guarded; mode 644 and nothing else
				e.Uint32(v)
			}
		})
		remove, _ := call3(remove3, v3.root, func(e *xdr.Encoder) { e.String(name) })
		return []request{create, remove}
	})
	add4(fmt.Sprintf("READDIR of %d entries, NFSv4.1", files), len(cookies), func(_ *v4, _ int, begin func() *nfstest.Compound) (cycle []request) {
		for i, cookie := range cookies {
			v := verifier
			if i == 0 {
				v = nfsv4.Verifier{}
			}
			cycle = append(cycle, compound(begin().PutFH(dir).ReadDir(cookie, v, listSize, listSize, listAttrs...)))
		}
		return cycle
	})
	add3(fmt.Sprintf("READDIRPLUS of %d entries, NFSv3", files), len(cookies3), func(int, int) (cycle []request) {
		for _, cookie := range cookies3 {
			req, _ := call3(readDirPlus3, dir, func(e *xdr.Encoder) {
				e.Uint64(cookie)
				e.Uint64(0)
				e.Uint32(listSize / 4)
				e.Uint32(listSize)
			})
			cycle = append(cycle, req)
		}
		return cycle
	})
	return s, err
}
