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

	once bool // not idempotent: a call sent again gets the reply it had
}

// procedures is indexed by procedure number (RFC 1813 section 3.3).
var procedures = [...]procedure{
	0:  {"NULL", decodeVoid, nil, nil, nil, false},
	1:  {"GETATTR", decodeObject, (*call).getAttr, (*call).encodeGetAttr, failVoid, false},
	2:  {"SETATTR", decodeSetAttrArgs, (*call).setAttr, failWcc, failWcc, true},
	3:  {"LOOKUP", decodeLookup, (*call).lookup, (*call).encodeLookup, failPost, false},
	4:  {"ACCESS", decodeAccess, (*call).access, (*call).encodeAccess, failPost, false},
	5:  {"READLINK", decodeObject, (*call).readLink, (*call).encodeReadLink, failPost, false},
	6:  {"READ", decodeRead, (*call).read, (*call).encodeRead, failPost, false},
	7:  {"WRITE", decodeWrite, (*call).write, (*call).encodeWrite, failWcc, false},
	8:  {"CREATE", decodeCreate, (*call).create, (*call).encodeCreated, failWcc, true},
	9:  {"MKDIR", decodeMkdir, (*call).mkdir, (*call).encodeCreated, failWcc, true},
	10: {"SYMLINK", decodeSymlink, (*call).symlink, (*call).encodeCreated, failWcc, true},
	11: {"MKNOD", decodeMknod, (*call).mknod, (*call).encodeCreated, failWcc, true},
	12: {"REMOVE", decodeRemove, (*call).remove, failWcc, failWcc, true},
	13: {"RMDIR", decodeRemove, (*call).rmdir, failWcc, failWcc, true},
	14: {"RENAME", decodeRename, (*call).rename, failRename, failRename, true},
	15: {"LINK", decodeLink, (*call).link, failLink, failLink, true},
	16: {"READDIR", decodeReadDir, (*call).readDir, encodeDone, failPost, false},
	17: {"READDIRPLUS", decodeReadDirPlus, (*call).readDirPlus, encodeDone, failPost, false},
	18: {"FSSTAT", decodeObject, (*call).fsStat, (*call).encodeFSStat, failPost, false},
	19: {"FSINFO", decodeObject, (*call).fsInfo, (*call).encodeFSInfo, failPost, false},
	20: {"PATHCONF", decodeObject, (*call).pathConf, (*call).encodePathConf, failPost, false},
	21: {"COMMIT", decodeCommit, (*call).commit, (*call).encodeCommit, failWcc, false},
}

func decodeVoid(*call, *xdr.Decoder) {}

// The shapes of resfail, some of which are the resok too.

func failVoid(*call) {}

func failPost(c *call) { c.encodePostAttr(0) }

func failWcc(c *call) { c.encodeWcc(0) }

func failRename(c *call) { c.encodeWcc(0); c.encodeWcc(1) }

func failLink(c *call) { c.encodePostAttr(0); c.encodeWcc(1) }

// encodeDone is for procedures whose run has encoded the resok itself.
func encodeDone(*call) {}
