package mon

import "capstan/cephfs/denc"

// mgrMapVersion is the oldest compatible version that the decoder takes: the
// encodings of releases 14 to 20 say 6.
const mgrMapVersion = 11

// MgrMap says which manager is active.
type MgrMap struct {
	Epoch       uint32
	ActiveGID   uint64 // 0: none
	ActiveName  string // x of mgr.x
	ActiveAddrs denc.AddrVec
	Available   bool // it serves commands
}

// DecodeMgrMap reads the front of an MMgrMap.
func DecodeMgrMap(front []byte) (*MgrMap, error) {
	d := denc.NewDecoder(front)
	s := d.Struct("mgr_map", mgrMapVersion)
	m := &MgrMap{
		Epoch:       d.Uint32("epoch"),
		ActiveAddrs: d.AddrVec("active_addrs"),
		ActiveGID:   d.Uint64("active_gid"),
		Available:   d.Bool("available"),
		ActiveName:  d.String("active_name"),
	}
	d.End(s)
	if err := d.Err(); err != nil {
		return nil, err
	}
	return m, nil
}
