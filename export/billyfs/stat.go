package billyfs

import (
	"os"
	"time"

	"capstan/export"
)

// objectOf returns the Object of what info describes. The generation travels
// in NameHash, which is free in the live filesystem: it is the same for all
// names of an inode, so that all handles of an inode are equal, and differs
// once the number is used for another object.
func objectOf(info *Info) export.Object {
	return export.Object{Ino: info.FileID, Snap: export.SnapHead, NameHash: info.Generation}
}

func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// stat returns what the filesystem knows of path, which is the entry ref of
// its directory (the zero nameRef: the root). Change is not
// filled in; see attr.
func (v *Volume) stat(ref nameRef, path string, mask export.AttrMask) (Info, error) {
	if v.ext.inoder != nil {
		// Ctime always: the change attribute is made from it.
		return v.ext.inoder.LstatInode(path, mask)
	}
	var fi os.FileInfo
	var err error
	if path == "." && v.plain {
		fi, err = v.fs.Stat(path)
		if export.StatusOf(err) == export.ErrNoEnt {
			fi, err = emptyRoot{}, nil
		}
	} else {
		fi, err = v.fs.Lstat(path)
	}
	if err != nil {
		return Info{}, err
	}
	if info, ok := infoOfSys(fi); ok {
		return info, nil
	}
	return v.plainInfo(ref, path, fi), nil
}

// plainInfo makes up what a filesystem without inodes does not tell.
func (v *Volume) plainInfo(ref nameRef, path string, fi os.FileInfo) Info {
	info := Info{Attr: export.Attr{Type: typeOf(fi.Mode()), Nlink: 1, Size: uint64(fi.Size())}}
	if info.Type == export.TypeDirectory {
		info.Nlink = 2
		info.Size = 4096
	}
	info.Used = (info.Size + 511) &^ 511
	own := func() ownAttr {
		at := fi.ModTime()
		if at.IsZero() {
			at = v.opt.now()
		}
		t := export.TimespecOf(at)
		return ownAttr{mode: UnixMode(fi.Mode()), uid: v.opt.UID, gid: v.opt.GID, atime: t, mtime: t, ctime: t, btime: t}
	}
	if path == "." {
		info.FileID = rootID
	} else {
		info.FileID = v.table.assign(ref, own)
	}
	o, ok := v.table.own(info.FileID)
	if !ok {
		o = own()
		v.table.keepOwn(info.FileID, o)
	}
	if info.Type == export.TypeSymlink {
		o.mode = 0o777
	}
	info.Mode, info.UID, info.GID = o.mode, o.uid, o.gid
	info.Atime, info.Mtime, info.Ctime, info.Btime = o.atime, o.mtime, o.ctime, o.btime
	return info
}

// touch moves the times we keep for an object of a filesystem without inodes.
func (v *Volume) touch(ino uint64, data bool) {
	if !v.plain {
		return
	}
	now := export.TimespecOf(v.opt.now())
	v.table.setOwn(ino, func(o *ownAttr) {
		o.ctime = now
		if data {
			o.mtime = now
		}
	})
}

// changed notes a change of ours to an object: of its data or entries, or of
// its attributes alone. It returns what [table.changed] does.
func (v *Volume) changed(o export.Object, data bool) (before, this uint64) {
	v.touch(o.Ino, data)
	return v.table.changed(o.Ino, o.NameHash)
}

// attr makes the attributes of an observation that began at seq ready for a
// client.
func (v *Volume) attr(info *Info, seq uint64) export.Attr {
	a := info.Attr
	a.Change = v.table.observe(a.FileID, info.Generation, seq, stampOf(info))
	return a
}

func stampOf(info *Info) uint64 {
	if info.Stamp != 0 {
		return info.Stamp
	}
	return uint64(info.Ctime.Sec)*1e9 + uint64(info.Ctime.Nsec)
}

// emptyRoot stands for the root of a filesystem that has none before something
// is in it.
type emptyRoot struct{}

func (emptyRoot) Name() string       { return "." }
func (emptyRoot) Size() int64        { return 0 }
func (emptyRoot) Mode() os.FileMode  { return os.ModeDir | 0o755 }
func (emptyRoot) ModTime() time.Time { return time.Time{} }
func (emptyRoot) IsDir() bool        { return true }
func (emptyRoot) Sys() any           { return nil }
