package denc

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Time reads seconds and nanoseconds since 1970 (utime_t), in UTC. Two zeros
// are the zero [time.Time].
func (d *Decoder) Time(field string) time.Time {
	sec, nsec := d.Uint32(field), d.Uint32(field)
	if sec == 0 && nsec == 0 {
		return time.Time{}
	}
	return time.Unix(int64(sec), int64(nsec)).UTC()
}

// Time appends t as seconds and nanoseconds since 1970 (utime_t). The zero
// time, and what 32 bits of seconds cannot hold, become the nearest they can.
func (e *Encoder) Time(t time.Time) {
	if t.IsZero() || t.Unix() < 0 {
		e.Uint64(0)
		return
	}
	if t.Unix() > 1<<32-1 {
		e.Uint32(1<<32 - 1)
		e.Uint32(999_999_999)
		return
	}
	e.Uint32(uint32(t.Unix()))
	e.Uint32(uint32(t.Nanosecond()))
}

// FSID reads the 16 bytes of a cluster's id (uuid_d).
func (d *Decoder) FSID(field string) uuid.UUID {
	var u uuid.UUID
	copy(u[:], d.take(field, len(u)))
	return u
}

// FSID appends the 16 bytes of a cluster's id (uuid_d).
func (e *Encoder) FSID(u uuid.UUID) { e.Raw(u[:]) }

// EntityType is a kind of daemon, or a client (ceph/ceph
// src/include/msgr.h, CEPH_ENTITY_TYPE_*). The values are bits.
type EntityType uint8

// The entity types.
const (
	TypeMon    EntityType = 0x01
	TypeMDS    EntityType = 0x02
	TypeOSD    EntityType = 0x04
	TypeClient EntityType = 0x08
	TypeMgr    EntityType = 0x10
	TypeAuth   EntityType = 0x20 // the service that gives tickets
)

// String returns Ceph's name of t: mon, mds, osd, client, mgr, auth.
func (t EntityType) String() string {
	switch t {
	case TypeMon:
		return "mon"
	case TypeMDS:
		return "mds"
	case TypeOSD:
		return "osd"
	case TypeClient:
		return "client"
	case TypeMgr:
		return "mgr"
	case TypeAuth:
		return "auth"
	}
	return "type" + strconv.Itoa(int(t))
}

// NoNum is the number of a name that has none yet: a client before a monitor
// gave it a global id.
const NoNum = -1

// Name is the numbered name of an instance (entity_name_t): osd.3,
// client.4711.
type Name struct {
	Type EntityType
	Num  int64
}

// String returns n as Ceph prints it.
func (n Name) String() string {
	if n.Num < 0 {
		return n.Type.String() + ".?"
	}
	return n.Type.String() + "." + strconv.FormatInt(n.Num, 10)
}

// Name reads an entity_name_t.
func (d *Decoder) Name(field string) Name {
	return Name{Type: EntityType(d.Uint8(field)), Num: d.Int64(field)}
}

// Name appends an entity_name_t.
func (e *Encoder) Name(n Name) {
	e.Uint8(uint8(n.Type))
	e.Int64(n.Num)
}

// EntityName is the name something authenticates as (EntityName of
// src/common/entity_name.h): client.admin, mon., osd.0.
type EntityName struct {
	Type EntityType
	ID   string
}

// String returns n as it stands in a keyring.
func (n EntityName) String() string { return n.Type.String() + "." + n.ID }

// ParseEntityName reads type.id, as it stands in a keyring or behind --name.
func ParseEntityName(s string) (EntityName, error) {
	kind, id, ok := strings.Cut(s, ".")
	if ok {
		for _, t := range []EntityType{TypeClient, TypeMon, TypeOSD, TypeMDS, TypeMgr, TypeAuth} {
			if kind == t.String() {
				return EntityName{t, id}, nil
			}
		}
	}
	return EntityName{}, fmt.Errorf("entity name %q: want type.id, such as client.admin", s)
}

// EntityName reads a type of 32 bits and an id.
func (d *Decoder) EntityName(field string) EntityName {
	t := d.Uint32(field)
	if d.err == nil && t > 0xff {
		d.Fail(field, ErrValue)
	}
	return EntityName{Type: EntityType(t), ID: d.String(field)}
}

// EntityName appends a type of 32 bits and an id.
func (e *Encoder) EntityName(n EntityName) {
	e.Uint32(uint32(n.Type))
	e.String(n.ID)
}
