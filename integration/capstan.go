package integration

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// CapstanOptions describe a capstan server under test.
type CapstanOptions struct {
	Net    *Net   // namespace to run in; nil for the host's loopback
	Config string // content of capstan.yaml; "" starts "capstan serve" with its defaults
	// Addr is the "address:port" that the server serves NFS on according to Config. The server counts as ready once
	// it has said so by sd_notify; with a NOTIFY_SOCKET in Env, when it answers a NULL call here, which is a little
	// before it has started all.
	Addr   string
	Binary string   // program to run; "" builds one
	Tags   []string // build tags ("librados")
	Race   bool     // build with the race detector
	Args   []string // added to "serve -c FILE"
	Env    []string // added to the environment
	// Private replaces directories for this process only ("/run": "/tmp/x").
	Private map[string]string
}

// Capstan is a capstan process. It can be killed and started again with the same files.
type Capstan struct {
	// ConfigPath is the configuration file; write to it and call Reload to change the exports.
	ConfigPath string
	// LogPath collects the output of every start.
	LogPath string
	// Binary is the program.
	Binary string

	opts CapstanOptions
	dir  string
	proc *Proc
}

// BuildCapstan builds cmd/capstan, once per process for each choice of tags and race detector, and returns the
// binary. Without tags it is built with CGO_ENABLED=0, as it is shipped.
func BuildCapstan(ctx context.Context, race bool, tags ...string) (string, error) {
	env := []string{"CGO_ENABLED=0"}
	var args []string
	if race || len(tags) > 0 {
		env = []string{"CGO_ENABLED=1"}
	}
	if race {
		args = append(args, "-race")
	}
	if len(tags) > 0 {
		args = append(args, "-tags", strings.Join(tags, ","))
	}
	return buildGo(ctx, "capstan", "capstan/cmd/capstan", env, args...)
}

// StartCapstan builds and starts a server and waits until it serves. dir is a scratch directory.
func StartCapstan(ctx context.Context, dir string, opts CapstanOptions) (*Capstan, error) {
	bin := opts.Binary
	if bin == "" {
		var err error
		if bin, err = BuildCapstan(ctx, opts.Race, opts.Tags...); err != nil {
			return nil, err
		}
	}
	c := &Capstan{ConfigPath: filepath.Join(dir, "capstan.yaml"), LogPath: filepath.Join(dir, "capstan.log"), Binary: bin, opts: opts, dir: dir}
	if opts.Config != "" {
		if err := os.WriteFile(c.ConfigPath, []byte(opts.Config), 0o644); err != nil {
			return nil, err
		}
	}
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Start starts the server after Kill or Stop.
func (c *Capstan) Start(ctx context.Context) error {
	if c.proc != nil && c.proc.Alive() {
		return errors.New("capstan runs already")
	}
	notify, err := listenNotify(filepath.Join(c.dir, "notify"))
	if err != nil {
		return err
	}
	argv := []string{c.Binary, "serve"}
	if c.opts.Config != "" {
		argv = append(argv, "-c", c.ConfigPath)
	}
	c.proc, err = startProc(procSpec{
		name: "capstan", argv: append(argv, c.opts.Args...), dir: c.dir, net: c.opts.Net, private: c.opts.Private,
		env: append([]string{"NOTIFY_SOCKET=" + notify.path}, c.opts.Env...), log: c.LogPath,
	})
	if err != nil {
		notify.close()
		return err
	}
	defer notify.close()
	elsewhere := slices.ContainsFunc(c.opts.Env, func(e string) bool { return strings.HasPrefix(e, "NOTIFY_SOCKET=") })
	err = poll(ctx, "capstan to serve", func() (bool, error) {
		if err := c.proc.unexpectedEnd(); err != nil {
			return false, err
		}
		select {
		case <-notify.ready:
			return true, nil
		default:
		}
		return elsewhere && nullCall(ctx, c.opts.Net, c.opts.Addr) == nil, nil
	})
	if err != nil {
		c.proc.Kill()
		return fmt.Errorf("start capstan: %w\n%s", err, c.Log(20))
	}
	return nil
}

// Kill ends the server with SIGKILL.
func (c *Capstan) Kill() { c.proc.Kill() }

// Stop ends the server in order (SIGTERM).
func (c *Capstan) Stop() error { return c.proc.Stop(2 * time.Minute) }

// Restart is Stop and Start.
func (c *Capstan) Restart(ctx context.Context) error {
	if err := c.Stop(); err != nil {
		return err
	}
	return c.Start(ctx)
}

// Reload writes a new configuration and sends SIGHUP. It does not wait for the effect.
func (c *Capstan) Reload(config string) error {
	// Replaced as a whole, so that the server reads the old file or the new one.
	if err := os.WriteFile(c.ConfigPath+".new", []byte(config), 0o644); err != nil {
		return err
	}
	if err := os.Rename(c.ConfigPath+".new", c.ConfigPath); err != nil {
		return err
	}
	return c.proc.Signal(syscall.SIGHUP)
}

// Proc is the running process.
func (c *Capstan) Proc() *Proc { return c.proc }

// Err returns an error if the server ended without having been asked to.
func (c *Capstan) Err() error { return c.proc.unexpectedEnd() }

// Command runs another command of the same binary in the same place ("status", "check -c ...").
func (c *Capstan) Command(ctx context.Context, args ...string) (Result, error) {
	return runCommand(ctx, procSpec{argv: append([]string{c.Binary}, args...), net: c.opts.Net, dir: c.dir, env: c.opts.Env})
}

// Log returns the last lines of the log.
func (c *Capstan) Log(lines int) string { return tailFile(c.LogPath, lines) }

// Close kills the server if it still runs, and returns an error if it had ended by itself.
func (c *Capstan) Close() error {
	if c.proc == nil {
		return nil
	}
	err := c.Err()
	c.Kill()
	return err
}

// notifySocket receives what a service tells its manager (sd_notify).
type notifySocket struct {
	path  string
	c     *net.UnixConn
	ready chan struct{} // closed on READY=1
	done  chan struct{}
}

func listenNotify(path string) (*notifySocket, error) {
	_ = os.Remove(path) // of the last start
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	s := &notifySocket{path: path, c: c, ready: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		b := make([]byte, 4096)
		seen := false
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			for _, l := range bytes.Split(b[:n], []byte("\n")) {
				if string(l) == "READY=1" && !seen {
					seen = true
					close(s.ready)
				}
			}
		}
	}()
	return s, nil
}

func (s *notifySocket) close() {
	s.c.Close()
	<-s.done
}

// nullCall makes the NULL call of NFS version 4 (RFC 5531): any accepted reply shows a server that serves.
func nullCall(ctx context.Context, n *Net, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := n.Dial(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	const xid = 0x6361_7073
	var m []byte
	// Record mark (last fragment, 40 bytes), xid, CALL, RPC 2, NFS, version 4, NULL, AUTH_NONE twice.
	for _, w := range []uint32{1<<31 | 40, xid, 0, 2, 100003, 4, 0, 0, 0, 0, 0} {
		m = binary.BigEndian.AppendUint32(m, w)
	}
	if _, err := c.Write(m); err != nil {
		return err
	}
	var r [16]byte // mark, xid, REPLY, MSG_ACCEPTED
	if _, err := io.ReadFull(c, r[:]); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(r[4:]) != xid || binary.BigEndian.Uint32(r[8:]) != 1 || binary.BigEndian.Uint32(r[12:]) != 0 {
		return fmt.Errorf("%s: no RPC reply: % x", addr, r)
	}
	return nil
}
