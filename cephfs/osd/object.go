package osd

import (
	"cmp"
	"math/bits"
	"strconv"
	"strings"

	"capstan/cephfs/denc"
)

// Object names an object.
type Object struct {
	Pool      int64
	Namespace string
	// Key, if not empty, places the object instead of Name (the locator key).
	Key  string
	Name string
}

// String returns pool/namespace/name, with the key behind an @ if there is one.
func (o Object) String() string {
	s := strconv.FormatInt(o.Pool, 10) + "/"
	if o.Namespace != "" {
		s += o.Namespace + "/"
	}
	s += o.Name
	if o.Key != "" {
		s += "@" + o.Key
	}
	return s
}

// PG is a placement group, and of an erasure-coded pool the shard that an OSD
// has of it (spg_t).
type PG struct {
	Pool  int64
	Seed  uint32
	Shard int8 // -1 in a replicated pool
}

// String returns pg as Ceph prints it: 3.1f, 3.1fs0.
func (pg PG) String() string {
	s := strconv.FormatInt(pg.Pool, 10) + "." + strconv.FormatUint(uint64(pg.Seed), 16)
	if pg.Shard >= 0 {
		s += "s" + strconv.Itoa(int(pg.Shard))
	}
	return s
}

// spgLen is the encoded length of a PG: header, pg_t, shard.
const spgLen = 6 + 17 + 1

func encodePG(e *denc.Encoder, pg PG) {
	s := e.Struct(1, 1)
	e.Uint8(1)
	e.Int64(pg.Pool)
	e.Uint32(pg.Seed)
	e.Int32(-1) // preferred OSD, long gone
	e.Int8(pg.Shard)
	e.End(s)
}

func decodePG(d *denc.Decoder, field string) PG {
	s := d.Struct(field, 1)
	pg := decodeRawPG(d)
	pg.Shard = d.Int8("shard")
	d.End(s)
	return pg
}

// decodeRawPG reads a pg_t.
func decodeRawPG(d *denc.Decoder) PG {
	if v := d.Uint8("pg version"); d.OK() && v != 1 {
		d.Fail("pg version", denc.ErrVersion)
	}
	pg := PG{Pool: d.Int64("pool"), Seed: d.Uint32("seed"), Shard: noShard}
	d.Int32("preferred")
	return pg
}

// encodeLocator writes an object_locator_t. hash is -1 unless a placement was
// given in place of a name.
func encodeLocator(e *denc.Encoder, o Object, hash int64) {
	compat := uint8(3)
	if hash != -1 {
		compat = 6
	}
	s := e.Struct(6, compat)
	e.Int64(o.Pool)
	e.Int32(-1)
	e.String(o.Key)
	e.String(o.Namespace)
	e.Int64(hash)
	e.End(s)
}

func decodeLocator(d *denc.Decoder, field string) (o Object, hash int64) {
	s := d.LegacyStruct(field, 6, 3, 3)
	hash = -1
	if s.Version < 2 {
		o.Pool = int64(d.Int32("pool"))
		d.Uint16("preferred")
	} else {
		o.Pool = d.Int64("pool")
		d.Int32("preferred")
	}
	o.Key = d.String("key")
	if s.Version >= 5 {
		o.Namespace = d.String("nspace")
	}
	if s.Version >= 6 {
		hash = d.Int64("hash")
	}
	d.End(s)
	return o, hash
}

// position is an object's place in the order of a pool's objects, or an end of
// a range of it (hobject_t).
type position struct {
	key, name, nspace string
	snap              uint64
	hash              uint32
	pool              int64
	max               bool // behind every object
}

// positionOf returns where o is. A key that says nothing new is left out.
func positionOf(o Object, hash uint32) position {
	p := position{key: o.Key, name: o.Name, nspace: o.Namespace, snap: NoSnap, hash: hash, pool: o.Pool}
	if p.key == p.name {
		p.key = ""
	}
	return p
}

func encodePosition(e *denc.Encoder, p position) {
	s := e.Struct(4, 3)
	e.String(p.key)
	e.String(p.name)
	e.Uint64(p.snap)
	e.Uint32(p.hash)
	e.Bool(p.max)
	e.String(p.nspace)
	e.Int64(p.pool)
	e.End(s)
}

func decodePosition(d *denc.Decoder, field string) position {
	s := d.LegacyStruct(field, 4, 3, 3)
	var p position
	p.pool = -1
	if s.Version >= 1 {
		p.key = d.String("key")
	}
	p.name = d.String("name")
	p.snap = d.Uint64("snap")
	p.hash = d.Uint32("hash")
	if s.Version >= 2 {
		p.max = d.Bool("max")
	}
	if s.Version >= 4 {
		p.nspace = d.String("nspace")
		p.pool = d.Int64("pool")
	}
	d.End(s)
	return p
}

// compare orders positions as an OSD does with the flag sortbitwise, which
// every cluster since release 10 has: the bits of the hash are compared from
// the lowest up.
func (p position) compare(q position) int {
	b := func(x bool) int {
		if x {
			return 1
		}
		return 0
	}
	if c := cmp.Compare(b(p.max), b(q.max)); c != 0 || p.max {
		return c
	}
	if c := cmp.Or(
		cmp.Compare(p.pool, q.pool),
		cmp.Compare(bits.Reverse32(p.hash), bits.Reverse32(q.hash)),
		strings.Compare(p.nspace, q.nspace),
	); c != 0 {
		return c
	}
	if p.key != "" || q.key != "" {
		if c := strings.Compare(p.effectiveKey(), q.effectiveKey()); c != 0 {
			return c
		}
	}
	return cmp.Or(strings.Compare(p.name, q.name), cmp.Compare(p.snap, q.snap))
}

func (p position) effectiveKey() string {
	if p.key != "" {
		return p.key
	}
	return p.name
}

// in reports whether p is in the range that begins with begin and ends before
// end, or is begin: a range that ends where it begins is one object.
func (p position) in(begin, end position) bool {
	c := p.compare(begin)
	return c == 0 || c > 0 && p.compare(end) < 0
}
