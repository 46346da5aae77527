package frame

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Features of the messenger itself, in the banner.
const (
	FeatureRevision1   uint64 = 1 << 0 // messenger 2.1
	FeatureCompression uint64 = 1 << 1
)

const (
	bannerPrefix   = "ceph v2\n"
	bannerLegacy   = "ceph v0"
	bannerHead     = len(bannerPrefix) + 2
	bannerPayload  = 16
	maxBannerBytes = 1024 // of payload; later versions may add to the 16
)

// Banner opens each direction of a stream.
type Banner struct{ Supported, Required uint64 }

// Append appends the banner's bytes.
func (b Banner) Append(to []byte) []byte {
	to = append(to, bannerPrefix...)
	to = binary.LittleEndian.AppendUint16(to, bannerPayload)
	to = binary.LittleEndian.AppendUint64(to, b.Supported)
	return binary.LittleEndian.AppendUint64(to, b.Required)
}

// Banner reads the peer's banner. A banner of messenger v1 is [ErrLegacy].
func (r *Reader) Banner() (Banner, error) {
	var head [bannerHead]byte
	if err := r.full(head[:]); err != nil {
		return Banner{}, err
	}
	if !bytes.HasPrefix(head[:], []byte(bannerPrefix)) {
		if bytes.HasPrefix(head[:], []byte(bannerLegacy)) {
			return Banner{}, &Error{What: "banner", Kind: ErrLegacy}
		}
		return Banner{}, &Error{What: "banner", Kind: ErrFormat}
	}
	n := int(binary.LittleEndian.Uint16(head[len(bannerPrefix):]))
	if n < bannerPayload || n > maxBannerBytes {
		return Banner{}, &Error{What: fmt.Sprintf("banner of %d bytes", n), Kind: ErrLength}
	}
	p := r.scratch(n)
	if err := r.full(p); err != nil {
		return Banner{}, err
	}
	return Banner{binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])}, nil
}
