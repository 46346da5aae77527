package export

import "strings"

// Version is a version of NFS, as far as exports tell them apart.
type Version uint8

// The versions.
const (
	Version3 Version = iota
	Version40
	Version41
	Version42
)

var versionNames = [...]string{Version3: "3", Version40: "4.0", Version41: "4.1", Version42: "4.2"}

// String returns the version as written in the configuration: "4.1".
func (v Version) String() string {
	if int(v) < len(versionNames) {
		return versionNames[v]
	}
	return "?"
}

// ParseVersion is the inverse of [Version.String].
func ParseVersion(s string) (Version, bool) {
	for v, name := range versionNames {
		if s == name {
			return Version(v), true
		}
	}
	return 0, false
}

// VersionSet is a set of versions. The empty set, the zero value, stands for
// all of them.
type VersionSet uint8

// Versions returns the set of vs.
func Versions(vs ...Version) VersionSet {
	var s VersionSet
	for _, v := range vs {
		s |= 1 << v
	}
	return s
}

// Has reports whether v is in s.
func (s VersionSet) Has(v Version) bool { return s == 0 || s&(1<<v) != 0 }

// String lists the versions: "3,4.1,4.2".
func (s VersionSet) String() string {
	var b strings.Builder
	for v := range versionNames {
		if s.Has(Version(v)) {
			if b.Len() > 0 {
				b.WriteByte(',')
			}
			b.WriteString(versionNames[v])
		}
	}
	return b.String()
}
