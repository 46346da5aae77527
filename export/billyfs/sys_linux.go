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

// sysOf is the inverse of infoOfSys.
func sysOf(a *export.Attr) any {
	format := map[export.FileType]uint32{
		export.TypeRegular: unix.S_IFREG, export.TypeDirectory: unix.S_IFDIR, export.TypeBlock: unix.S_IFBLK,
		export.TypeChar: unix.S_IFCHR, export.TypeSymlink: unix.S_IFLNK, export.TypeSocket: unix.S_IFSOCK,
		export.TypeFIFO: unix.S_IFIFO,
	}[a.Type]
	st := &syscall.Stat_t{
		Ino: a.FileID, Mode: format | a.Mode, Uid: a.UID, Gid: a.GID,
		Rdev: unix.Mkdev(a.Rdev.Major, a.Rdev.Minor), Size: int64(a.Size), Blocks: int64((a.Used + 511) / 512), Blksize: 4096,
		Atim: syscall.NsecToTimespec(a.Atime.Time().UnixNano()),
		Mtim: syscall.NsecToTimespec(a.Mtime.Time().UnixNano()),
		Ctim: syscall.NsecToTimespec(a.Ctime.Time().UnixNano()),
	}
	nlink(&st.Nlink, a.Nlink)
	return st
}

// nlink sets a field whose type differs between architectures.
func nlink[T uint32 | uint64](field *T, n uint32) { *field = T(n) }
