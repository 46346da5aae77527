package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// procSpec says how one child process is started.
type procSpec struct {
	name    string            // for messages
	argv    []string          // program (looked up in PATH) and arguments
	env     []string          // added to the environment of the test
	dir     string            // working directory, "" for that of the test
	net     *Net              // namespace it runs in, nil for the host's
	private map[string]string // directory -> directory to show in its place, to this process only
	tree    string            // directory that is the process's root, "" for the host's
	show    []string          // directories of the host that are seen in tree under the same names
	log     string            // file that stdout and stderr are appended to
	ownPIDs bool              // make it process 1 of a PID namespace: all its descendants end with it
	stdin   io.Reader
	stdout  io.Writer // instead of log
	stderr  io.Writer // instead of log
}

// Proc is a running child process. It dies with the test binary, however that ends: the kernel kills it
// (PR_SET_PDEATHSIG) when the thread that started it is gone, and that thread belongs to the goroutine which
// waits for the process and for nothing else.
type Proc struct {
	// Name is what messages call the process.
	Name string
	// LogPath is the file holding its output, empty where the output went elsewhere.
	LogPath string

	pid  int
	done chan struct{} // closed once the process has been waited for
	err  error         // result of Wait; read only after done

	mu       sync.Mutex
	expected bool // the harness ended it, so its end is no fault; guarded by mu
}

// startProc starts a process in its own process group.
func startProc(s procSpec) (*Proc, error) {
	argv := s.argv
	if len(s.private) > 0 {
		argv = privateArgv(s.private, argv)
	}
	if s.tree != "" {
		argv = treeArgv(s.tree, s.show, argv)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Dir = s.dir
	cmd.Stdin = s.stdin
	cmd.Stdout, cmd.Stderr = s.stdout, s.stderr
	cmd.WaitDelay = 2 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if len(s.private) > 0 || s.tree != "" {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	if s.ownPIDs {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	}
	if s.log != "" {
		f, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if cmd.Stdout == nil {
			cmd.Stdout = f
		}
		if cmd.Stderr == nil {
			cmd.Stderr = f
		}
	}
	p := &Proc{Name: s.name, LogPath: s.log, done: make(chan struct{})}
	started := make(chan error, 1)
	subreaper()
	go func() {
		// The thread stays locked until this goroutine ends and is then thrown away: it may be in another
		// namespace, and its life is what the child's parent-death signal hangs on.
		runtime.LockOSThread()
		if s.net != nil {
			if err := s.net.enter(); err != nil {
				started <- err
				return
			}
		}
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("start %s: %w", s.name, err)
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		p.err = cmd.Wait()
		// What the process left behind in its group (UML's helpers) goes with it.
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		reapGroup(p.pid)
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// subreaper makes orphans of our children ours, so that none is left as a zombie where process 1 reaps nobody.
var subreaper = sync.OnceFunc(func() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // known since Linux 3.4
})

// reapGroup waits for the orphans of a process group whose leader has been waited for and whose members have been
// killed.
func reapGroup(pgid int) {
	for {
		if _, err := syscall.Wait4(-pgid, nil, 0, nil); err != nil && err != syscall.EINTR {
			return // ECHILD: nobody left
		}
	}
}

// privateArgv wraps a command so that, inside a mount namespace of its own, some directories are replaced.
func privateArgv(private map[string]string, argv []string) []string {
	var sh strings.Builder
	args := []string{}
	for at, dir := range private {
		fmt.Fprintf(&sh, "mount --bind \"$1\" \"$2\" && shift 2 && ")
		args = append(args, dir, at)
	}
	sh.WriteString(`exec "$@"`)
	return append(append([]string{"/bin/sh", "-c", sh.String(), "sh"}, args...), argv...)
}

// treeArgv wraps a command so that, inside a mount namespace of its own, it sees a directory tree as its root.
func treeArgv(tree string, show, argv []string) []string {
	const sh = `tree=$1 n=$2; shift 2
mount --rbind /dev "$tree/dev" && mount -t proc proc "$tree/proc" && mount --rbind /sys "$tree/sys" || exit 126
while [ "$n" -gt 0 ]; do mkdir -p "$tree$1" && mount --bind "$1" "$tree$1" || exit 126; shift; n=$((n-1)); done
exec chroot "$tree" "$@"`
	args := append([]string{"/bin/sh", "-c", sh, "sh", tree, strconv.Itoa(len(show))}, show...)
	return append(args, argv...)
}

// Pid returns the process id on the host.
func (p *Proc) Pid() int { return p.pid }

// Done is closed when the process has ended.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Alive reports whether the process still runs.
func (p *Proc) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends a signal to the process itself.
func (p *Proc) Signal(sig syscall.Signal) error {
	if !p.Alive() {
		return os.ErrProcessDone
	}
	return syscall.Kill(p.pid, sig)
}

// Kill ends the process and its group with SIGKILL and waits for it.
func (p *Proc) Kill() {
	p.expectEnd()
	if p.Alive() {
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	}
	<-p.done
}

// Stop ends the process with SIGTERM and waits. After the grace time it is killed and Stop returns an error, as
// it does when the process ended with a failure of its own.
func (p *Proc) Stop(grace time.Duration) error {
	p.expectEnd()
	if !p.Alive() {
		return nil
	}
	_ = syscall.Kill(p.pid, syscall.SIGCONT)
	_ = syscall.Kill(p.pid, syscall.SIGTERM)
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.done:
		var ee *exec.ExitError
		if errors.As(p.err, &ee) && ee.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM {
			return nil
		}
		if p.err != nil {
			return fmt.Errorf("%s ended on SIGTERM with: %w", p.Name, p.err)
		}
		return nil
	case <-t.C:
		p.Kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM and was killed", p.Name, grace)
	}
}

func (p *Proc) expectEnd() {
	p.mu.Lock()
	p.expected = true
	p.mu.Unlock()
}

// unexpectedEnd returns an error if the process ended although nobody here asked for it.
func (p *Proc) unexpectedEnd() error {
	if p == nil || p.Alive() {
		return nil
	}
	p.mu.Lock()
	expected := p.expected
	p.mu.Unlock()
	if expected {
		return nil
	}
	return fmt.Errorf("%s ended by itself: %v\n%s", p.Name, p.err, tailFile(p.LogPath, 20))
}

// Result is what a finished command left.
type Result struct {
	Stdout string
	Stderr string
	Code   int // exit code; -1 when a signal ended it
}

// CommandError is a command that did not end with code 0.
type CommandError struct {
	Where string // "host", "guest0"
	Argv  []string
	Result
	Err error // cause, where there is more to say than the code
}

func (e *CommandError) Error() string {
	msg := fmt.Sprintf("%s: %s: exit code %d", e.Where, strings.Join(e.Argv, " "), e.Code)
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	if out := lastLines(e.Stderr+e.Stdout, 15); out != "" {
		msg += "\n" + out
	}
	return msg
}

func (e *CommandError) Unwrap() error { return e.Err }

// runCommand runs a program to its end. An exit code other than 0 is a *CommandError.
func runCommand(ctx context.Context, s procSpec) (Result, error) {
	var out, errOut bytes.Buffer
	if s.stdout == nil {
		s.stdout = &out
	}
	if s.stderr == nil {
		s.stderr = &errOut
	}
	if s.name == "" {
		s.name = filepath.Base(s.argv[0])
	}
	p, err := startProc(s)
	if err != nil {
		return Result{Code: -1}, &CommandError{Where: "host", Argv: s.argv, Result: Result{Code: -1}, Err: err}
	}
	var ctxErr error
	select {
	case <-p.done:
	case <-ctx.Done():
		ctxErr = context.Cause(ctx)
		p.Kill()
	}
	r := Result{Stdout: out.String(), Stderr: errOut.String()}
	var ee *exec.ExitError
	switch {
	case ctxErr != nil:
		r.Code = -1
	case errors.As(p.err, &ee):
		r.Code = ee.ExitCode()
	case p.err != nil:
		r.Code, ctxErr = -1, p.err
	}
	if r.Code != 0 {
		return r, &CommandError{Where: "host", Argv: s.argv, Result: r, Err: ctxErr}
	}
	return r, nil
}

// tailFile returns the last lines of a file, or why it cannot be read.
func tailFile(path string, lines int) string {
	if path == "" {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	const most = 64 << 10
	if st, err := f.Stat(); err == nil && st.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return err.Error()
	}
	return lastLines(string(b), lines)
}

func lastLines(s string, n int) string {
	l := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(l) > n {
		l = l[len(l)-n:]
	}
	return strings.Join(l, "\n")
}

// lockFile takes an exclusive lock on a file without waiting. The lock goes with the process.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
