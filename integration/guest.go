package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"capstan/integration/internal/guestrpc"
)

// GuestOptions describe a guest. The zero value is a good guest.
type GuestOptions struct {
	// MemoryMB is the guest's memory in MiB; 0 means 1024. The host gives it page by page as it is used.
	MemoryMB int
	// DiskMB adds an ext4 file system of that many MiB at /disk: the native local file system that workloads
	// are compared with. 0 means none.
	DiskMB int
}

// Guest is a Linux machine: a kernel running as a process (user-mode Linux), with one network link to the lab's
// bridge and one to the harness. It sees the host's programs through a copy-on-write root of which nothing reaches
// the host; it shares one directory with the host, Share.
type Guest struct {
	// Number tells guests of one Net apart: its host name is guestN, its address GuestIP(N).
	Number int
	// Kernel is the release of the running kernel ("6.1.176").
	Kernel string
	// Share is the host's name of the directory that the guest has as /lab.
	Share string

	net  *Net
	opts GuestOptions
	dir  string
	log  string // console
	lan  string // tap on the bridge

	mounts atomic.Int64

	mu   sync.Mutex
	proc *Proc // guarded by mu; nil while switched off
}

// IP is the guest's address on the lab's network.
func (g *Guest) IP() string { return guestIP(g.Number) }

// IP6 is the guest's IPv6 address on the lab's network.
func (g *Guest) IP6() string { return guestIP6(g.Number) }

// Name is the guest's host name.
func (g *Guest) Name() string { return fmt.Sprintf("guest%d", g.Number) }

// StartGuest boots guest number (0 to 200) of a Net. dir is a scratch directory of its own.
func StartGuest(ctx context.Context, n *Net, number int, dir string, opts GuestOptions) (*Guest, error) {
	if opts.MemoryMB == 0 {
		opts.MemoryMB = 1024
	}
	g := &Guest{
		Number: number, Share: filepath.Join(dir, "share"), net: n, opts: opts, dir: dir,
		log: filepath.Join(dir, "console.log"),
	}
	if err := os.MkdirAll(g.Share, 0o755); err != nil {
		return nil, err
	}
	if opts.DiskMB > 0 {
		disk := g.disk()
		if err := sparseFile(disk, int64(opts.DiskMB)<<20); err != nil {
			return nil, err
		}
		if _, err := runCommand(ctx, procSpec{argv: []string{"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1", "-I", "256", disk}}); err != nil {
			return nil, err
		}
	}
	if err := g.PowerOn(ctx); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *Guest) disk() string { return filepath.Join(g.dir, "disk.img") }

func sparseFile(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Truncate(size)
}

// PowerOn boots a guest that was switched off: the same machine, started anew.
func (g *Guest) PowerOn(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.proc != nil && g.proc.Alive() {
		return fmt.Errorf("%s is on already", g.Name())
	}
	guestd, err := buildTool(ctx, "guestd", "capstan/integration/internal/guestd")
	if err != nil {
		return err
	}
	lan, manage, err := g.net.addGuest(ctx, g.Number)
	if err != nil {
		return err
	}
	g.lan = lan
	l, err := g.net.Listen(ctx, "tcp", net.JoinHostPort(manageHostIP(g.Number), strconv.Itoa(guestrpc.Port)))
	if err != nil {
		return err
	}
	defer l.Close()
	share, err := filepath.Abs(g.Share)
	if err != nil {
		return err
	}
	argv := []string{
		"linux.uml", fmt.Sprintf("mem=%dM", g.opts.MemoryMB),
		"umid=" + g.Name(), "uml_dir=" + filepath.Join(g.dir, "uml"),
		"root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "init=" + guestd,
		"con=null", "con0=null,fd:1", "ssl=null", "quiet", "panic=1",
		"vec0:transport=tap,ifname=" + lan + ",depth=128,gro=1",
		"vec1:transport=tap,ifname=" + manage + ",depth=64,gro=1",
		fmt.Sprintf("lab_guest=%d", g.Number), "lab_share=" + share,
		"lab_ip=" + g.IP(), "lab_ip6=" + g.IP6(),
		"lab_manage=" + manageIP(g.Number), "lab_host=" + manageHostIP(g.Number),
	}
	if g.opts.DiskMB > 0 {
		argv = append(argv, "ubd0="+g.disk())
	}
	// UML keeps the guest's memory in an unlinked file in TMPDIR. Its helpers and the guest's programs are processes
	// of the host which the end of the kernel alone would leave stopped for ever.
	p, err := startProc(procSpec{name: g.Name(), argv: argv, net: g.net, log: g.log, ownPIDs: true, env: []string{"TMPDIR=" + memoryDir(g.dir, g.opts.MemoryMB)}})
	if err != nil {
		return err
	}
	hello := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			hello <- err
			return
		}
		defer c.Close()
		var h guestrpc.Hello
		if err = guestrpc.ReadJSON(bufio.NewReader(c), guestrpc.KindHello, &h); err == nil && h.Error != "" {
			err = errors.New(h.Error)
		}
		g.Kernel = h.Kernel
		hello <- err
	}()
	fail := func(err error) error {
		p.Kill()
		l.Close()
		return fmt.Errorf("boot %s: %w\n%s", g.Name(), err, tailFile(g.log, 20))
	}
	select {
	case err = <-hello:
		if err != nil {
			return fail(err)
		}
	case <-p.Done():
		err := fail(errors.New("the kernel ended"))
		<-hello
		return err
	case <-ctx.Done():
		err := fail(context.Cause(ctx))
		<-hello
		return err
	}
	g.proc = p
	if g.opts.DiskMB > 0 {
		if _, err := g.run(ctx, p, GuestCommand{Argv: []string{"sh", "-c", "mkdir -p /disk && mount -t ext4 /dev/ubda /disk"}}); err != nil {
			return fail(err)
		}
	}
	return nil
}

// memoryDir is a directory in memory with room for mb MiB, or else the fallback; containers have small ones.
func memoryDir(fallback string, mb int) string {
	const shm = "/dev/shm"
	var st unix.Statfs_t
	if err := unix.Statfs(shm, &st); err != nil || int64(st.Bavail)*st.Bsize < int64(mb)<<20 {
		return fallback
	}
	return shm
}

// On reports whether the guest is switched on.
func (g *Guest) On() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.proc != nil && g.proc.Alive()
}

// Kill switches the guest off, like a loss of power. PowerOn brings it back.
func (g *Guest) Kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.proc != nil {
		g.proc.Kill()
		g.proc = nil
	}
}

// Close switches the guest off for good.
func (g *Guest) Close() error {
	g.Kill()
	return nil
}

// Cut unplugs the guest from the lab's network: its packets and those for it vanish, without any notice to either
// side. Commands still reach it.
func (g *Guest) Cut(ctx context.Context) error { return g.net.ip(ctx, "link set "+g.lan+" nomaster") }

// Heal plugs the guest in again.
func (g *Guest) Heal(ctx context.Context) error {
	return g.net.ip(ctx, "link set "+g.lan+" master br0")
}

// Console returns the last lines that the guest's kernel and agent printed.
func (g *Guest) Console(lines int) string { return tailFile(g.log, lines) }

// GuestCommand is a command to run in a guest.
type GuestCommand struct {
	Argv   []string
	Env    []string  // added to the guest's environment
	Dir    string    // "/" if empty
	Stdin  io.Reader // nothing if nil
	Stdout io.Writer // besides Result.Stdout
	UID    uint32
	GID    uint32
	Groups []uint32 // supplementary groups
}

// Run runs a program in the guest and waits for it. An exit code other than 0 is a *CommandError; the Result is
// filled in any case. When ctx ends the program and its process group are killed.
func (g *Guest) Run(ctx context.Context, argv ...string) (Result, error) {
	return g.RunCommand(ctx, GuestCommand{Argv: argv})
}

// Sh runs a shell script in the guest, with -e: the first command that fails ends it.
func (g *Guest) Sh(ctx context.Context, script string) (Result, error) {
	return g.Run(ctx, "sh", "-ec", script)
}

// RunCommand is Run with all there is to choose. Many commands may run at once.
func (g *Guest) RunCommand(ctx context.Context, c GuestCommand) (Result, error) {
	g.mu.Lock()
	p := g.proc
	g.mu.Unlock()
	if p == nil {
		return Result{Code: -1}, fmt.Errorf("%s is switched off", g.Name())
	}
	return g.run(ctx, p, c)
}

func (g *Guest) run(ctx context.Context, p *Proc, c GuestCommand) (Result, error) {
	conn, err := g.net.Dial(ctx, "tcp", net.JoinHostPort(manageIP(g.Number), strconv.Itoa(guestrpc.Port)))
	if err != nil {
		return Result{Code: -1}, fmt.Errorf("%s: command channel: %w", g.Name(), errors.Join(err, p.unexpectedEnd()))
	}
	defer conn.Close()
	// The end of ctx ends what is sent, for which the agent kills the program and tells: who killed it may unmount what
	// it used. The end of the kernel breaks the connection, which ends every read and write below.
	watched := make(chan struct{})
	defer close(watched)
	go func() {
		defer conn.Close()
		select {
		case <-ctx.Done():
			if tcp, ok := conn.(*net.TCPConn); !ok || tcp.CloseWrite() != nil {
				return
			}
		case <-p.Done():
			return
		case <-watched:
			return
		}
		select {
		case <-time.After(killTimeout):
		case <-p.Done():
		case <-watched:
		}
	}()

	w := guestrpc.NewWriter(conn)
	if err := w.JSON(guestrpc.KindRequest, guestrpc.Request{
		Argv: c.Argv, Env: c.Env, Dir: c.Dir, UID: c.UID, GID: c.GID, Groups: c.Groups,
	}); err != nil {
		return Result{Code: -1}, g.broken(ctx, p, c, Result{}, err)
	}
	go func() {
		// A reader that never ends ends with its first write after the connection is closed.
		if c.Stdin != nil {
			if _, err := io.Copy(w.Stream(guestrpc.KindStdin), c.Stdin); err != nil {
				return
			}
		}
		_ = w.Frame(guestrpc.KindEOF, nil)
	}()

	var out, errOut bytes.Buffer
	r := bufio.NewReader(conn)
	for {
		k, b, err := guestrpc.ReadFrame(r)
		if err != nil {
			return Result{Stdout: out.String(), Stderr: errOut.String(), Code: -1},
				g.broken(ctx, p, c, Result{Stdout: out.String(), Stderr: errOut.String()}, err)
		}
		switch k {
		case guestrpc.KindStdout:
			out.Write(b)
			if c.Stdout != nil {
				if _, err := c.Stdout.Write(b); err != nil {
					return Result{Code: -1}, err
				}
			}
		case guestrpc.KindStderr:
			errOut.Write(b)
		case guestrpc.KindExit:
			var x guestrpc.Exit
			if err := json.Unmarshal(b, &x); err != nil {
				return Result{Code: -1}, err
			}
			res := Result{Stdout: out.String(), Stderr: errOut.String(), Code: x.Code}
			if x.Code == 0 {
				return res, nil
			}
			if ctx.Err() != nil {
				return res, g.broken(ctx, p, c, res, nil)
			}
			var cause error
			if x.Error != "" {
				cause = errors.New(x.Error)
			}
			return res, &CommandError{Where: g.Name(), Argv: c.Argv, Result: res, Err: cause}
		}
	}
}

// broken explains a command whose connection broke.
func (g *Guest) broken(ctx context.Context, p *Proc, c GuestCommand, r Result, err error) error {
	r.Code = -1
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case !p.Alive():
		err = fmt.Errorf("the guest went off: %w", err)
	}
	return &CommandError{Where: g.Name(), Argv: c.Argv, Result: r, Err: err}
}

// WriteFile writes a file in the guest with the given content and mode 0644.
func (g *Guest) WriteFile(ctx context.Context, path string, content []byte) error {
	_, err := g.RunCommand(ctx, GuestCommand{Argv: []string{"dd", "bs=1M", "status=none", "of=" + path}, Stdin: bytes.NewReader(content)})
	return err
}

// ReadFile reads a file in the guest.
func (g *Guest) ReadFile(ctx context.Context, path string) ([]byte, error) {
	r, err := g.Run(ctx, "cat", path)
	return []byte(r.Stdout), err
}

// Exec starts a program in the guest and returns at once. Wait gives its end, Kill ends it.
func (g *Guest) Exec(ctx context.Context, c GuestCommand) *GuestJob {
	ctx, cancel := context.WithCancel(ctx)
	j := &GuestJob{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(j.done)
		defer cancel()
		j.res, j.err = g.RunCommand(ctx, c)
	}()
	return j
}

// GuestJob is a program running in a guest.
type GuestJob struct {
	cancel context.CancelFunc
	done   chan struct{}
	res    Result // read only after done
	err    error  // read only after done
}

// Wait waits for the program's end.
func (j *GuestJob) Wait() (Result, error) {
	<-j.done
	return j.res, j.err
}

// Done is closed at the program's end.
func (j *GuestJob) Done() <-chan struct{} { return j.done }

// Kill kills the program and waits.
func (j *GuestJob) Kill() {
	j.cancel()
	<-j.done
}

// Lines splits the output of a command.
func (r Result) Lines() []string {
	s := strings.TrimRight(r.Stdout, "\n")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// killTimeout is how long a killed program may take to end: one that the kernel does not let go ends later.
const killTimeout = 30 * time.Second

// defaultTimeout bounds whatever a test does without a time of its own.
const defaultTimeout = 10 * time.Minute
