package integration

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Daemon is one daemon of a cluster.
type Daemon struct {
	Type string // "mon", "mgr", "osd" or "mds"
	ID   string // "a", "0"

	c *Cluster

	mu   sync.Mutex
	proc *Proc // guarded by mu; the last one started
}

// Name is the daemon's name in Ceph ("osd.0").
func (d *Daemon) Name() string { return d.Type + "." + d.ID }

// Daemon returns the daemon of a name ("mds.a"), nil if there is none.
func (c *Cluster) Daemon(name string) *Daemon {
	for _, d := range c.Daemons() {
		if d.Name() == name {
			return d
		}
	}
	return nil
}

// Daemons returns all daemons, those that were killed included.
func (c *Cluster) Daemons() []*Daemon {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Daemon(nil), c.daemons...)
}

func (c *Cluster) startDaemon(typ, id string) (*Daemon, error) {
	d := &Daemon{Type: typ, ID: id, c: c}
	if err := d.Start(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.daemons = append(c.daemons, d)
	c.mu.Unlock()
	return d, nil
}

// Start starts a daemon that was killed or stopped. It does not wait until the daemon is of use.
func (d *Daemon) Start() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.proc != nil {
		if d.proc.Alive() {
			return fmt.Errorf("%s runs already", d.Name())
		}
		if d.Type == "osd" && d.c.opts.Store == MemStore {
			return fmt.Errorf("%s: memstore has lost its objects; use BlueStore where OSDs are restarted", d.Name())
		}
	}
	_ = os.Remove(d.socket()) // a killed daemon leaves it
	spec := d.c.spec("ceph-"+d.Type, "-f", "-c", d.c.ConfPath(), "-i", d.ID)
	spec.name, spec.log = d.Name(), d.c.path("log/"+d.Name()+".out")
	p, err := startProc(spec)
	if err != nil {
		return err
	}
	d.proc = p
	return nil
}

func (d *Daemon) process() *Proc {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.proc
}

// Kill ends the daemon with SIGKILL and waits.
func (d *Daemon) Kill() {
	if p := d.process(); p != nil {
		p.Kill()
	}
}

// Stop ends the daemon with SIGTERM and waits.
func (d *Daemon) Stop() error { return d.process().Stop(stopGrace) }

// Restart stops and starts the daemon.
func (d *Daemon) Restart() error {
	if err := d.Stop(); err != nil {
		return err
	}
	return d.Start()
}

// Pause stops the daemon with SIGSTOP: its connections stay and nobody answers. Resume lets it go on.
func (d *Daemon) Pause() error { return d.process().Signal(syscall.SIGSTOP) }

// Resume lets a paused daemon go on.
func (d *Daemon) Resume() error { return d.process().Signal(syscall.SIGCONT) }

// Err returns an error if the daemon ended without having been asked to.
func (d *Daemon) Err() error { return d.process().unexpectedEnd() }

// LogPath is the daemon's log file.
func (d *Daemon) LogPath() string { return d.c.path("log/" + d.Name() + ".log") }

func (d *Daemon) socket() string { return d.c.path("run/" + d.Name() + ".asok") }

// Ask sends a command to the daemon's admin socket and decodes the JSON answer into v (nil to drop it). Arguments
// beyond the command come in pairs: Ask(ctx, &v, "config set", "var", "debug_ms", "val", "1").
func (d *Daemon) Ask(ctx context.Context, v any, command string, args ...string) error {
	if d == nil {
		return errors.New("no such daemon")
	}
	req := map[string]string{"prefix": command, "format": "json"}
	for i := 0; i+1 < len(args); i += 2 {
		req[args[i]] = args[i+1]
	}
	b, err := d.ask(ctx, req)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", d.Name(), command, err)
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %s: %w: %.200s", d.Name(), command, err, b)
	}
	return nil
}

// ask speaks the admin socket's protocol: JSON and a NUL, answered by a big-endian length and that many bytes.
func (d *Daemon) ask(ctx context.Context, req map[string]string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var nd net.Dialer
	c, err := nd.DialContext(ctx, "unix", d.socket())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	b, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(append(b, 0)); err != nil {
		return nil, err
	}
	var n [4]byte
	if _, err := io.ReadFull(c, n[:]); err != nil {
		return nil, err
	}
	const most = 256 << 20
	size := binary.BigEndian.Uint32(n[:])
	if size > most {
		return nil, fmt.Errorf("answer of %d bytes", size)
	}
	b = make([]byte, size)
	_, err = io.ReadFull(c, b)
	return b, err
}
