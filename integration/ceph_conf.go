package integration

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// newCephKey makes a cephx secret: type, creation time, length, random bytes; little-endian, base64. Up to release 19
// the type is 1 (AES, 16 bytes), from 20 on it is 2 (aes256k, 32 bytes).
func newCephKey(major int) string {
	kind, size := uint16(1), 16
	if major >= 20 {
		kind, size = 2, 32
	}
	b := binary.LittleEndian.AppendUint16(nil, kind)
	now := time.Now()
	b = binary.LittleEndian.AppendUint32(b, uint32(now.Unix()))
	b = binary.LittleEndian.AppendUint32(b, uint32(now.Nanosecond()))
	b = binary.LittleEndian.AppendUint16(b, uint16(size))
	key := make([]byte, size)
	_, _ = rand.Read(key) // never fails
	return base64.StdEncoding.EncodeToString(append(b, key...))
}

// newUUID makes a random UUID in text.
func newUUID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

type keyringEntry struct {
	entity string // "client.admin"
	key    string
	caps   []string // service, capability, service, ...
}

func (e keyringEntry) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[%s]\n\tkey = %s\n", e.entity, e.key)
	for i := 0; i+1 < len(e.caps); i += 2 {
		fmt.Fprintf(&b, "\tcaps %s = %q\n", e.caps[i], e.caps[i+1])
	}
	return b.String()
}

// writeKeyring writes every key of a new cluster into one file: the monitors import it when they make their
// stores, so no key needs a command later.
func writeKeyring(path string, entries []keyringEntry) error {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.String())
	}
	return os.WriteFile(path, []byte(b.String()), 0o600)
}

// writeConf writes ceph.conf.
func (c *Cluster) writeConf() error {
	mode := "crc secure"
	if c.opts.Secure {
		mode = "secure"
	}
	store := string(c.opts.Store)
	global := map[string]string{
		"fsid":                  c.fsid,
		"mon host":              strings.Join(c.monHosts(), " "),
		"auth cluster required": "cephx",
		"auth service required": "cephx",
		"auth client required":  "cephx",
		"ms cluster mode":       mode,
		"ms service mode":       mode,
		"ms client mode":        mode,
		"public addr":           c.ip,
		"keyring":               c.path("keyring"),
		"run dir":               c.path("run"),
		"admin socket":          c.path("run/$name.asok"),
		"pid file":              "",
		"log file":              c.path("log/$name.log"),
		"mon data":              c.path("mon.$id"),
		"mgr data":              c.path("mgr.$id"),
		"mds data":              c.path("mds.$id"),
		"osd data":              c.path("osd.$id"),
		"crash dir":             c.path("crash"),

		"osd objectstore":           store,
		"memstore device bytes":     fmt.Sprint(int64(c.opts.StoreMB) << 20),
		"bluestore block size":      fmt.Sprint(int64(c.opts.StoreMB) << 20),
		"bluestore block create":    "true",
		"osd memory target":         "939524096",
		"osd class load list":       "*",
		"osd class default list":    "*",
		"osd crush chooseleaf type": "0",

		"osd pool default size":              fmt.Sprint(c.opts.Replicas),
		"osd pool default min size":          "1",
		"osd pool default pg num":            "8",
		"osd pool default pg autoscale mode": "off",

		// A lab on a full disk or with one copy is no reason for warnings, let alone for a monitor to give up.
		"mon allow pool size one":                        "true",
		"mon allow pool delete":                          "true",
		"mon warn on pool no redundancy":                 "false",
		"mon warn on insecure global id reclaim":         "false",
		"mon warn on insecure global id reclaim allowed": "false",
		"mon data avail crit":                            "0",
		"mon data avail warn":                            "0",
		"mon max pg per osd":                             "10000",
		"mon pg warn min per osd":                        "0",

		// Quick decisions: start-up is mostly waiting for these.
		"paxos propose interval": "0.1",
		"paxos min wait":         "0.02",
		"mon tick interval":      "1",
		"mds beacon interval":    "1",
		"mgr stats period":       "1",
		// For a minute after an election monitors would not miss an MDS.
		"mds beacon mon down grace": "2",
		"mgr initial modules":       "",
	}
	if c.opts.Tree != "" {
		// The built-in value is relative, and does not lead there.
		global["osd class dir"] = "/usr/lib/x86_64-linux-gnu/rados-classes"
	}
	for k, v := range c.opts.Config {
		global[strings.ReplaceAll(k, "_", " ")] = v
	}
	keys := make([]string, 0, len(global))
	for k := range global {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	var b strings.Builder
	b.WriteString("[global]\n")
	for _, k := range keys {
		fmt.Fprintf(&b, "%s = %s\n", k, global[k])
	}
	fmt.Fprintf(&b, "[client]\nadmin socket = %s\nlog file = %s\n", c.path("run/$name.$pid.$cctid.asok"), c.path("log/$name.$pid.log"))
	return os.WriteFile(c.ConfPath(), []byte(b.String()), 0o644)
}

// monHosts returns the monitors' addresses in the form of "mon host".
func (c *Cluster) monHosts() []string {
	var l []string
	for _, m := range c.mons {
		l = append(l, fmt.Sprintf("[v2:%s:%d,v1:%s:%d]", c.ip, m.v2, c.ip, m.v1))
	}
	return l
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }
