package osd

import (
	"capstan/cephfs/denc"
	"capstan/cephfs/osdmap"
)

// FromOSDMap makes a [Map] of one epoch's osdmap.
func FromOSDMap(m *osdmap.Map) Map { return realMap{m} }

type realMap struct{ m *osdmap.Map }

func (r realMap) Epoch() uint32 { return r.m.Epoch }

func (r realMap) Flags() MapFlags {
	return MapFlags{
		Full:       r.m.Flags&osdmap.FlagFull != 0,
		PauseRead:  r.m.Flags&osdmap.FlagPauseRead != 0,
		PauseWrite: r.m.Flags&osdmap.FlagPauseWrite != 0,
	}
}

func (r realMap) Pool(id int64) (Pool, bool) {
	p := r.m.Pool(id)
	if p == nil {
		return Pool{}, false
	}
	return Pool{
		PGs:         p.PGNum,
		Full:        p.Flags&osdmap.PoolFull != 0,
		QuotaFull:   p.Flags&osdmap.PoolFullQuota != 0,
		EIO:         p.Flags&osdmap.PoolEIO != 0,
		Erasure:     p.IsErasure(),
		Overwrites:  p.Flags&osdmap.PoolECOverwrites != 0,
		Stripe:      p.StripeWidth,
		ReadTier:    p.ReadTier,
		WriteTier:   p.WriteTier,
		ForceResend: p.ForceOpResend,
	}, true
}

func (r realMap) Hash(o Object) uint32 {
	pg, _ := r.m.ObjectPG(osdmap.Object{Pool: o.Pool, Name: o.Name, Namespace: o.Namespace, Key: o.Key})
	return pg.Seed
}

func (r realMap) Place(pool int64, hash uint32) Placement {
	var at osdmap.Placement
	r.m.Place(osdmap.PG{Pool: pool, Seed: hash}, &at)
	return Placement{
		PG:      PG{Pool: at.PG.Pool, Seed: at.PG.Seed, Shard: at.PG.Shard},
		Primary: at.ActingPrimary,
		Acting:  at.Acting,
	}
}

func (r realMap) Addrs(osd int32) (denc.AddrVec, bool) { return r.m.OSDAddrs(osd) }

func (r realMap) Blocklisted(self denc.Addr) bool { return r.m.Blocklisted(self) }
