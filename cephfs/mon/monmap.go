package mon

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"capstan/cephfs/denc"
)

// monMapVersion is the newest known encoding of a monmap, of release 16.
const monMapVersion = 9

// MonMap is the list of the cluster's monitors.
type MonMap struct {
	Epoch      uint32
	FSID       uuid.UUID // of the cluster
	Changed    time.Time
	Created    time.Time
	Monitors   []Monitor // by rank
	MinRelease uint8     // the oldest release that monitors may be of; 0 if not known
}

// Monitor is one monitor of a [MonMap].
type Monitor struct {
	Name     string // a of mon.a
	Addrs    denc.AddrVec
	Priority uint16 // those with the lowest are preferred
	Weight   uint16 // of two with the same priority, how often it is chosen
}

// Find returns the monitor of the given name.
func (m *MonMap) Find(name string) (Monitor, bool) {
	for _, mon := range m.Monitors {
		if mon.Name == name {
			return mon, true
		}
	}
	return Monitor{}, false
}

// FindAddr returns the monitor with the given address.
func (m *MonMap) FindAddr(a denc.Addr) (Monitor, bool) {
	for _, mon := range m.Monitors {
		for _, b := range mon.Addrs {
			if a.Host == b.Host && a.Type == b.Type {
				return mon, true
			}
		}
	}
	return Monitor{}, false
}

// DecodeMonMap reads a monmap of release 14 or later, or one with the older
// form of addresses (MonMap::decode).
func DecodeMonMap(b []byte) (*MonMap, error) {
	d := denc.NewDecoder(b)
	s := d.Struct("monmap", monMapVersion)
	m := &MonMap{FSID: d.FSID("fsid"), Epoch: d.Uint32("epoch")}
	legacy := map[string]denc.Addr{}
	if s.Version < 6 {
		for range d.Count("mon_addr", 4+1) {
			name := d.String("mon_addr.name")
			legacy[name] = d.Addr("mon_addr.addr")
		}
	}
	m.Changed, m.Created = d.Time("last_changed"), d.Time("created")
	if s.Version >= 4 {
		skipFeatures(d, "persistent_features")
		skipFeatures(d, "optional_features")
	}
	infos := map[string]Monitor{}
	if s.Version >= 5 {
		for range d.Count("mon_info", 4+6) {
			name := d.String("mon_info.key")
			infos[name] = decodeMonitor(d)
		}
	} else {
		for name, a := range legacy {
			infos[name] = Monitor{Name: name, Addrs: denc.AddrVec{a}}
		}
	}
	var ranks []string
	if s.Version >= 6 {
		ranks = make([]string, d.Count("ranks", 4))
		for i := range ranks {
			ranks[i] = d.String("ranks")
		}
	}
	if s.Version >= 7 {
		m.MinRelease = d.Uint8("min_mon_release")
	}
	d.End(s)
	if err := d.Err(); err != nil {
		return nil, err
	}
	for _, name := range ranks {
		if info, ok := infos[name]; ok {
			m.Monitors = append(m.Monitors, info)
			delete(infos, name)
		}
	}
	var rest []Monitor
	for name, info := range infos {
		info.Name = name
		rest = append(rest, info)
	}
	slices.SortFunc(rest, func(a, b Monitor) int { return strings.Compare(a.Name, b.Name) })
	m.Monitors = append(m.Monitors, rest...)
	return m, nil
}

// decodeMonitor reads a mon_info_t.
func decodeMonitor(d *denc.Decoder) Monitor {
	s := d.Struct("mon_info", 1)
	m := Monitor{Name: d.String("name"), Addrs: d.AddrVec("public_addrs")}
	if s.Version >= 2 {
		m.Priority = d.Uint16("priority")
	}
	if s.Version >= 4 {
		m.Weight = d.Uint16("weight")
	}
	d.End(s)
	return m
}

func skipFeatures(d *denc.Decoder, name string) {
	s := d.Struct(name, 1)
	d.End(s)
}
