package integration

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// haveGaneshaCeph looks for the module that lets Ganesha serve CephFS.
func haveGaneshaCeph() bool {
	for _, pat := range []string{"/usr/lib/*/ganesha/libfsalceph.so", "/usr/lib/ganesha/libfsalceph.so", "/usr/lib64/ganesha/libfsalceph.so"} {
		if m, _ := filepath.Glob(pat); len(m) > 0 {
			return true
		}
	}
	return false
}

// GaneshaOptions describe the reference server.
type GaneshaOptions struct {
	Port   int    // of NFS; 0 means 12049. MOUNT has the next one
	FS     string // file system; the cluster's first if empty
	Client string // key; "admin" if empty
	// LeaseSeconds is the lease, and the grace period after the start; 0 means 5.
	LeaseSeconds int
	// Delegations lets the server give delegations.
	Delegations bool
}

// Ganesha is NFS-Ganesha serving a cluster's file system through libcephfs: the server that capstan is compared
// with. It exports the file system's root as GaneshaPath on versions 3, 4.0, 4.1 and 4.2.
type Ganesha struct {
	Port int

	opts    GaneshaOptions
	cluster *Cluster
	dir     string
	proc    *Proc
	rpcbind *Proc
}

// GaneshaPath is where Ganesha exports: the path in its pseudo-root, and for version 3.
const GaneshaPath = "/ceph"

// StartGanesha starts the server where the cluster is and returns when its grace period is over. dir is a scratch
// directory.
func StartGanesha(ctx context.Context, c *Cluster, dir string, opts GaneshaOptions) (*Ganesha, error) {
	if opts.Port == 0 {
		opts.Port = 12049
	}
	if opts.FS == "" {
		opts.FS = c.FSName()
	}
	if opts.Client == "" {
		opts.Client = "admin"
	}
	if opts.LeaseSeconds == 0 {
		opts.LeaseSeconds = 5
	}
	g := &Ganesha{Port: opts.Port, opts: opts, cluster: c, dir: dir}
	// Ganesha and rpcbind meet in /run, and both keep state in /var: private ones for this pair of processes.
	for _, d := range []string{"run/ganesha", "run/rpcbind", "recovery"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(g.path("ganesha.conf"), []byte(g.config()), 0o644); err != nil {
		return nil, err
	}
	if err := g.Start(ctx); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func (g *Ganesha) path(name string) string { return filepath.Join(g.dir, name) }

// LogPath is the server's log file.
func (g *Ganesha) LogPath() string { return g.path("ganesha.log") }

func (g *Ganesha) config() string {
	return fmt.Sprintf(`NFS_CORE_PARAM { NFS_Port = %d; MNT_Port = %d; NFS_Protocols = 3,4; Enable_NLM = false; mount_path_pseudo = true; Enable_RQUOTA = false; }
NFSv4 { Lease_Lifetime = %d; Grace_Period = %d; Minor_Versions = 0,1,2; RecoveryBackend = fs; Delegations = %t; }
CEPH { Ceph_Conf = %s; }
EXPORT { Export_Id = 1; Path = "/"; Pseudo = "%s"; Protocols = 3,4; Transports = TCP; Access_Type = RW;
	Squash = No_Root_Squash; SecType = sys; FSAL { Name = CEPH; User_Id = %s; Filesystem = "%s"; } }
LOG { Default_Log_Level = EVENT; }
`, g.opts.Port, g.opts.Port+1, g.opts.LeaseSeconds, g.opts.LeaseSeconds, g.opts.Delegations,
		g.cluster.ConfPath(), GaneshaPath, g.opts.Client, g.opts.FS)
}

// Start starts the server after Kill.
func (g *Ganesha) Start(ctx context.Context) (err error) {
	private := map[string]string{"/run": g.path("run"), "/var/lib/nfs": g.path("recovery")}
	if err := os.MkdirAll(g.path("recovery/ganesha"), 0o755); err != nil {
		return err
	}
	n := g.cluster.opts.Net
	if g.rpcbind == nil || !g.rpcbind.Alive() {
		g.rpcbind, err = startProc(procSpec{name: "rpcbind", argv: []string{"rpcbind", "-f"}, net: n, private: private, log: g.path("rpcbind.log")})
		if err != nil {
			return err
		}
		if err := poll(ctx, "rpcbind", func() (bool, error) {
			_, err := os.Stat(g.path("run/rpcbind.sock"))
			return err == nil, g.rpcbind.unexpectedEnd()
		}); err != nil {
			return err
		}
	}
	g.proc, err = startProc(procSpec{
		name: "ganesha",
		argv: []string{"ganesha.nfsd", "-F", "-f", g.path("ganesha.conf"), "-L", g.LogPath(), "-p", g.path("run/ganesha.pid")},
		env:  []string{"CEPH_CONF=" + g.cluster.ConfPath()}, net: n, private: private, log: g.path("ganesha.out"),
	})
	if err != nil {
		return err
	}
	err = poll(ctx, "ganesha", func() (bool, error) {
		if err := g.proc.unexpectedEnd(); err != nil {
			return false, err
		}
		c, err := n.Dial(ctx, "tcp", net.JoinHostPort(g.cluster.ip, fmt.Sprint(g.Port)))
		if err != nil {
			return false, nil
		}
		c.Close()
		// Before that, the server answers every OPEN that it is in grace.
		log, err := os.ReadFile(g.LogPath())
		return strings.Contains(string(log), "NOT IN GRACE"), err
	})
	if err != nil {
		return fmt.Errorf("start ganesha: %w\n%s", err, tailFile(g.LogPath(), 20))
	}
	return nil
}

// Kill ends the server with SIGKILL.
func (g *Ganesha) Kill() { g.proc.Kill() }

// Close ends the server and its rpcbind.
func (g *Ganesha) Close() error {
	if g.proc != nil {
		_ = g.proc.Stop(5 * time.Second) // its exit code on SIGTERM means nothing
	}
	if g.rpcbind != nil {
		g.rpcbind.Kill()
	}
	return nil
}

// Mount is a mount of the server in a guest of the same namespace.
func (g *Ganesha) Mount(version string) NFSMount {
	return NFSMount{Version: version, Port: g.Port, MountPort: g.Port + 1, Path: GaneshaPath}
}

// LibNFS returns the tools of libnfs, set to the server and version 3.
func (g *Ganesha) LibNFS() LibNFS {
	return LibNFS{Net: g.cluster.opts.Net, Server: g.cluster.ip, Port: g.Port, MountPort: g.Port + 1, Export: GaneshaPath}
}
