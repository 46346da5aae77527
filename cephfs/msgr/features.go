package msgr

// RequiredFeatures and DefaultFeatures are placeholders until features.go is complete.
const (
	RequiredFeatures uint64 = 1 << 59
	DefaultFeatures  uint64 = 0x3f01cfbffffdffff
)
