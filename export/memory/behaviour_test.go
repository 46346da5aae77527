package memory

import (
	"testing"

	"capstan/export"
	"capstan/export/exporttest"
)

func TestBehaviour(t *testing.T) {
	exporttest.Run(t, exporttest.Config{
		New: func(t testing.TB) export.Volume { return newVolume(t, Options{}) },
	})
}
