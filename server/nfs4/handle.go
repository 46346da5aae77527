package nfs4

import (
	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfs4/state"
)

// handle is the current or the saved filehandle of a COMPOUND, with the
// stateid that goes with it (RFC 8881 section 16.2.3.1) and what the caller
// may do on its export.
type handle struct {
	set      bool
	hasState bool // an operation of this COMPOUND returned a stateid for it
	stateID  nfsv4.StateID
	node     export.Node
	rights   export.Rights
}

// vol is the Volume of the handle's object.
func (h *handle) vol() export.Volume { return h.node.Export.Volume }

// key names the handle's object in package state.
func (h *handle) key() state.FileKey {
	return state.FileKey{Export: h.node.Export.ID, Object: h.node.Object}
}

// setCurrent makes node the current filehandle, and forgets the stateid. The
// access rules are asked whenever another export is entered.
func (c *compound) setCurrent(node export.Node) nfsv4.Status {
	h := &c.cur
	if !h.set || h.node.Export != node.Export {
		rights, err := c.table.Enter(c.ctx, &c.peer, node.Export, c.version())
		if err != nil {
			return c.statusOf(err)
		}
		h.rights = rights
	}
	h.set, h.hasState, h.node = true, false, node
	return nfsv4.OK
}

// setStateID makes id the current stateid.
func (c *compound) setStateID(id nfsv4.StateID) { c.cur.stateID, c.cur.hasState = id, true }

// resolveStateID replaces the special stateid that stands for the current one
// (RFC 8881 section 8.2.3). Its sequence number is taken as zero, unless
// keepSeq, for CLOSE and OPEN_DOWNGRADE.
func (c *compound) resolveStateID(id nfsv4.StateID, keepSeq bool) (nfsv4.StateID, nfsv4.Status) {
	if c.minor == 0 || id != nfsv4.CurrentStateID {
		return id, nfsv4.OK
	}
	if !c.cur.hasState {
		return id, nfsv4.ErrBadStateID
	}
	id = c.cur.stateID
	if !keepSeq && !id.Special() {
		id.Seq = 0
	}
	return id, nfsv4.OK
}

// version is the protocol version that export rules are asked about.
func (c *compound) version() export.Version { return export.Version40 + export.Version(c.minor) }
