package billyfs

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"capstan/export"
)

// infoOfSys reads the *syscall.Stat_t that osfs and its like have in
// FileInfo.Sys.
func infoOfSys(fi os.FileInfo) (Info, bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return Info{}, false
	}
	return Info{Attr: export.Attr{
		Type:   typeOf(fi.Mode()),
		Mode:   UnixMode(fi.Mode()),
		Nlink:  uint32(st.Nlink),
		UID:    st.Uid,
		GID:    st.Gid,
		Size:   uint64(st.Size),
		Used:   uint64(st.Blocks) * 512,
		Rdev:   export.Device{Major: unix.Major(uint64(st.Rdev)), Minor: unix.Minor(uint64(st.Rdev))},
		FileID: st.Ino,
		Atime:  export.Timespec{Sec: int64(st.Atim.Sec), Nsec: uint32(st.Atim.Nsec)},
		Mtime:  export.Timespec{Sec: int64(st.Mtim.Sec), Nsec: uint32(st.Mtim.Nsec)},
		Ctime:  export.Timespec{Sec: int64(st.Ctim.Sec), Nsec: uint32(st.Ctim.Nsec)},
	}}, true
}
