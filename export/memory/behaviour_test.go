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

func TestModel(t *testing.T) {
	exporttest.RunModel(t, exporttest.Config{
		New: func(t testing.TB) export.Volume { return newVolume(t, Options{}) },
	})
}

// TestPair compares a Volume with room and one that is nearly bare of it, whose
// data never fill it.
func TestPair(t *testing.T) {
	config := func(opt Options) exporttest.Config {
		return exporttest.Config{New: func(t testing.TB) export.Volume { return newVolume(t, opt) }}
	}
	exporttest.RunPair(t, config(Options{}), config(Options{MaxBytes: 16 << 20, MaxFiles: 100}))
}
