package nfs3

import "capstan/server/xdr"

// procedure is a row of the procedure table. After run has returned OK the
// reply is the status and what encode appends (resok), after anything else it
// is the status and what fail appends (resfail).
type procedure struct {
	name   string
	decode func(*call, *xdr.Decoder)
	run    func(*call) Status // nil for NULL, which has no status
	encode func(*call)
	fail   func(*call)
}

// procedures is indexed by procedure number (RFC 1813 section 3.3).
var procedures = [...]procedure{
	0:  {"NULL", func(*call, *xdr.Decoder) {}, nil, nil, nil},
	1:  {"GETATTR", decodeObject, (*call).getAttr, (*call).encodeGetAttr, failVoid},
	2:  {"SETATTR", decodeSetAttrArgs, (*call).setAttr, failWcc, failWcc},
	3:  {"LOOKUP", decodeLookup, (*call).lookup, (*call).encodeLookup, failPost},
	4:  {"ACCESS", decodeAccess, (*call).access, (*call).encodeAccess, failPost},
	5:  {"READLINK", decodeObject, (*call).readLink, (*call).encodeReadLink, failPost},
	6:  {"READ", decodeRead, (*call).read, (*call).encodeRead, failPost},
	7:  {"WRITE", decodeWrite, (*call).write, (*call).encodeWrite, failWcc},
	8:  {"CREATE", decodeCreate, (*call).create, (*call).encodeCreated, failWcc},
	9:  {"MKDIR", decodeMkdir, (*call).mkdir, (*call).encodeCreated, failWcc},
	10: {"SYMLINK", decodeSymlink, (*call).symlink, (*call).encodeCreated, failWcc},
	11: {"MKNOD", decodeMknod, (*call).mknod, (*call).encodeCreated, failWcc},
	12: {"REMOVE", decodeRemove, (*call).remove, failWcc, failWcc},
	13: {"RMDIR", decodeRemove, (*call).rmdir, failWcc, failWcc},
	14: {"RENAME", decodeRename, (*call).rename, failRename, failRename},
	15: {"LINK", decodeLink, (*call).link, failLink, failLink},
	16: {"READDIR", decodeReadDir, (*call).readDir, encodeDone, failPost},
	17: {"READDIRPLUS", decodeReadDirPlus, (*call).readDirPlus, encodeDone, failPost},
	18: {"FSSTAT", decodeObject, (*call).fsStat, (*call).encodeFSStat, failPost},
	19: {"FSINFO", decodeObject, (*call).fsInfo, (*call).encodeFSInfo, failPost},
	20: {"PATHCONF", decodeObject, (*call).pathConf, (*call).encodePathConf, failPost},
	21: {"COMMIT", decodeCommit, (*call).commit, (*call).encodeCommit, failWcc},
}

// The shapes of resfail, some of which are the resok too.

func failVoid(*call) {}

func failPost(c *call) { c.encodePostAttr(0) }

func failWcc(c *call) { c.encodeWcc(0) }

func failRename(c *call) { c.encodeWcc(0); c.encodeWcc(1) }

func failLink(c *call) { c.encodePostAttr(0); c.encodeWcc(1) }

// encodeDone is for procedures whose run has encoded the resok itself.
func encodeDone(*call) {}
