package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Environment variables of the lab.
const (
	// EnvRequire set to 1 makes a test fail where it would be skipped for want of a peer; CI sets it.
	EnvRequire = "CAPSTAN_REQUIRE_PEERS"
	// EnvPeerLog names a file to which every test that used or lacked a real peer appends one line:
	// PASS, FAIL or SKIP, package, test, peers or reason, separated by tabs.
	EnvPeerLog = "CAPSTAN_PEER_LOG"
	// EnvScratch names the directory under which scratch directories are made; os.TempDir() if unset.
	EnvScratch = "CAPSTAN_LAB_DIR"
	// EnvKeep set to 1 keeps scratch directories, logs in them, for a look afterwards.
	EnvKeep = "CAPSTAN_LAB_KEEP"
)

// Need is something that a test needs from the machine.
type Need string

// What tests may need. All of it comes with the Debian packages of packages.txt.
const (
	NeedRoot    Need = "root"        // namespaces, taps, mounts
	NeedCeph    Need = "ceph"        // Ceph daemons and tools
	NeedGuest   Need = "linux guest" // user-mode Linux; implies NeedRoot
	NeedGanesha Need = "nfs-ganesha" // reference server; implies NeedRoot
	NeedLibNFS  Need = "libnfs"      // nfs-ls, nfs-cat, nfs-cp
)

// needProgram is the prefix of a Need for one program.
const needProgram = "program "

// NeedProgram is the need for a program in PATH.
func NeedProgram(name string) Need { return Need(needProgram + name) }

var needPrograms = map[Need][]string{
	NeedCeph:    {"ceph", "ceph-mon", "ceph-mgr", "ceph-osd", "ceph-mds", "monmaptool"},
	NeedGuest:   {"linux.uml", "ip", "mkfs.ext4", "mount.nfs", "modprobe"},
	NeedGanesha: {"ganesha.nfsd", "rpcbind"},
	NeedLibNFS:  {"nfs-ls", "nfs-cat", "nfs-cp"},
}

// Missing says what the machine lacks for the given needs, nil if nothing.
func Missing(needs ...Need) error {
	var errs []error
	root := false
	for _, n := range needs {
		if p, ok := strings.CutPrefix(string(n), needProgram); ok {
			if _, err := exec.LookPath(p); err != nil {
				errs = append(errs, fmt.Errorf("%s is not installed", n))
			}
		}
		switch n {
		case NeedRoot, NeedGuest, NeedGanesha:
			root = true
		}
		for _, p := range needPrograms[n] {
			if _, err := exec.LookPath(p); err != nil {
				errs = append(errs, fmt.Errorf("%s: program %s is not installed", n, p))
			}
		}
		if n == NeedGuest {
			if _, err := os.Stat("/dev/net/tun"); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", n, err))
			}
			if m, _ := filepath.Glob("/usr/lib/uml/modules/*/modules.dep"); len(m) == 0 {
				errs = append(errs, fmt.Errorf("%s: no modules in /usr/lib/uml/modules", n))
			}
		}
		if n == NeedGanesha && !haveGaneshaCeph() {
			errs = append(errs, fmt.Errorf("%s: package nfs-ganesha-ceph is not installed", n))
		}
	}
	if root {
		if os.Geteuid() != 0 {
			errs = append(errs, errors.New("not root"))
		} else if err := rootWorks(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// rootWorks tells root on a machine from root in a container that may not make network namespaces.
var rootWorks = sync.OnceValue(func() error {
	_, err := runCommand(context.Background(), procSpec{argv: []string{"unshare", "-n", "-m", "true"}})
	if err != nil {
		return fmt.Errorf("root may not make namespaces: %w", err)
	}
	return nil
})

// Require skips the test, naming what is missing, unless the machine has all of needs. With EnvRequire it fails
// instead.
func Require(tb testing.TB, needs ...Need) {
	tb.Helper()
	err := Missing(needs...)
	if err == nil {
		return
	}
	reason := strings.ReplaceAll(err.Error(), "\n", "; ")
	if os.Getenv(EnvRequire) == "1" {
		logPeer(tb, "FAIL", reason)
		tb.Fatalf("%s=1, but: %s", EnvRequire, reason)
		return
	}
	logPeer(tb, "SKIP", reason)
	tb.Skipf("no real peer: %s", reason)
}

var peers struct {
	mu    sync.Mutex
	names map[testing.TB][]string // guarded by mu
}

// Peer records that the test runs against real peers ("linux-6.1 nfs4.1", "ceph-16.2.15"). When the test ends it is
// written to the file named by EnvPeerLog with its outcome.
func Peer(tb testing.TB, names ...string) {
	tb.Helper()
	peers.mu.Lock()
	defer peers.mu.Unlock()
	if peers.names == nil {
		peers.names = make(map[testing.TB][]string)
	}
	if _, ok := peers.names[tb]; !ok {
		tb.Cleanup(func() {
			peers.mu.Lock()
			list := peers.names[tb]
			delete(peers.names, tb)
			peers.mu.Unlock()
			outcome := "PASS"
			switch {
			case tb.Failed():
				outcome = "FAIL"
			case tb.Skipped():
				outcome = "SKIP"
			}
			logPeer(tb, outcome, strings.Join(list, ", "))
		})
	}
	for _, n := range names {
		if !contains(peers.names[tb], n) {
			peers.names[tb] = append(peers.names[tb], n)
		}
	}
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// logPeer appends one line to the peer log. One write of a short line with O_APPEND is not mixed with the lines of
// other packages' tests.
func logPeer(tb testing.TB, outcome, what string) {
	path := os.Getenv(EnvPeerLog)
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		tb.Errorf("%s: %v", EnvPeerLog, err)
		return
	}
	defer f.Close()
	pkg := strings.TrimSuffix(filepath.Base(os.Args[0]), ".test")
	if _, err := fmt.Fprintf(f, "%s\t%s\t%s\t%s\n", outcome, pkg, tb.Name(), what); err != nil {
		tb.Errorf("%s: %v", EnvPeerLog, err)
	}
}

const scratchPrefix = "capstan-lab-"

var scratch struct {
	mu   sync.Mutex
	dir  string   // guarded by mu; "" until first needed
	lock *os.File // guarded by mu; locked as long as this process lives
	n    int      // guarded by mu; directories handed out
}

// Scratch makes an empty directory for one lab, in a directory of this process that CleanUp removes. Its path is
// short, since sockets live in it. A process that dies leaves it to be removed by the next one that comes here.
func Scratch(name string) (string, error) {
	scratch.mu.Lock()
	defer scratch.mu.Unlock()
	if scratch.dir == "" {
		base := os.Getenv(EnvScratch)
		if base == "" {
			base = os.TempDir()
		}
		sweep(base)
		dir, err := os.MkdirTemp(base, scratchPrefix)
		if err != nil {
			return "", err
		}
		// Daemons of a lab never change their user, but programs in guests run as others and read here.
		if err := os.Chmod(dir, 0o755); err != nil {
			return "", err
		}
		lock, err := lockFile(filepath.Join(dir, "lock"))
		if err != nil {
			return "", err
		}
		scratch.dir, scratch.lock = dir, lock
	}
	scratch.n++
	dir := filepath.Join(scratch.dir, fmt.Sprintf("%s%d", name, scratch.n))
	return dir, os.Mkdir(dir, 0o755)
}

// sweep removes what processes that died left under base. A directory that was made a moment ago may not be locked
// yet, so young ones are left alone.
func sweep(base string) {
	dirs, _ := filepath.Glob(filepath.Join(base, scratchPrefix+"*"))
	for _, d := range dirs {
		st, err := os.Stat(d)
		if err != nil || time.Since(st.ModTime()) < time.Minute {
			continue
		}
		if _, err := os.Stat(filepath.Join(d, "keep")); err == nil {
			continue
		}
		f, err := lockFile(filepath.Join(d, "lock"))
		if errors.Is(err, unix.EWOULDBLOCK) || err != nil {
			continue
		}
		_ = os.RemoveAll(d)
		f.Close()
	}
}

// CleanUp removes the scratch directories of this process. Main calls it.
func CleanUp() error {
	scratch.mu.Lock()
	defer scratch.mu.Unlock()
	if scratch.dir == "" {
		return nil
	}
	dir := scratch.dir
	scratch.dir = ""
	defer scratch.lock.Close()
	if os.Getenv(EnvKeep) == "1" {
		fmt.Fprintln(os.Stderr, "integration: kept", dir)
		return os.WriteFile(filepath.Join(dir, "keep"), nil, 0o644)
	}
	return os.RemoveAll(dir)
}

var tools struct {
	mu    sync.Mutex
	paths map[string]string // build command -> binary; guarded by mu
}

// buildTool builds a program of this module once per process, static, and returns its path.
func buildTool(ctx context.Context, name, pkg string) (string, error) {
	return buildGo(ctx, name, pkg, []string{"CGO_ENABLED=0"})
}

// buildGo runs go build for a package with further arguments and environment, once for each combination.
func buildGo(ctx context.Context, name, pkg string, env []string, args ...string) (string, error) {
	key := strings.Join(append(append([]string{pkg}, env...), args...), " ")
	tools.mu.Lock()
	defer tools.mu.Unlock()
	if p, ok := tools.paths[key]; ok {
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	dir, err := Scratch("bin")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	argv := append([]string{"go", "build", "-o", path}, args...)
	if _, err := runCommand(ctx, procSpec{argv: append(argv, pkg), env: env}); err != nil {
		return "", fmt.Errorf("build %s: %w", pkg, err)
	}
	if tools.paths == nil {
		tools.paths = make(map[string]string)
	}
	tools.paths[key] = path
	return path, nil
}

// poll calls f until it reports true or an error, or ctx ends; then the error says what was waited for.
func poll(ctx context.Context, what string, f func() (bool, error)) error {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for {
		ok, err := f()
		if ok || err != nil {
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
}
