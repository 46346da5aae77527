package msgr

// Feature is a bit of CEPH_FEATURE_* (ceph/ceph src/include/ceph_features.h).
// Bits that were given a second meaning count only together with the bits that
// mark the incarnation: ask with [Has].
type Feature uint64

// The features that a client looks at.
const (
	incarnation2 Feature = 1 << 57            // all bits of release 10 are in use
	incarnation3 Feature = 1<<57 | 1<<28      // all bits of release 13 are in use
	addr2        Feature = 1 << 59            // MSG_ADDR2: address vectors
	cephxV2      Feature = 1 << 61            // CEPHX_V2: authorizers with a challenge
	known16      Feature = 0x3f01cfbdfffdffff // what 16.2 says it supports

	// FeatureLuminous to FeatureTentacle mark the releases 12 to 20.
	FeatureLuminous Feature = 1<<21 | incarnation2
	FeatureMimic    Feature = 1<<28 | incarnation2
	FeatureNautilus Feature = 1<<2 | incarnation3
	FeatureOctopus  Feature = 1<<16 | incarnation3
	FeaturePacific  Feature = 1<<20 | incarnation3
	FeatureQuincy   Feature = 1<<33 | incarnation3
	FeatureReef     Feature = 1<<31 | incarnation3
	FeatureSquid    Feature = 1<<49 | incarnation2
	FeatureTentacle Feature = 1<<50 | incarnation2

	// FeatureRangeBlocklist: blocklists may hold networks.
	FeatureRangeBlocklist Feature = 1<<34 | incarnation3
)

const (
	// DefaultFeatures are those of release 20: all that a client meets in the
	// encodings of the maps and messages of releases 16 to 20.
	DefaultFeatures = uint64(known16 | FeatureQuincy | FeatureReef | FeatureSquid | FeatureTentacle)
	// RequiredFeatures are what this client cannot do without: release 14,
	// whose address vectors messenger 2 needs.
	RequiredFeatures = uint64(addr2 | FeatureNautilus)
)

// Has reports whether features, as [Conn.Features] gives them, hold f.
func Has(features uint64, f Feature) bool { return Feature(features)&f == f }
