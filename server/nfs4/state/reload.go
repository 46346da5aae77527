package state

import (
	"context"

	"capstan/server/nfs4/nfsv4"
)

// KeepExports drops the state of exports that keep says no to: their files are
// closed when it returns, unless ctx ends, and their stateids answer
// NFS4ERR_ADMIN_REVOKED until the client frees them, of which SEQUENCE reminds
// it (SEQ4_STATUS_ADMIN_STATE_REVOKED). An OPEN that has reserved but not
// committed answers NFS4ERR_STALE. keep is called with locks held.
//
// Call it when no request works with the old exports any more: one that still
// does could open a file behind it.
func (s *Store) KeepExports(ctx context.Context, keep func(id uint32) bool) {
	// First the files, so that no open is committed behind the walk over
	// clients.
	for i := range s.files.shards {
		sh := &s.files.shards[i]
		sh.mu.Lock()
		for key, f := range sh.files {
			if !keep(key.Export) {
				f.gone = true
				delete(sh.files, key) // should it be exported again, that is another file
			}
		}
		sh.mu.Unlock()
	}

	s.mu.Lock()
	clients := make([]*Client, 0, len(s.confirmed))
	for _, c := range s.confirmed {
		clients = append(clients, c)
	}
	s.mu.Unlock()
	var done []<-chan struct{}
	for _, c := range clients {
		l := c.revoke(keep)
		if l.empty() {
			continue
		}
		d := make(chan struct{})
		s.goJob(func() {
			defer close(d)
			s.giveBack(s.volumeCtx, l)
		})
		done = append(done, d)
	}
	for _, d := range done {
		select {
		case <-d:
		case <-ctx.Done():
			return
		}
	}
}

// revoke takes c's state in exports that are not kept away; what remains are
// stateids that say so.
func (c *Client) revoke(keep func(id uint32) bool) *leavings {
	l := &leavings{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for number, ref := range c.states {
		if ref.revoked() != nfsv4.OK || keep(ref.key().Export) {
			continue
		}
		if ls := ref.lock; ls != nil {
			ls.removeLocked()
			ls.dieLocked(l)
			ls.revoked = nfsv4.ErrAdminRevoked
		} else {
			os, o := ref.open, ref.open.share.owner
			delete(o.opens, os.share.file.key)
			c.opens--
			o.dropIfIdleLocked()
			os.dieLocked(l)
			os.revoked = nfsv4.ErrAdminRevoked
		}
		c.states[number] = ref // removeLocked took it out
		c.revoked.Add(1)
	}
	return l
}
