//go:build !race

package crush

// every is the share of the recorded mappings that tests do: all.
const every = 1
