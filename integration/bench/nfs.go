package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"capstan/server/nfs3"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfstest"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

// caller is who makes the calls.
var caller = nfstest.User(0, 0, 4, 24, 27, 100)

// call encodes a call with its record mark; args are its arguments.
func call(program, version, procedure uint32, args []byte) (r request, argsAt int) {
	var e xdr.Encoder
	for _, v := range []uint32{0, 0, 0, rpc.Version, program, version, procedure} {
		e.Uint32(v)
	}
	caller.AppendTo(&e)
	e.Uint32(uint32(rpc.FlavorNone))
	e.Uint32(0)
	argsAt = e.Len()
	e.Append(args)
	e.Patch32(0, lastRecord|uint32(e.Len()-markSize))
	return request{b: e.Bytes(), reply: statusAt + 4}, argsAt
}

// seqInCompound is where the number of SEQUENCE stands in the arguments of a
// COMPOUND that begins with it: behind an empty tag, the minor version, the
// count, the operation and the session.
const seqInCompound = 4 + 4 + 4 + 4 + 16

// compound makes a request of c.
func compound(c *nfstest.Compound) request {
	r, at := call(nfsv4.Program, nfsv4.Version, nfsv4.ProcCompound, c.Bytes())
	r.seq = at + seqInCompound
	return r
}

// v4 is an NFSv4.1 client: one session, and a connection for what is done
// beside the measurement.
type v4 struct {
	ses  *nfstest.Session
	addr string
	root []byte // the export
	name string
}

// mount4 makes a client; name tells it from others.
func mount4(ctx context.Context, p *process, name string) (*v4, error) {
	nc, err := net.Dial("tcp", p.addr)
	if err != nil {
		return nil, err
	}
	m := &v4{addr: p.addr, name: name}
	conn := nfstest.NewConn(nc, caller)
	if m.ses, err = nfstest.Mount(ctx, conn, 1, name); err == nil {
		m.root, err = m.ses.Walk(ctx, "bench")
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return m, nil
}

func (m *v4) close() error { return m.ses.Conn.Close() }

// lane returns a lane on a further connection of the client. cycle makes the
// requests of a slot, each from what begin returns.
func (m *v4) lane(depth int, cycle func(slot int, begin func() *nfstest.Compound) []request) (*lane, error) {
	if depth > int(m.ses.Fore.MaxRequests) {
		return nil, fmt.Errorf("the session has %d slots, not %d", m.ses.Fore.MaxRequests, depth)
	}
	nc, err := net.Dial("tcp", m.addr)
	if err != nil {
		return nil, err
	}
	l := newLane(nc, depth, true)
	for i := range l.slots {
		at := uint32(i)
		// The numbers in what is encoded now are replaced as it is sent.
		l.slots[i].seq = m.ses.Sequence(at)
		l.slots[i].cycle = cycle(i, func() *nfstest.Compound { return m.ses.BeginOn(at, false) })
	}
	return l, nil
}

// file makes a file in the root, and fills it if it is to have a size.
func (m *v4) file(ctx context.Context, name string, size int) (*nfstest.Opened, error) {
	f, err := m.ses.Open(ctx, m.root, nfstest.OpenArgs{Owner: "setup", How: nfstest.Unchecked(nfstest.Mode(0o644)), Claim: nfstest.ByName(name)})
	if err != nil {
		return nil, err
	}
	data := make([]byte, blockSize)
	for i := range data {
		data[i] = byte(i >> 8)
	}
	for off := 0; off < size; off += len(data) {
		if _, err := m.ses.Do(ctx, m.ses.Begin().PutFH(f.FH).Write(f.ID, uint64(off), nfsv4.Unstable, data)); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// directory makes a directory of n files and returns its handle.
func (m *v4) directory(ctx context.Context, name string, n int) ([]byte, error) {
	if _, err := m.ses.Do(ctx, m.ses.Begin().PutFH(m.root).Mkdir(name, nfstest.Mode(0o755))); err != nil {
		return nil, err
	}
	dir, err := m.ses.Walk(ctx, "bench", name)
	if err != nil {
		return nil, err
	}
	for i := range n {
		_, err := m.ses.Do(ctx, m.ses.Begin().PutFH(dir).Open(nfstest.OpenArgs{
			Owner: "setup", How: nfstest.Guarded(nfstest.Mode(0o644)), Claim: nfstest.ByName(fmt.Sprintf("file-%06d", i)),
		}).Close(nfsv4.CurrentStateID))
		if err != nil {
			return nil, err
		}
	}
	return dir, nil
}

// What the Linux client asks for with GETATTR and in READDIR.
var (
	statAttrs = []uint32{nfsv4.AttrType, nfsv4.AttrChange, nfsv4.AttrSize, nfsv4.AttrFSID, nfsv4.AttrFileID,
		nfsv4.AttrMode, nfsv4.AttrNumLinks, nfsv4.AttrOwner, nfsv4.AttrOwnerGroup, nfsv4.AttrRawDev, nfsv4.AttrSpaceUsed,
		nfsv4.AttrTimeAccess, nfsv4.AttrTimeMetadata, nfsv4.AttrTimeModify, nfsv4.AttrMountedOnFileID}
	listAttrs = []uint32{nfsv4.AttrType, nfsv4.AttrChange, nfsv4.AttrSize, nfsv4.AttrFSID, nfsv4.AttrRdAttrError, nfsv4.AttrFileHandle,
		nfsv4.AttrFileID, nfsv4.AttrMode, nfsv4.AttrNumLinks, nfsv4.AttrOwner, nfsv4.AttrOwnerGroup, nfsv4.AttrRawDev, nfsv4.AttrSpaceUsed,
		nfsv4.AttrTimeAccess, nfsv4.AttrTimeMetadata, nfsv4.AttrTimeModify, nfsv4.AttrMountedOnFileID}
)

// listSize is how much of a directory is asked for at once, in bytes.
const listSize = 128 << 10

// pages4 lists a directory once and returns where each READDIR begins. The
// cookies stay what they are, since the directory does.
func (m *v4) pages4(ctx context.Context, dir []byte, want int) (cookies []uint64, v nfsv4.Verifier, err error) {
	got := 0
	for cookie := uint64(0); ; {
		cookies = append(cookies, cookie)
		r, err := m.ses.Do(ctx, m.ses.Begin().PutFH(dir).ReadDir(cookie, v, listSize, listSize, listAttrs...))
		if err != nil {
			return nil, v, err
		}
		page := nfstest.Get[nfstest.ReadDirRes](r)
		v, got = page.Verifier, got+len(page.Entries)
		if page.EOF {
			break
		}
		cookie = page.Entries[len(page.Entries)-1].Cookie
	}
	if got != want {
		return nil, v, fmt.Errorf("READDIR lists %d entries, not %d", got, want)
	}
	return cookies, v, nil
}

// v3 is an NFSv3 client, mounted.
type v3 struct {
	*nfstest.V3
	root []byte
}

func mount3(ctx context.Context, p *process) (*v3, error) {
	nc, err := net.Dial("tcp", p.addr)
	if err != nil {
		return nil, err
	}
	m := &v3{V3: &nfstest.V3{Conn: nfstest.NewConn(nc, caller)}}
	var st nfs3.MountStatus
	if m.root, st, err = m.Mount(ctx, "/bench"); err == nil && st != nfs3.MountOK {
		err = fmt.Errorf("MNT: %v", st)
	}
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

func (m *v3) close() error { return m.Conn.Close() }

// lookup returns the handle of a name in the root.
func (m *v3) lookup(ctx context.Context, name string) ([]byte, error) {
	fh, st, err := m.Lookup(ctx, m.root, name)
	if err == nil && st != nfs3.OK {
		err = fmt.Errorf("LOOKUP: %v", st)
	}
	return fh, err
}

// pages3 is pages4 with READDIRPLUS, whose verifier stays zero and which lists
// the directory itself and its parent too.
func (m *v3) pages3(ctx context.Context, dir []byte, want int) (cookies []uint64, err error) {
	got := 0
	for cookie := uint64(0); ; {
		cookies = append(cookies, cookie)
		list, eof, st, err := m.ReadDirPlus(ctx, dir, cookie, [8]byte{}, listSize/4, listSize)
		if err == nil && st != nfs3.OK {
			err = fmt.Errorf("READDIRPLUS: %v", st)
		}
		if err != nil {
			return nil, err
		}
		got += len(list)
		if eof {
			break
		}
		cookie = list[len(list)-1].Cookie
	}
	if got != want+2 {
		return nil, fmt.Errorf("READDIRPLUS lists %d entries, not %d", got, want)
	}
	return cookies, nil
}

// Procedures of NFSv3 (RFC 1813).
const (
	getAttr3     = 1
	read3        = 6
	write3       = 7
	create3      = 8
	remove3      = 12
	readDirPlus3 = 17
)

// call3 encodes a call of NFSv3 that begins with a handle.
func call3(procedure uint32, fh []byte, rest func(*xdr.Encoder)) (r request, restAt int) {
	var e xdr.Encoder
	e.Opaque(fh)
	n := e.Len()
	if rest != nil {
		rest(&e)
	}
	r, at := call(nfs3.Program, 3, procedure, e.Bytes())
	return r, at + n
}

// lane3 returns a lane on a connection of its own.
func lane3(p *process, depth int, cycle func(slot int) []request) (*lane, error) {
	nc, err := net.Dial("tcp", p.addr)
	if err != nil {
		return nil, err
	}
	l := newLane(nc, depth, true)
	for i := range l.slots {
		l.slots[i].cycle = cycle(i)
	}
	return l, nil
}
