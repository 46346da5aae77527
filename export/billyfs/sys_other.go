//go:build !linux

package billyfs

import (
	"os"

	"capstan/export"
)

// infoOfSys knows no other system's FileInfo.Sys.
func infoOfSys(os.FileInfo) (Info, bool) { return Info{}, false }

func sysOf(*export.Attr) any { return nil }
