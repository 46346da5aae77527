package nfsv4

import "strconv"

// The attributes, as FATTR4_* in RFC 7531, RFC 5662, RFC 7863, RFC 8275 and
// RFC 8276: bit numbers of a [Bitmap].
const (
	AttrSupportedAttrs   uint32 = 0
	AttrType             uint32 = 1
	AttrFHExpireType     uint32 = 2
	AttrChange           uint32 = 3
	AttrSize             uint32 = 4
	AttrLinkSupport      uint32 = 5
	AttrSymlinkSupport   uint32 = 6
	AttrNamedAttr        uint32 = 7
	AttrFSID             uint32 = 8
	AttrUniqueHandles    uint32 = 9
	AttrLeaseTime        uint32 = 10
	AttrRdAttrError      uint32 = 11
	AttrACL              uint32 = 12
	AttrACLSupport       uint32 = 13
	AttrArchive          uint32 = 14
	AttrCanSetTime       uint32 = 15
	AttrCaseInsensitive  uint32 = 16
	AttrCasePreserving   uint32 = 17
	AttrChownRestricted  uint32 = 18
	AttrFileHandle       uint32 = 19
	AttrFileID           uint32 = 20
	AttrFilesAvail       uint32 = 21
	AttrFilesFree        uint32 = 22
	AttrFilesTotal       uint32 = 23
	AttrFSLocations      uint32 = 24
	AttrHidden           uint32 = 25
	AttrHomogeneous      uint32 = 26
	AttrMaxFileSize      uint32 = 27
	AttrMaxLink          uint32 = 28
	AttrMaxName          uint32 = 29
	AttrMaxRead          uint32 = 30
	AttrMaxWrite         uint32 = 31
	AttrMimeType         uint32 = 32
	AttrMode             uint32 = 33
	AttrNoTrunc          uint32 = 34
	AttrNumLinks         uint32 = 35
	AttrOwner            uint32 = 36
	AttrOwnerGroup       uint32 = 37
	AttrQuotaAvailHard   uint32 = 38
	AttrQuotaAvailSoft   uint32 = 39
	AttrQuotaUsed        uint32 = 40
	AttrRawDev           uint32 = 41
	AttrSpaceAvail       uint32 = 42
	AttrSpaceFree        uint32 = 43
	AttrSpaceTotal       uint32 = 44
	AttrSpaceUsed        uint32 = 45
	AttrSystem           uint32 = 46
	AttrTimeAccess       uint32 = 47
	AttrTimeAccessSet    uint32 = 48
	AttrTimeBackup       uint32 = 49
	AttrTimeCreate       uint32 = 50
	AttrTimeDelta        uint32 = 51
	AttrTimeMetadata     uint32 = 52
	AttrTimeModify       uint32 = 53
	AttrTimeModifySet    uint32 = 54
	AttrMountedOnFileID  uint32 = 55
	AttrDirNotifDelay    uint32 = 56
	AttrDirentNotifDelay uint32 = 57
	AttrDACL             uint32 = 58
	AttrSACL             uint32 = 59
	AttrChangePolicy     uint32 = 60
	AttrFSStatus         uint32 = 61
	AttrFSLayoutTypes    uint32 = 62
	AttrLayoutHint       uint32 = 63
	AttrLayoutTypes      uint32 = 64
	AttrLayoutBlkSize    uint32 = 65
	AttrLayoutAlignment  uint32 = 66
	AttrFSLocationsInfo  uint32 = 67
	AttrMDSThreshold     uint32 = 68
	AttrRetentionGet     uint32 = 69
	AttrRetentionSet     uint32 = 70
	AttrRetentEvtGet     uint32 = 71
	AttrRetentEvtSet     uint32 = 72
	AttrRetentionHold    uint32 = 73
	AttrModeSetMasked    uint32 = 74
	AttrSupAttrExclCreat uint32 = 75
	AttrFSCharsetCap     uint32 = 76
	AttrCloneBlkSize     uint32 = 77
	AttrSpaceFreed       uint32 = 78
	AttrChangeAttrType   uint32 = 79
	AttrSecLabel         uint32 = 80
	AttrModeUmask        uint32 = 81
	AttrXattrSupport     uint32 = 82
	AttrOffline          uint32 = 83
	AttrTimeDelegAccess  uint32 = 84
	AttrTimeDelegModify  uint32 = 85
	AttrOpenArguments    uint32 = 86
	attrCount                   = 87
)

var attrNames = [attrCount]string{
	"supported_attrs", "type", "fh_expire_type", "change", "size", "link_support",
	"symlink_support", "named_attr", "fsid", "unique_handles", "lease_time", "rdattr_error",
	"acl", "aclsupport", "archive", "cansettime", "case_insensitive", "case_preserving",
	"chown_restricted", "filehandle", "fileid", "files_avail", "files_free", "files_total",
	"fs_locations", "hidden", "homogeneous", "maxfilesize", "maxlink", "maxname", "maxread",
	"maxwrite", "mimetype", "mode", "no_trunc", "numlinks", "owner", "owner_group",
	"quota_avail_hard", "quota_avail_soft", "quota_used", "rawdev", "space_avail", "space_free",
	"space_total", "space_used", "system", "time_access", "time_access_set", "time_backup",
	"time_create", "time_delta", "time_metadata", "time_modify", "time_modify_set",
	"mounted_on_fileid", "dir_notif_delay", "dirent_notif_delay", "dacl", "sacl",
	"change_policy", "fs_status", "fs_layout_types", "layout_hint", "layout_types",
	"layout_blksize", "layout_alignment", "fs_locations_info", "mdsthreshold", "retention_get",
	"retention_set", "retentevt_get", "retentevt_set", "retention_hold", "mode_set_masked",
	"suppattr_exclcreat", "fs_charset_cap", "clone_blksize", "space_freed", "change_attr_type",
	"sec_label", "mode_umask", "xattr_support", "offline", "time_deleg_access",
	"time_deleg_modify", "open_arguments",
}

// AttrName returns the RFC's name of attribute n: "mounted_on_fileid".
func AttrName(n uint32) string {
	if n < attrCount {
		return attrNames[n]
	}
	return "attribute " + strconv.FormatUint(uint64(n), 10)
}

// BitmapOf returns the bitmap of the given attributes, each below 96.
func BitmapOf(attrs ...uint32) (b Bitmap) {
	for _, n := range attrs {
		b.Set(n)
	}
	return b
}
