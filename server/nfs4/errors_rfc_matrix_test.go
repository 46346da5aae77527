package nfs4_test

import (
	"slices"
	"strings"
	"testing"

	"capstan/server/nfs4/nfsv4"
)

// Groups of errors that stand together in the lists of the RFCs.
var rfcGroups = map[string]string{
	"$session": "DEADSESSION DELAY OP_NOT_IN_SESSION REP_TOO_BIG REP_TOO_BIG_TO_CACHE REQ_TOO_BIG RETRY_UNCACHED_REP SERVERFAULT TOO_MANY_OPS",
	"$alone":   "BADXDR DEADSESSION DELAY NOT_ONLY_OP REP_TOO_BIG REP_TOO_BIG_TO_CACHE REQ_TOO_BIG RETRY_UNCACHED_REP SERVERFAULT TOO_MANY_OPS",
	"$fh":      "FHEXPIRED MOVED NOFILEHANDLE STALE",
	"$name":    "ACCESS BADCHAR BADNAME INVAL NAMETOOLONG NOTDIR",
	"$id":      "ADMIN_REVOKED BAD_STATEID EXPIRED OLD_STATEID",
	"$data":    "ACCESS DELEG_REVOKED GRACE INVAL IO ISDIR SYMLINK WRONG_TYPE",
}

// rfcErrors is what the tables of RFC 8881 section 15.2 and RFC 7862 section
// 11.2 list, without the operations that are not offered. The lists of RFC 8276
// are not in one table, so its operations are not here.
var rfcErrors = map[string]string{
	"ACCESS":               "$session $fh ACCESS BADXDR INVAL IO",
	"BACKCHANNEL_CTL":      "BADXDR DEADSESSION DELAY INVAL NOENT OP_NOT_IN_SESSION REP_TOO_BIG REP_TOO_BIG_TO_CACHE REQ_TOO_BIG RETRY_UNCACHED_REP TOO_MANY_OPS",
	"BIND_CONN_TO_SESSION": "$alone BADSESSION BAD_SESSION_DIGEST INVAL",
	"CLOSE":                "$session $fh $id BADXDR LOCKS_HELD WRONG_CRED",
	"COMMIT":               "$session $fh ACCESS BADXDR IO ISDIR SYMLINK WRONG_TYPE",
	"CREATE":               "$session $fh $name ATTRNOTSUPP BADOWNER BADTYPE BADXDR DQUOT EXIST IO MLINK NOSPC PERM ROFS UNSAFE_COMPOUND",
	"CREATE_SESSION":       "$alone CLID_INUSE INVAL NOENT NOSPC SEQ_MISORDERED STALE_CLIENTID TOOSMALL WRONG_CRED",
	"DESTROY_CLIENTID":     "$alone CLIENTID_BUSY STALE_CLIENTID WRONG_CRED",
	"DESTROY_SESSION":      "$alone BACK_CHAN_BUSY BADSESSION CB_PATH_DOWN CONN_NOT_BOUND_TO_SESSION STALE_CLIENTID WRONG_CRED",
	"EXCHANGE_ID":          "$alone BADCHAR CLID_INUSE ENCR_ALG_UNSUPP HASH_ALG_UNSUPP INVAL NOENT NOT_SAME",
	"FREE_STATEID":         "$session BADXDR BAD_STATEID LOCKS_HELD OLD_STATEID WRONG_CRED",
	"GETATTR":              "$session $fh ACCESS BADXDR GRACE INVAL IO WRONG_TYPE",
	"GETFH":                "$fh OP_NOT_IN_SESSION",
	"ILLEGAL":              "BADXDR OP_ILLEGAL",
	"LINK":                 "$session $fh $name BADXDR DQUOT EXIST FILE_OPEN GRACE ISDIR IO MLINK NOSPC NOTSUPP ROFS SYMLINK WRONGSEC WRONG_TYPE XDEV",
	"LOCK":                 "$session $fh $id ACCESS BADXDR BAD_RANGE DEADLOCK DENIED GRACE INVAL ISDIR LOCK_NOTSUPP LOCK_RANGE NO_GRACE OPENMODE RECLAIM_BAD RECLAIM_CONFLICT ROFS SYMLINK WRONG_CRED WRONG_TYPE",
	"LOCKT":                "$fh ACCESS BADXDR BAD_RANGE DEADSESSION DELAY DENIED GRACE INVAL ISDIR LOCK_RANGE OP_NOT_IN_SESSION REP_TOO_BIG REP_TOO_BIG_TO_CACHE REQ_TOO_BIG RETRY_UNCACHED_REP ROFS SYMLINK TOO_MANY_OPS WRONG_CRED WRONG_TYPE",
	"LOCKU":                "$session $fh $id ACCESS BADXDR BAD_RANGE INVAL LOCK_RANGE WRONG_CRED",
	"LOOKUP":               "$session $fh $name BADXDR IO NOENT SYMLINK WRONGSEC",
	"LOOKUPP":              "$session $fh ACCESS IO NOENT NOTDIR SYMLINK WRONGSEC",
	"NVERIFY":              "$session $fh ACCESS ATTRNOTSUPP BADCHAR BADXDR GRACE INVAL IO SAME UNKNOWN_LAYOUTTYPE WRONG_TYPE",
	"OPEN":                 "$session $fh $name $id ATTRNOTSUPP BADOWNER BADXDR DELEG_ALREADY_WANTED DELEG_REVOKED DQUOT EXIST FBIG GRACE ISDIR IO NOENT NOSPC NO_GRACE PERM RECLAIM_BAD RECLAIM_CONFLICT ROFS SHARE_DENIED SYMLINK UNSAFE_COMPOUND WRONGSEC WRONG_TYPE",
	"OPEN_DOWNGRADE":       "$session $fh $id BADXDR INVAL ROFS WRONG_CRED",
	"PUTFH":                "$session BADHANDLE BADXDR MOVED STALE WRONGSEC",
	"PUTPUBFH":             "$session WRONGSEC",
	"PUTROOTFH":            "$session WRONGSEC",
	"READ":                 "$session $fh $id $data BADXDR LOCKED OPENMODE PNFS_IO_HOLE PNFS_NO_LAYOUT",
	"READDIR":              "$session $fh ACCESS BADXDR BAD_COOKIE INVAL IO NOTDIR NOT_SAME TOOSMALL",
	"READLINK":             "$session $fh ACCESS INVAL IO WRONG_TYPE",
	"RECLAIM_COMPLETE":     "$session $fh BADXDR COMPLETE_ALREADY INVAL WRONG_CRED WRONG_TYPE",
	"REMOVE":               "$session $fh $name BADXDR FILE_OPEN GRACE IO NOENT NOTEMPTY ROFS",
	"RENAME":               "$session $fh $name BADXDR DQUOT EXIST FILE_OPEN GRACE IO MLINK NOENT NOSPC NOTEMPTY ROFS WRONGSEC XDEV",
	"RESTOREFH":            "$fh DEADSESSION OP_NOT_IN_SESSION REP_TOO_BIG REP_TOO_BIG_TO_CACHE REQ_TOO_BIG RETRY_UNCACHED_REP SERVERFAULT TOO_MANY_OPS WRONGSEC",
	"SAVEFH":               "$fh DEADSESSION OP_NOT_IN_SESSION REP_TOO_BIG REP_TOO_BIG_TO_CACHE REQ_TOO_BIG RETRY_UNCACHED_REP SERVERFAULT TOO_MANY_OPS",
	"SECINFO":              "$session $fh $name BADXDR NOENT",
	"SECINFO_NO_NAME":      "$session $fh ACCESS BADXDR INVAL NOENT NOTDIR NOTSUPP",
	"SEQUENCE":             "BADSESSION BADSLOT BADXDR BAD_HIGH_SLOT CONN_NOT_BOUND_TO_SESSION DEADSESSION DELAY REP_TOO_BIG REP_TOO_BIG_TO_CACHE REQ_TOO_BIG RETRY_UNCACHED_REP SEQUENCE_POS SEQ_FALSE_RETRY SEQ_MISORDERED TOO_MANY_OPS",
	"SETATTR":              "$session $fh $id ACCESS ATTRNOTSUPP BADCHAR BADOWNER BADXDR DELEG_REVOKED DQUOT FBIG GRACE INVAL IO LOCKED NOSPC OPENMODE PERM ROFS UNKNOWN_LAYOUTTYPE WRONG_TYPE",
	"TEST_STATEID":         "$session BADXDR",
	"VERIFY":               "$session $fh ACCESS ATTRNOTSUPP BADCHAR BADXDR GRACE INVAL IO NOT_SAME UNKNOWN_LAYOUTTYPE WRONG_TYPE",
	"WRITE":                "$session $fh $id $data BADXDR DQUOT FBIG LOCKED NOSPC OPENMODE PNFS_IO_HOLE PNFS_NO_LAYOUT ROFS",

	"ALLOCATE":   "$session $fh $id $data BADXDR DQUOT FBIG NOSPC NOTSUPP OPENMODE ROFS",
	"DEALLOCATE": "$session $fh $id $data BADXDR FBIG NOTSUPP OPENMODE ROFS",
	"IO_ADVISE":  "$fh $id $data BADXDR DEADSESSION DELAY FBIG NOTSUPP OP_NOT_IN_SESSION RETRY_UNCACHED_REP SERVERFAULT TOO_MANY_OPS",
	"SEEK":       "$session $fh $id $data BADXDR LOCKED NOTSUPP OPENMODE PNFS_IO_HOLE PNFS_NO_LAYOUT UNION_NOTSUPP",
}

// beyond is what this server answers although the tables do not list it, and
// why that is right.
var beyond = map[string]map[string]string{
	"GETFH": {
		"DEADSESSION REP_TOO_BIG REP_TOO_BIG_TO_CACHE REQ_TOO_BIG RETRY_UNCACHED_REP SERVERFAULT TOO_MANY_OPS": "the limits of the session hold for any operation (section 2.10.6.4)"},
	"IO_ADVISE": {
		"REP_TOO_BIG REP_TOO_BIG_TO_CACHE REQ_TOO_BIG": "the limits of the session hold for any operation (section 2.10.6.4)"},
	"BACKCHANNEL_CTL": {"SERVERFAULT": "never answered, see the matrix"},
	"LOCKT":           {"SERVERFAULT": "nothing listed says that the filesystem could not be asked, and DELAY would never end"},
	"EXCHANGE_ID":     {"PERM": "asked for by section 18.35.4, case 9"},
	"SEEK":            {"NXIO": "asked for by RFC 7862 section 15.11.3"},
	"LINK":            {"NOENT": "an open file whose last name is gone; RFC 7530 lists it"},
	"COMMIT":          {"NOSPC DQUOT": "where a full filesystem shows up behind unstable writes; fsync then fails with the reason"},
	"ALLOCATE":        {"LOCKED": "a special stateid is subject to share reservations (section 8.2.3), and LOCKED says so"},
	"DEALLOCATE": {
		"LOCKED":      "a special stateid is subject to share reservations (section 8.2.3), and LOCKED says so",
		"DQUOT NOSPC": "to split an extent can take space; the program learns the reason"},
}

func expand(list string) (names []string) {
	for w := range strings.FieldsSeq(list) {
		if g, ok := rfcGroups[w]; ok {
			names = append(names, strings.Fields(g)...)
		} else {
			names = append(names, w)
		}
	}
	return names
}

// TestErrorsAreThoseOfTheRFCs compares the statuses that operations may answer
// with a transcript of the tables of the RFCs, made on its own.
func TestErrorsAreThoseOfTheRFCs(t *testing.T) {
	for _, o := range operations(t) {
		if !o.Supported && o.Op != nfsv4.OpIllegal {
			continue
		}
		list, ok := rfcErrors[o.Op.String()]
		if !ok {
			if !strings.Contains(o.Op.String(), "XATTR") {
				t.Errorf("%v is not in the transcript", o.Op)
			}
			continue
		}
		want := expand(list)
		for more, why := range beyond[o.Op.String()] {
			for name := range strings.FieldsSeq(more) {
				if slices.Contains(want, name) {
					t.Errorf("%v: %s is listed (%s)", o.Op, name, why)
				}
				want = append(want, name)
			}
		}
		var got []string
		for _, e := range o.Errors {
			got = append(got, strings.TrimPrefix(e.String(), "NFS4ERR_"))
		}
		for _, name := range want {
			if !slices.Contains(got, name) {
				t.Errorf("%v: %s is listed by the RFC and cannot be answered", o.Op, name)
			}
		}
		for _, name := range got {
			if !slices.Contains(want, name) {
				t.Errorf("%v: %s can be answered, and is not listed by the RFC", o.Op, name)
			}
		}
	}
}
