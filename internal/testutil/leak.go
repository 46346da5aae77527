package testutil

import (
	"testing"

	"go.uber.org/goleak"
)

// NoLeaks has the test fail if goroutines started in it still run at its end,
// after the cleanups registered later than this call. Not for parallel tests.
func NoLeaks(t testing.TB) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		t.Helper()
		goleak.VerifyNone(t, before)
	})
}

// VerifyMain runs the tests of a package and fails if goroutines are left at the
// end: for TestMain.
func VerifyMain(m *testing.M) { goleak.VerifyTestMain(m) }
