//go:build !linux

package billyfs

import "os"

// infoOfSys knows no other system's FileInfo.Sys.
func infoOfSys(os.FileInfo) (Info, bool) { return Info{}, false }
