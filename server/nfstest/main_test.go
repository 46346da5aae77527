package nfstest

import (
	"testing"

	"capstan/internal/testutil"
)

func TestMain(m *testing.M) { testutil.VerifyMain(m) }
