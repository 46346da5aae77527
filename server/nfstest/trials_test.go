package nfstest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"capstan/export"
	"capstan/server/nfs3"
	"capstan/server/nfs4/nfsv4"
)

// The trials are scenarios that went wrong for people who run NFS gateways,
// each with its right answer. Here are those that need exact operations; they
// run for every version in which they mean something.

// bed is a server that can be killed and started again on the same Volume.
type bed struct {
	testing.TB
	born time.Time
	vol  *Faults
	keys *export.KeyRing
	opts Options
	srv  *Server
}

func newBed(t testing.TB, o Options) *bed {
	t.Helper()
	mem, err := NewVolume()
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{TB: t, born: time.Now(), vol: NewFaults(mem), keys: export.RandomKeyRing(), opts: o}
	b.start()
	t.Cleanup(b.stop)
	return b
}

func (b *bed) start() {
	b.Helper()
	o := b.opts
	o.Exports = []*export.Export{Export(1, "/data", b.vol)}
	o.Table = append([]export.Option{export.WithKeys(b.keys)}, o.Table...)
	var err error
	if b.srv, err = NewServer(b.Context(), o); err != nil {
		b.Fatal(err)
	}
}

func (b *bed) stop() {
	if err := b.srv.Close(context.Background()); err != nil {
		b.Error(err)
	}
}

// restart is kill -9 and a start: all state is gone, and so are unstable data.
func (b *bed) restart() {
	b.Helper()
	b.stop()
	b.vol.Roll()
	b.start()
}

// dialect is a version of NFS as far as trials speak all of them. Its methods
// may be called from any goroutine; errors end the trial.
type dialect interface {
	root() []byte
	create(dir []byte, name string) (fh []byte)
	read(fh []byte, off uint64, count uint32) (data []byte, eof bool, err error)
	write(fh []byte, off uint64, stable uint32, data []byte) (n, committed uint32, v nfsv4.Verifier, err error)
	commit(fh []byte) (v nfsv4.Verifier, status string)
	setSize(fh []byte, size uint64)
	size(fh []byte) uint64
	link(fh, dir []byte, name string)
	remove(dir []byte, name string)
	rename(dir []byte, from, to string) string
	// page lists a page of a directory in so many bytes, in v3 with "." and "..".
	// status is "" for OK.
	page(dir []byte, cookie uint64, dirCount, maxCount uint32) (entries []listed, eof bool, status string)
	// maxIO is the largest READ and WRITE announced.
	maxIO() (read, write uint32)
}

type listed struct {
	name   string
	cookie uint64
	fileID uint64
}

// eachDialect runs a trial in each version, on a bed of its own.
func eachDialect(t *testing.T, o Options, f func(t *testing.T, b *bed, d dialect)) {
	for _, version := range []string{"v3", "v4.1", "v4.2"} {
		t.Run(version, func(t *testing.T) {
			b := newBed(t, o)
			f(t, b, b.speak(t, version))
		})
	}
}

// speak connects in a version.
func (b *bed) speak(t testing.TB, version string) dialect {
	t.Helper()
	conn := connect(t, b.srv)
	if version == "v3" {
		d := &v3Dialect{t, &V3{Conn: conn}, nil}
		fh, st, err := d.c.Mount(t.Context(), "/data")
		if err != nil || st != nfs3.MountOK {
			t.Fatal(st, err)
		}
		d.top = fh
		return d
	}
	minor := uint32(version[3] - '0')
	ses, err := Mount(t.Context(), conn, minor, "trial on "+version)
	if err != nil {
		t.Fatal(err)
	}
	d := &v4Dialect{TB: t, s: ses, slots: make(chan uint32, len(ses.slots))}
	for i := range ses.slots {
		d.slots <- uint32(i)
	}
	if d.top, err = ses.Walk(t.Context(), "data"); err != nil {
		t.Fatal(err)
	}
	return d
}

type v3Dialect struct {
	testing.TB
	c   *V3
	top []byte
}

func (d *v3Dialect) ok(what string, st nfs3.Status, err error) {
	d.Helper()
	if err != nil || st != nfs3.OK {
		d.Fatalf("%s: %v %v", what, st, err)
	}
}

func (d *v3Dialect) root() []byte { return d.top }

func (d *v3Dialect) create(dir []byte, name string) []byte {
	d.Helper()
	fh, st, err := d.c.Create(d.Context(), dir, name, export.SetAttr{Set: export.SetMode, Mode: 0o644})
	d.ok("CREATE", st, err)
	return fh
}

func (d *v3Dialect) read(fh []byte, off uint64, count uint32) ([]byte, bool, error) {
	data, eof, st, err := d.c.Read(d.Context(), fh, off, count)
	if err == nil && st != nfs3.OK {
		err = fmt.Errorf("READ: %v", st)
	}
	return data, eof, err
}

func (d *v3Dialect) write(fh []byte, off uint64, stable uint32, data []byte) (n, committed uint32, v nfsv4.Verifier, err error) {
	w, st, err := d.c.Write(d.Context(), fh, off, stable, data)
	if err == nil && st != nfs3.OK {
		err = fmt.Errorf("WRITE: %v", st)
	}
	return w.Count, w.Committed, w.Verifier, err
}

func (d *v3Dialect) commit(fh []byte) (v nfsv4.Verifier, status string) {
	d.Helper()
	verifier, st, err := d.c.Commit(d.Context(), fh, 0, 0)
	if err != nil {
		d.Fatal(err)
	}
	if st != nfs3.OK {
		return v, st.String()
	}
	return verifier, ""
}

func (d *v3Dialect) setSize(fh []byte, size uint64) {
	d.Helper()
	st, err := d.c.SetAttr(d.Context(), fh, export.SetAttr{Set: export.SetSize, Size: size})
	d.ok("SETATTR", st, err)
}

func (d *v3Dialect) size(fh []byte) uint64 {
	d.Helper()
	a, st, err := d.c.GetAttr(d.Context(), fh)
	d.ok("GETATTR", st, err)
	return a.Size
}

func (d *v3Dialect) link(fh, dir []byte, name string) {
	d.Helper()
	st, err := d.c.Link(d.Context(), fh, dir, name)
	d.ok("LINK", st, err)
}

func (d *v3Dialect) remove(dir []byte, name string) {
	d.Helper()
	st, err := d.c.Remove(d.Context(), dir, name)
	d.ok("REMOVE", st, err)
}

func (d *v3Dialect) rename(dir []byte, from, to string) string {
	d.Helper()
	st, err := d.c.Rename(d.Context(), dir, from, dir, to)
	if err != nil {
		d.Fatal(err)
	}
	if st != nfs3.OK {
		return st.String()
	}
	return ""
}

func (d *v3Dialect) page(dir []byte, cookie uint64, dirCount, maxCount uint32) ([]listed, bool, string) {
	d.Helper()
	entries, eof, st, err := d.c.ReadDirPlus(d.Context(), dir, cookie, [8]byte{}, dirCount, maxCount)
	if err != nil {
		d.Fatal(err)
	}
	if st != nfs3.OK {
		return nil, false, st.String()
	}
	return listed3(entries), eof, ""
}

func listed3(entries []Entry3) (list []listed) {
	for _, e := range entries {
		list = append(list, listed{e.Name, e.Cookie, e.FileID})
	}
	return list
}

func (d *v3Dialect) maxIO() (read, write uint32) {
	d.Helper()
	s, st, err := d.c.FSInfo(d.Context(), d.top)
	d.ok("FSINFO", st, err)
	return s.ReadMax, s.WriteMax
}

type v4Dialect struct {
	testing.TB
	s     *Session
	top   []byte
	slots chan uint32 // free ones
}

// send runs a COMPOUND on a free slot.
func (d *v4Dialect) send(build func(*Compound)) (*Reply, error) {
	slot := <-d.slots
	defer func() { d.slots <- slot }()
	c := d.s.BeginOn(slot, false)
	build(c)
	return d.s.Send(d.Context(), c)
}

func (d *v4Dialect) do(build func(*Compound)) *Reply {
	d.Helper()
	r, err := must(d.send(build))
	if err != nil {
		d.Fatal(err)
	}
	return r
}

func (d *v4Dialect) root() []byte { return d.top }

func (d *v4Dialect) create(dir []byte, name string) []byte {
	d.Helper()
	r := d.do(func(c *Compound) {
		c.PutFH(dir).Open(OpenArgs{Owner: "trial", How: Guarded(Mode(0o644)), Claim: ByName(name)}).GetFH().Close(nfsv4.CurrentStateID)
	})
	return Get[GetFHRes](r).FH
}

func (d *v4Dialect) read(fh []byte, off uint64, count uint32) ([]byte, bool, error) {
	r, err := must(d.send(func(c *Compound) { c.PutFH(fh).Read(nfsv4.AnonymousStateID, off, count) }))
	if err != nil {
		return nil, false, err
	}
	res := Get[ReadRes](r)
	return res.Data, res.EOF, nil
}

func (d *v4Dialect) write(fh []byte, off uint64, stable uint32, data []byte) (n, committed uint32, v nfsv4.Verifier, err error) {
	r, err := must(d.send(func(c *Compound) { c.PutFH(fh).Write(nfsv4.AnonymousStateID, off, stable, data) }))
	if err != nil {
		return 0, 0, v, err
	}
	res := Get[WriteRes](r)
	return res.Count, res.Committed, res.Verifier, nil
}

func (d *v4Dialect) commit(fh []byte) (v nfsv4.Verifier, status string) {
	d.Helper()
	r, err := d.send(func(c *Compound) { c.PutFH(fh).Commit(0, 0) })
	if err != nil {
		d.Fatal(err)
	}
	if r.Status != nfsv4.OK {
		return v, r.Status.String()
	}
	return Get[CommitRes](r).Verifier, ""
}

func (d *v4Dialect) setSize(fh []byte, size uint64) {
	d.Helper()
	d.do(func(c *Compound) { c.PutFH(fh).SetAttr(nfsv4.AnonymousStateID, Size(size)) })
}

func (d *v4Dialect) size(fh []byte) uint64 {
	d.Helper()
	return Get[GetAttrRes](d.do(func(c *Compound) { c.PutFH(fh).GetAttr(nfsv4.AttrSize) })).Uint64()
}

func (d *v4Dialect) link(fh, dir []byte, name string) {
	d.Helper()
	d.do(func(c *Compound) { c.PutFH(fh).SaveFH().PutFH(dir).Link(name) })
}

func (d *v4Dialect) remove(dir []byte, name string) {
	d.Helper()
	d.do(func(c *Compound) { c.PutFH(dir).Remove(name) })
}

func (d *v4Dialect) rename(dir []byte, from, to string) string {
	d.Helper()
	r, err := d.send(func(c *Compound) { c.PutFH(dir).SaveFH().Rename(from, to) })
	if err != nil {
		d.Fatal(err)
	}
	if r.Status != nfsv4.OK {
		return r.Status.String()
	}
	return ""
}

func (d *v4Dialect) page(dir []byte, cookie uint64, dirCount, maxCount uint32) ([]listed, bool, string) {
	d.Helper()
	r, err := d.send(func(c *Compound) {
		c.PutFH(dir).ReadDir(cookie, nfsv4.Verifier{}, dirCount, maxCount, nfsv4.AttrFileID)
	})
	if err != nil {
		d.Fatal(err)
	}
	if r.Status != nfsv4.OK {
		return nil, false, r.Status.String()
	}
	res := Get[ReadDirRes](r)
	var list []listed
	for _, e := range res.Entries {
		list = append(list, listed{e.Name, e.Cookie, e.Attrs.Uint64()})
	}
	return list, res.EOF, ""
}

func (d *v4Dialect) maxIO() (read, write uint32) {
	d.Helper()
	r := d.do(func(c *Compound) { c.PutFH(d.top).GetAttr(nfsv4.AttrMaxRead) })
	w := d.do(func(c *Compound) { c.PutFH(d.top).GetAttr(nfsv4.AttrMaxWrite) })
	return uint32(Get[GetAttrRes](r).Uint64()), uint32(Get[GetAttrRes](w).Uint64())
}
