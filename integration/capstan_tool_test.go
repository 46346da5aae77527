package integration

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var trialTools struct {
	mu sync.Mutex
	in map[string]string // share of a guest -> name of the tool in the guest; guarded by mu
}

// trialTool puts trialtool where a guest can run it, and returns its name there.
func trialTool(tb testing.TB, g *Guest) string {
	tb.Helper()
	trialTools.mu.Lock()
	defer trialTools.mu.Unlock()
	if at, ok := trialTools.in[g.Share]; ok {
		return at
	}
	tool, err := buildTool(Context(tb), "trialtool", "capstan/integration/internal/trialtool")
	if err != nil {
		tb.Fatal(err)
	}
	if err := copyFile(tool, filepath.Join(g.Share, "trialtool"), 0o755); err != nil {
		tb.Fatal(err)
	}
	if trialTools.in == nil {
		trialTools.in = map[string]string{}
	}
	trialTools.in[g.Share] = "/lab/trialtool"
	return "/lab/trialtool"
}

// session is a running trialtool that a test talks with, line by line.
type session struct {
	tb    testing.TB
	job   *GuestJob
	in    *io.PipeWriter
	lines chan string // closed at the end of the output
}

// startTool starts a command of trialtool in a guest. A zero uid is root.
func startTool(tb testing.TB, ctx context.Context, g *Guest, c GuestCommand, args ...string) *session {
	tb.Helper()
	c.Argv = append([]string{trialTool(tb, g)}, args...)
	return startProgram(tb, ctx, g, c)
}

// startProgram starts any program to talk with.
func startProgram(tb testing.TB, ctx context.Context, g *Guest, c GuestCommand) *session {
	tb.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c.Stdin, c.Stdout = inR, outW
	s := &session{tb: tb, in: inW, lines: make(chan string, 100_000)}
	s.job = g.Exec(ctx, c)
	go func() {
		<-s.job.Done()
		outW.Close()
		inR.Close()
	}()
	go func() {
		defer close(s.lines)
		for sc := bufio.NewScanner(outR); sc.Scan(); {
			s.lines <- sc.Text()
		}
		_, _ = io.Copy(io.Discard, outR) // a line too long must not stop the command
	}()
	tb.Cleanup(func() { inW.Close(); s.job.Kill() })
	return s
}

// next returns the next line of output; it ends the test if there is none within a time.
func (s *session) next(within time.Duration) string {
	s.tb.Helper()
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case l, ok := <-s.lines:
		if !ok {
			_, err := s.job.Wait()
			s.tb.Fatalf("the program ended: %v", err)
		}
		return l
	case <-t.C:
		s.tb.Fatalf("no line within %v", within)
	}
	return ""
}

// tell writes a line to the program.
func (s *session) tell(format string, args ...any) {
	s.tb.Helper()
	if _, err := fmt.Fprintf(s.in, format+"\n", args...); err != nil {
		s.tb.Fatal(err)
	}
}

// ask is tell and next; the program has half a minute.
func (s *session) ask(format string, args ...any) string {
	s.tb.Helper()
	s.tell(format, args...)
	return s.next(30 * time.Second)
}

// must is ask, and ends the test unless the answer is "ok"; it returns what follows that.
func (s *session) must(format string, args ...any) string {
	s.tb.Helper()
	l := s.ask(format, args...)
	rest, ok := strings.CutPrefix(l, "ok")
	if !ok {
		s.tb.Fatalf("%s: %s", fmt.Sprintf(format, args...), l)
	}
	return strings.TrimSpace(rest)
}

// wait waits for the program's end, ends the test if it failed, and returns the lines not read so far.
func (s *session) wait() []string {
	s.tb.Helper()
	if _, err := s.job.Wait(); err != nil {
		s.tb.Fatal(err)
	}
	var l []string
	for line := range s.lines {
		l = append(l, line)
	}
	return l
}

// close ends the input of the program and waits for it.
func (s *session) close() {
	s.tb.Helper()
	s.in.Close()
	s.wait()
}

// runTool runs a command of trialtool to its end and returns its output; it ends the test if it failed.
func runTool(tb testing.TB, ctx context.Context, g *Guest, args ...string) string {
	tb.Helper()
	return runToolAs(tb, ctx, g, GuestCommand{}, args...)
}

func runToolAs(tb testing.TB, ctx context.Context, g *Guest, c GuestCommand, args ...string) string {
	tb.Helper()
	c.Argv = append([]string{trialTool(tb, g)}, args...)
	r, err := g.RunCommand(ctx, c)
	if err != nil {
		tb.Fatal(err)
	}
	return r.Stdout
}

// witness shows an export's tree without capstan: a directory of this machine, or a native mount in a guest.
type witness struct {
	g  *Guest // nil: this machine
	at string
}

func (w witness) sh(ctx context.Context, script string, args ...string) (string, error) {
	argv := append([]string{"sh", "-ec", script, "sh"}, args...)
	var r Result
	var err error
	if w.g == nil {
		r, err = runCommand(ctx, procSpec{argv: argv, dir: w.at})
	} else {
		r, err = w.g.RunCommand(ctx, GuestCommand{Argv: argv, Dir: w.at})
	}
	return strings.TrimSpace(r.Stdout), err
}

// sum returns the SHA-256 of a file.
func (w witness) sum(tb testing.TB, ctx context.Context, name string) string {
	tb.Helper()
	out, err := w.sh(ctx, `sha256sum < "$1" | cut -d' ' -f1`, name)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// checkRecords checks the first count records of a file.
func (w witness) checkRecords(tb testing.TB, ctx context.Context, name string, seed, count int) {
	tb.Helper()
	tool := ""
	if w.g != nil {
		tool = trialTool(tb, w.g)
	} else {
		var err error
		if tool, err = buildTool(ctx, "trialtool", "capstan/integration/internal/trialtool"); err != nil {
			tb.Fatal(err)
		}
	}
	if _, err := w.sh(ctx, `"$1" check-records "$2" "$3" "$4"`, tool, name, fmt.Sprint(seed), fmt.Sprint(count)); err != nil {
		tb.Errorf("%s: acknowledged records are missing: %v", name, err)
	}
}

// servedTree is an export of a gateway of its own, with a witness.
type servedTree struct {
	engine string
	gw     *gateway
	w      witness
}

// path is what clients mount.
func (s servedTree) path() string { return "/t" }

// ownTree starts a gateway with one export of a fresh directory on an engine, for the length of a test. Guest 1
// mounts CephFS natively as the witness of libcephfs.
func ownTree(tb testing.TB, engine string, c gatewayConfig) servedTree {
	tb.Helper()
	s := servedTree{engine: engine}
	switch engine {
	case "memory":
		c.exports = append(c.exports, memoryExport(s.path(), 1))
		s.gw = ownGateway(tb, c)
	case "local":
		c.exports = append(c.exports, localExport(s.path(), 1, "DIR/local"))
		s.gw = ownGateway(tb, c)
		s.w = witness{at: s.gw.local()}
	case "libcephfs":
		requireLibCephFS(tb)
		cluster, k := lab.Cluster(tb), lab.Guest(tb, 1)
		at := MountCeph(tb, k, CephMount{Cluster: cluster})
		dir := fmt.Sprintf("tree-%d", time.Now().UnixNano())
		if _, err := k.Run(Context(tb), "mkdir", "-m", "777", at+"/"+dir); err != nil {
			tb.Fatal(err)
		}
		s.w = witness{g: k, at: at + "/" + dir}
		c.exports = append(c.exports, cephExport(cluster, s.path(), 1, "/"+dir))
		s.gw = ownGateway(tb, c)
	default:
		tb.Fatalf("engine %q", engine)
	}
	return s
}

// mountStat returns how often the kernel of a guest has made a call on a mount ("WRITE"), and how many bytes it
// sent for it.
func mountStat(tb testing.TB, ctx context.Context, g *Guest, at, op string) (calls, bytes int64) {
	tb.Helper()
	out := mustSh(tb, ctx, g, "cat /proc/self/mountstats")
	here := false
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) > 4 && f[0] == "device" {
			here = f[4] == at
		}
		if here && len(f) > 5 && f[0] == op+":" {
			if _, err := fmt.Sscan(f[1], &calls); err != nil {
				tb.Fatal(err)
			}
			if _, err := fmt.Sscan(f[4], &bytes); err != nil {
				tb.Fatal(err)
			}
			return calls, bytes
		}
	}
	tb.Fatalf("no %s of %s in mountstats", op, at)
	return 0, 0
}

// dropCaches makes a guest forget what it has read.
func dropCaches(tb testing.TB, ctx context.Context, g *Guest) {
	tb.Helper()
	mustSh(tb, ctx, g, "echo 3 > /proc/sys/vm/drop_caches")
}
