package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"capstan/cephfs/auth"
	"capstan/cephfs/denc"
	"capstan/cephfs/mon"
	"capstan/cephfs/msgr"
	"capstan/cephfs/osd"
	"capstan/cephfs/osdmap"
)

// Options say which cluster, and as whom; all may be left empty. What Ceph's
// tools read is read here too: CEPH_CONF, CEPH_KEYRING and CEPH_ARGS.
type Options struct {
	Conf    string          // ceph.conf; the default is CEPH_CONF, or the default places
	Keyring string          // the default is what ceph.conf says
	Name    denc.EntityName // the default is client.admin
	Args    []string        // options as Ceph's tools take them; see [auth.LoadOptions]
	Logger  *slog.Logger    // receives what goes wrong on the way; the default drops it

	// Messenger configures the connections: Auth and Logger are filled in.
	Messenger msgr.Options
	// OSD bounds object operations: Messenger, Maps and Logger are filled in.
	OSD osd.Options
}

// Cluster is a connection to a cluster. Its parts are used directly.
type Cluster struct {
	Config    *auth.Config
	Auth      *auth.Client
	Messenger *msgr.Messenger
	Mon       *mon.Client
	OSD       *osd.Client

	maps     *osd.MonMaps
	monitors []denc.AddrVec // that the configuration names
}

// Connect connects and waits until a monitor has let the client in and the
// osdmap is there. The error tells configuration, monitors that cannot be
// reached and monitors that refuse apart; see packages auth and mon.
func Connect(ctx context.Context, o Options) (*Cluster, error) {
	c, err := Dial(ctx, o)
	if err != nil {
		return nil, err
	}
	if _, err := c.OSDMap(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Dial is [Connect] without the wait: it returns as soon as the configuration
// is read, and connects meanwhile.
func Dial(ctx context.Context, o Options) (*Cluster, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	cfg, err := auth.Load(auth.LoadOptions{Conf: o.Conf, Keyring: o.Keyring, Name: o.Name, Args: o.Args})
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	client, err := cfg.NewClient()
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	monitors, err := cfg.Monitors(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	mo := o.Messenger
	mo.Auth, mo.Logger = client, o.Logger
	// Commands to daemons come from instances of their own, on the same terms.
	direct := func() *msgr.Messenger {
		own := mo
		own.Nonce = 0
		return msgr.New(own)
	}
	c := &Cluster{Config: cfg, Auth: client, Messenger: msgr.New(mo), monitors: monitors}
	c.Mon, err = mon.New(mon.Options{Messenger: c.Messenger, Direct: direct, Auth: client, Monitors: monitors, Logger: o.Logger})
	if err != nil {
		c.Messenger.Close()
		return nil, fmt.Errorf("cluster: %w", err)
	}
	c.maps = osd.NewMonMaps(c.Mon, o.Logger)
	oo := o.OSD
	oo.Messenger, oo.Maps, oo.Logger = c.Messenger, c.maps, o.Logger
	c.OSD = osd.New(oo)
	return c, nil
}

// Close ends every operation and connection, and waits for all goroutines.
func (c *Cluster) Close() {
	c.OSD.Close()
	c.maps.Close()
	c.Mon.Close()
	c.Messenger.Close()
}

// OSDMap returns the newest osdmap that is known here, waiting for the first
// one. It never changes.
func (c *Cluster) OSDMap(ctx context.Context) (*osdmap.Map, error) {
	if m := c.maps.Current(); m != nil {
		return m, nil
	}
	// Ready knows why there may never be one.
	if err := c.Mon.Ready(ctx); err != nil {
		return nil, fmt.Errorf("monitors %v: %w", c.monitors, err)
	}
	return c.at(ctx, 1)
}

// Latest returns the osdmap as of now or later: it asks the monitors.
func (c *Cluster) Latest(ctx context.Context) (*osdmap.Map, error) {
	epoch, err := c.maps.LatestMap(ctx)
	if err != nil {
		return nil, err
	}
	return c.at(ctx, epoch)
}

// at waits for a map of at least this epoch.
func (c *Cluster) at(ctx context.Context, epoch uint32) (*osdmap.Map, error) {
	if err := c.OSD.WaitEpoch(ctx, epoch); err != nil {
		return nil, fmt.Errorf("cluster: osdmap %d: %w", epoch, errors.Join(err, c.maps.Err()))
	}
	return c.maps.Current(), nil
}

// Pool returns the id of a pool. One that the newest map does not have is
// asked for before the error, which is an [osd.ErrNoPool].
func (c *Cluster) Pool(ctx context.Context, name string) (int64, error) {
	m, err := c.OSDMap(ctx)
	if err != nil {
		return 0, err
	}
	id, ok := m.PoolID(name)
	if !ok {
		if m, err = c.Latest(ctx); err != nil {
			return 0, err
		}
		if id, ok = m.PoolID(name); !ok {
			return 0, fmt.Errorf("pool %q: %w", name, osd.ErrNoPool)
		}
	}
	return id, nil
}
