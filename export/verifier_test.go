package export

import (
	"testing"
	"time"
)

func TestVerifierNeverRepeats(t *testing.T) {
	now := time.Unix(1e9, 5)
	random := [16]byte{1, 2, 3}
	seen := map[[8]byte]bool{}
	take := func(s *VerifierSource) {
		t.Helper()
		for range 100 {
			v := s.Verifier()
			if v != s.Verifier() {
				t.Error("changed by itself")
			}
			if seen[v] {
				t.Errorf("%x once more", v)
			}
			seen[v] = true
			s.Roll()
		}
	}
	take(newVerifierSource(random, now, 1))
	take(newVerifierSource(random, now, 2))                 // within one tick, another process
	take(newVerifierSource(random, now.Add(1), 1))          // the next tick
	take(newVerifierSource(random, now.Add(-time.Hour), 1)) // the clock set back
	take(newVerifierSource([16]byte{1, 2, 4}, now, 1))      // all else equal
	for range 10 {
		take(NewVerifierSource())
	}
}
