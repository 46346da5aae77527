package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Store is where an OSD keeps its objects.
type Store string

// Stores. MemStore is quick and forgets everything when the OSD ends, so such an OSD cannot be restarted; BlueStore
// is what people run, here on a sparse file.
const (
	MemStore  Store = "memstore"
	BlueStore Store = "bluestore"
)

// Filesystem is a CephFS of a cluster.
type Filesystem struct {
	Name          string
	MaxMDS        int  // active ranks; 0 means 1
	StandbyReplay bool // a standby follows the journal of each rank
}

// ClusterOptions describe a cluster. The zero value is one monitor, one manager, one OSD in memory and one MDS
// serving the file system "a", on loopback.
type ClusterOptions struct {
	Net         *Net         // namespace to run in, at ServerIP; nil for the host's loopback with free ports
	Mons        int          // monitors, 1 to 3; 0 means 1
	OSDs        int          // 0 means 1
	Store       Store        // "" means MemStore
	StoreMB     int          // size of each OSD in MiB; 0 means 16384
	Replicas    int          // copies of each object; 0 means 1
	Filesystems []Filesystem // nil means one named "a"
	MDS         int          // MDS daemons; 0 means one for each active rank. The others stand by
	Secure      bool         // only the messenger's secure mode is offered; otherwise crc and secure
	// Tree is a directory tree whose Ceph is run instead of the machine's (ceph-tree.sh makes one); the default is
	// EnvTree. The kernel's client and libcephfs stay the machine's.
	Tree string
	// Config is added to [global] of ceph.conf ("mds beacon grace": "5").
	Config map[string]string
}

// EnvTree names the default of ClusterOptions.Tree.
const EnvTree = "CAPSTAN_CEPH_TREE"

func (o *ClusterOptions) setDefaults() error {
	if o.Tree == "" {
		o.Tree = os.Getenv(EnvTree)
	}
	if o.Mons == 0 {
		o.Mons = 1
	}
	if o.OSDs == 0 {
		o.OSDs = 1
	}
	if o.Store == "" {
		o.Store = MemStore
	}
	if o.StoreMB == 0 {
		o.StoreMB = 16384
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.Filesystems == nil {
		o.Filesystems = []Filesystem{{Name: "a"}}
	}
	ranks := 0
	for i := range o.Filesystems {
		f := &o.Filesystems[i]
		if f.MaxMDS == 0 {
			f.MaxMDS = 1
		}
		ranks += f.MaxMDS
	}
	if o.MDS == 0 {
		o.MDS = ranks
	}
	switch {
	case o.Mons < 1 || o.Mons > 3 || o.OSDs < 1:
		return fmt.Errorf("a cluster of %d monitors and %d OSDs", o.Mons, o.OSDs)
	case o.MDS < ranks:
		return fmt.Errorf("%d MDS daemons for %d ranks", o.MDS, ranks)
	case o.Replicas > o.OSDs:
		return fmt.Errorf("%d copies on %d OSDs", o.Replicas, o.OSDs)
	}
	return nil
}

type monAddr struct{ v2, v1 int }

// Cluster is a Ceph cluster of real daemons.
type Cluster struct {
	opts ClusterOptions
	dir  string
	ip   string
	fsid string
	mons []monAddr

	major int // release of the daemons; set by start

	mu      sync.Mutex
	daemons []*Daemon         // guarded by mu
	secrets map[string]string // client name -> secret; guarded by mu
}

// StartCluster starts a cluster in a scratch directory of its own and returns when its file systems are active and
// all OSDs are up. Close ends it.
func StartCluster(ctx context.Context, dir string, opts ClusterOptions) (*Cluster, error) {
	opts.Filesystems = append([]Filesystem(nil), opts.Filesystems...)
	if len(opts.Filesystems) == 0 {
		opts.Filesystems = nil
	}
	if err := opts.setDefaults(); err != nil {
		return nil, err
	}
	c := &Cluster{opts: opts, dir: dir, ip: "127.0.0.1", fsid: newUUID(), secrets: make(map[string]string)}
	if opts.Net != nil {
		c.ip = ServerIP
	}
	if err := c.start(ctx); err != nil {
		err = fmt.Errorf("start ceph: %w\n%s", err, c.Logs(15))
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	version, err := c.Version(ctx)
	if err != nil {
		return err
	}
	if _, err := fmt.Sscanf(version, "%d.", &c.major); err != nil {
		return fmt.Errorf("release of ceph-mon: %q", version)
	}
	ports, err := freePorts(ctx, c.opts.Net, c.ip, 2*c.opts.Mons)
	if err != nil {
		return err
	}
	for i := range c.opts.Mons {
		c.mons = append(c.mons, monAddr{v2: ports[2*i], v1: ports[2*i+1]})
	}
	for _, d := range []string{"run", "log", "crash"} {
		if err := os.MkdirAll(c.path(d), 0o755); err != nil {
			return err
		}
	}
	if err := c.writeConf(); err != nil {
		return err
	}
	osdUUIDs, err := c.prepare(ctx)
	if err != nil {
		return err
	}

	// Monitors first; the stores of the OSDs are made meanwhile.
	mkfs := make(chan error, c.opts.OSDs)
	for i, uuid := range osdUUIDs {
		go func() {
			_, err := c.run(ctx, "ceph-osd", "-c", c.ConfPath(), "-i", fmt.Sprint(i), "--mkfs", "--osd-uuid", uuid, "--no-mon-config")
			mkfs <- err
		}()
	}
	monErr := c.startMons(ctx)
	for range osdUUIDs {
		monErr = errors.Join(monErr, <-mkfs)
	}
	if monErr != nil {
		return monErr
	}
	for i := range c.opts.MDS {
		if _, err := c.startDaemon("mds", string(rune('a'+i))); err != nil {
			return err
		}
	}
	if err := c.batch(ctx, c.setUpCommands(osdUUIDs)...); err != nil {
		return err
	}
	for i := range osdUUIDs {
		if _, err := c.startDaemon("osd", fmt.Sprint(i)); err != nil {
			return err
		}
	}
	if err := c.waitReady(ctx); err != nil {
		return err
	}
	// Nothing above needs the manager, whose Python modules cost seconds of CPU; statfs does.
	if _, err := c.startDaemon("mgr", "x"); err != nil {
		return err
	}
	return nil
}

// prepare makes the keyring, the monitor map and the directories, and returns the OSDs' UUIDs.
func (c *Cluster) prepare(ctx context.Context) ([]string, error) {
	admin := newCephKey(c.major)
	c.secrets["admin"] = admin
	keys := []keyringEntry{
		{"mon.", newCephKey(c.major), []string{"mon", "allow *"}},
		{"client.admin", admin, []string{"mon", "allow *", "osd", "allow *", "mds", "allow *", "mgr", "allow *"}},
		{"mgr.x", newCephKey(c.major), []string{"mon", "allow profile mgr", "osd", "allow *", "mds", "allow *"}},
	}
	dirs := []string{"mgr.x"}
	var uuids []string
	for i := range c.opts.OSDs {
		name := fmt.Sprintf("osd.%d", i)
		keys = append(keys, keyringEntry{name, newCephKey(c.major), []string{"mon", "allow profile osd", "mgr", "allow profile osd", "osd", "allow *"}})
		dirs = append(dirs, name)
		uuids = append(uuids, newUUID())
	}
	for i := range c.opts.MDS {
		name := fmt.Sprintf("mds.%c", 'a'+i)
		keys = append(keys, keyringEntry{name, newCephKey(c.major), []string{"mon", "allow profile mds", "osd", "allow *", "mds", "allow *", "mgr", "allow profile mds"}})
		dirs = append(dirs, name)
	}
	for _, d := range dirs {
		if err := os.MkdirAll(c.path(d), 0o755); err != nil {
			return nil, err
		}
	}
	if err := writeKeyring(c.path("keyring"), keys); err != nil {
		return nil, err
	}
	argv := []string{"monmaptool", "--create", "--fsid", c.fsid}
	for i, h := range c.monHosts() {
		argv = append(argv, "--addv", string(rune('a'+i)), h)
	}
	_, err := c.run(ctx, append(argv, c.path("monmap"))...)
	return uuids, err
}

func (c *Cluster) startMons(ctx context.Context) error {
	for i := range c.mons {
		id := string(rune('a' + i))
		if _, err := c.run(ctx, "ceph-mon", "-c", c.ConfPath(), "--mkfs", "-i", id, "--monmap", c.path("monmap"), "--keyring", c.path("keyring")); err != nil {
			return err
		}
		if _, err := c.startDaemon("mon", id); err != nil {
			return err
		}
	}
	return c.waitQuorum(ctx)
}

// waitQuorum waits until every monitor is in the quorum.
func (c *Cluster) waitQuorum(ctx context.Context) error {
	return c.poll(ctx, "the monitors' quorum", func() (bool, error) {
		var st struct {
			Quorum []int `json:"quorum"`
		}
		if err := c.Daemon("mon.a").Ask(ctx, &st, "mon_status"); err != nil {
			return false, nil // its socket is not there yet
		}
		return len(st.Quorum) == len(c.mons), nil
	})
}

func (c *Cluster) setUpCommands(osdUUIDs []string) []string {
	var cmds []string
	for i, u := range osdUUIDs {
		cmds = append(cmds, fmt.Sprintf("osd new %s %d", u, i))
	}
	for _, f := range c.opts.Filesystems {
		meta, data := "cephfs."+f.Name+".meta", "cephfs."+f.Name+".data"
		cmds = append(cmds,
			"osd pool create "+meta+" 8", "osd pool create "+data+" 8",
			"fs new "+f.Name+" "+meta+" "+data)
		if f.MaxMDS > 1 {
			cmds = append(cmds, fmt.Sprintf("fs set %s max_mds %d", f.Name, f.MaxMDS))
		}
		if f.StandbyReplay {
			cmds = append(cmds, fmt.Sprintf("fs set %s allow_standby_replay true", f.Name))
		}
	}
	return cmds
}

// waitReady waits until all OSDs are active and each rank of each file system has an active MDS.
func (c *Cluster) waitReady(ctx context.Context) error {
	want := 0
	for _, f := range c.opts.Filesystems {
		want += f.MaxMDS
	}
	return c.poll(ctx, "OSDs and MDS ranks", func() (bool, error) {
		active := 0
		for _, d := range c.Daemons() {
			var st struct {
				State string `json:"state"`
			}
			switch d.Type {
			case "osd":
				if err := d.Ask(ctx, &st, "status"); err != nil || st.State != "active" {
					return false, nil
				}
			case "mds":
				if err := d.Ask(ctx, &st, "status"); err == nil && st.State == "up:active" {
					active++
				}
			}
		}
		return active >= want, nil
	})
}

// WaitActive waits until every rank of every file system is active again, after a daemon was killed or restarted.
// It asks the monitors, so a dead MDS counts as active until they have noticed.
func (c *Cluster) WaitActive(ctx context.Context) error {
	return c.poll(ctx, "MDS ranks", func() (bool, error) {
		m, err := c.FSMap(ctx)
		if err != nil {
			return false, err
		}
		for _, f := range m.Filesystems {
			active := 0
			for _, i := range f.MDSMap.Info {
				if i.State == "up:active" {
					active++
				}
			}
			if active < f.MDSMap.MaxMDS {
				return false, nil
			}
		}
		return true, nil
	})
}

// WaitManager waits until the manager is active, which statfs and "ceph fs status" need.
func (c *Cluster) WaitManager(ctx context.Context) error {
	return c.poll(ctx, "the manager", func() (bool, error) {
		var st struct {
			Available bool `json:"available"`
		}
		if err := c.Query(ctx, &st, "mgr", "stat"); err != nil {
			return false, err
		}
		return st.Available, nil
	})
}

// poll is poll that also ends when a daemon does.
func (c *Cluster) poll(ctx context.Context, what string, f func() (bool, error)) error {
	return poll(ctx, what, func() (bool, error) {
		if err := c.Err(); err != nil {
			return false, err
		}
		return f()
	})
}

// FSMap is what the harness reads of "ceph fs dump".
type FSMap struct {
	Filesystems []struct {
		ID     int `json:"id"`
		MDSMap struct {
			FSName string             `json:"fs_name"`
			MaxMDS int                `json:"max_mds"`
			Info   map[string]MDSInfo `json:"info"`
		} `json:"mdsmap"`
	} `json:"filesystems"`
	Standbys []MDSInfo `json:"standbys"`
}

// MDSInfo is one MDS daemon in an FSMap.
type MDSInfo struct {
	GID   uint64 `json:"gid"`
	Name  string `json:"name"` // "a" for the daemon mds.a
	Rank  int    `json:"rank"`
	State string `json:"state"` // "up:active"
}

// FSMap asks the monitors for the MDS map of every file system.
func (c *Cluster) FSMap(ctx context.Context) (m FSMap, err error) {
	return m, c.Query(ctx, &m, "fs", "dump")
}

// ActiveMDS returns the daemon that holds a rank of a file system.
func (c *Cluster) ActiveMDS(ctx context.Context, fs string, rank int) (*Daemon, error) {
	m, err := c.FSMap(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range m.Filesystems {
		for _, i := range f.MDSMap.Info {
			if f.MDSMap.FSName == fs && i.Rank == rank && i.State == "up:active" {
				return c.Daemon("mds." + i.Name), nil
			}
		}
	}
	return nil, fmt.Errorf("no active MDS of rank %d of file system %s", rank, fs)
}

// ConfPath is the cluster's ceph.conf; it names the keyring that has every daemon's key and client.admin.
func (c *Cluster) ConfPath() string { return c.path("ceph.conf") }

// FSID is the cluster's id.
func (c *Cluster) FSID() string { return c.fsid }

// FSName is the name of the first file system.
func (c *Cluster) FSName() string { return c.opts.Filesystems[0].Name }

// Dir is the scratch directory.
func (c *Cluster) Dir() string { return c.dir }

// MonAddrs returns the monitors' "address:port", of protocol 2 or 1.
func (c *Cluster) MonAddrs(v2 bool) []string {
	var l []string
	for _, m := range c.mons {
		port := m.v1
		if v2 {
			port = m.v2
		}
		l = append(l, net.JoinHostPort(c.ip, fmt.Sprint(port)))
	}
	return l
}

// Ceph runs the ceph tool with the admin key.
func (c *Cluster) Ceph(ctx context.Context, args ...string) (Result, error) {
	return c.run(ctx, append([]string{"ceph", "-c", c.ConfPath(), "--connect-timeout", "300"}, args...)...)
}

// Query runs the ceph tool and decodes its JSON answer into v.
func (c *Cluster) Query(ctx context.Context, v any, args ...string) error {
	r, err := c.Ceph(ctx, append(args, "--format", "json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(r.Stdout), v); err != nil {
		return fmt.Errorf("ceph %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// batch runs many commands in one run of the ceph tool, whose start costs more than they do.
func (c *Cluster) batch(ctx context.Context, cmds ...string) error {
	spec := c.spec("ceph", "-c", c.ConfPath(), "--connect-timeout", "300")
	spec.stdin = strings.NewReader(strings.Join(cmds, "\n") + "\n")
	r, err := runCommand(ctx, spec)
	if err != nil {
		return err
	}
	if batchFailed.MatchString(r.Stderr) {
		return fmt.Errorf("ceph: %s", r.Stderr)
	}
	return nil
}

// batchFailed finds failed commands in what the tool prints: "Error EINVAL: ..." or "Invalid command: ...".
var batchFailed = regexp.MustCompile(`(?m)^(Error |Invalid command)`)

// AddClient makes (or finds) the key client.NAME with capabilities given in pairs: "mds", "allow r", "osd", "allow
// *". Its keyring file is Keyring(NAME).
func (c *Cluster) AddClient(ctx context.Context, name string, caps ...string) error {
	_, err := c.Ceph(ctx, append([]string{"auth", "get-or-create", "client." + name}, append(caps, "-o", c.Keyring(name))...)...)
	return err
}

// Authorize makes the key client.NAME with the rights that "ceph fs authorize" gives: pairs of path and "r", "rw",
// "rwp".
func (c *Cluster) Authorize(ctx context.Context, name, fs string, pathsAndRights ...string) error {
	r, err := c.Ceph(ctx, append([]string{"fs", "authorize", fs, "client." + name}, pathsAndRights...)...)
	if err != nil {
		return err
	}
	return os.WriteFile(c.Keyring(name), []byte(r.Stdout), 0o600)
}

// Keyring is the file that holds the key of a client.
func (c *Cluster) Keyring(client string) string {
	if client == "admin" {
		return c.path("keyring")
	}
	return c.path("client." + client + ".keyring")
}

// Secret returns the key of a client in base64.
func (c *Cluster) Secret(ctx context.Context, client string) (string, error) {
	c.mu.Lock()
	s := c.secrets[client]
	c.mu.Unlock()
	if s != "" {
		return s, nil
	}
	r, err := c.Ceph(ctx, "auth", "print-key", "client."+client)
	if err != nil {
		return "", err
	}
	s = strings.TrimSpace(r.Stdout)
	c.mu.Lock()
	c.secrets[client] = s
	c.mu.Unlock()
	return s, nil
}

// Version is the release of the daemons ("16.2.15").
func (c *Cluster) Version(ctx context.Context) (string, error) {
	r, err := c.run(ctx, "ceph-mon", "--version")
	if err != nil {
		return "", err
	}
	f := strings.Fields(r.Stdout)
	if len(f) < 3 {
		return "", fmt.Errorf("ceph-mon --version: %q", r.Stdout)
	}
	return f[2], nil
}

// spec is a program of Ceph, run where the cluster is.
func (c *Cluster) spec(argv ...string) procSpec {
	return procSpec{
		argv: argv, net: c.opts.Net, env: []string{"CEPH_CONF=" + c.ConfPath()},
		tree: c.opts.Tree, show: []string{c.dir},
	}
}

// run runs a tool where the cluster is.
func (c *Cluster) run(ctx context.Context, argv ...string) (Result, error) {
	return runCommand(ctx, c.spec(argv...))
}

// Err returns an error if a daemon ended without having been asked to.
func (c *Cluster) Err() error {
	var errs []error
	for _, d := range c.Daemons() {
		errs = append(errs, d.Err())
	}
	return errors.Join(errs...)
}

// Logs returns the last lines of every daemon's log.
func (c *Cluster) Logs(lines int) string {
	var b strings.Builder
	files, _ := filepath.Glob(c.path("log/*"))
	for _, f := range files {
		if t := tailFile(f, lines); t != "" {
			fmt.Fprintf(&b, "--- %s\n%s\n", f, t)
		}
	}
	return b.String()
}

// Close kills every daemon. The scratch directory stays.
func (c *Cluster) Close() error {
	err := c.Err()
	var wg sync.WaitGroup
	for _, d := range c.Daemons() {
		wg.Add(1)
		go func() {
			defer wg.Done()
			d.Kill()
		}()
	}
	wg.Wait()
	return err
}

// freePorts finds n TCP ports that nobody listens on.
func freePorts(ctx context.Context, n *Net, ip string, count int) ([]int, error) {
	var ports []int
	var ls []net.Listener
	defer func() {
		for _, l := range ls {
			l.Close()
		}
	}()
	for range count {
		l, err := n.Listen(ctx, "tcp", net.JoinHostPort(ip, "0"))
		if err != nil {
			return nil, err
		}
		ls = append(ls, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// stopGrace is how long a daemon may take to end when asked.
const stopGrace = 2 * time.Minute
