//go:build linux

package kernelsuite

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"capstan/export"
	"capstan/export/billyfs"
	"capstan/export/billyfs/localfs"
	"capstan/export/exporttest"
)

// The environment of the program.
const (
	envDir   = "KERNEL_SUITE_DIR"   // the mounted directory; without it there is nothing to test
	envKnown = "KERNEL_SUITE_KNOWN" // rows that fail through this mount, with the reason, as a JSON object
	envOnly  = "KERNEL_SUITE_ONLY"  // beginnings of the rows to run, separated by commas; empty for all
)

// TestKernel runs the suite through the kernel's client. A Volume over a
// directory adds handles and checks permission; files, names, attributes and
// their limits are what the mount makes of them.
func TestKernel(t *testing.T) {
	dir := os.Getenv(envDir)
	if dir == "" {
		t.Skip("no mounted directory: this program is run by the lab, in a guest")
	}
	known := map[string]string{}
	if s := os.Getenv(envKnown); s != "" {
		if err := json.Unmarshal([]byte(s), &known); err != nil {
			t.Fatal(err)
		}
	}
	c := exporttest.Config{
		New: func(t testing.TB) export.Volume {
			fs, err := localfs.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			v, err := billyfs.NewVolume(fs, billyfs.Options{Async: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := v.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if err := fs.Close(); err != nil {
					t.Error(err)
				}
			})
			return v
		},
		Known: known,
	}
	if s := os.Getenv(envOnly); s != "" {
		c.Only = strings.Split(s, ",")
	}
	exporttest.Run(t, c)
}
