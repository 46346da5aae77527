package integration

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// crashTrees runs f on each engine that keeps data, and with each version of the protocol.
func crashTrees(t *testing.T, f func(t *testing.T, s servedTree, version string)) {
	for _, engine := range []string{"local", "libcephfs"} {
		for _, version := range versions {
			t.Run(engine+"/v"+version, func(t *testing.T) {
				f(t, ownTree(t, engine, gatewayConfig{lease: "5s"}), version)
			})
		}
	}
}

// restart kills a gateway and starts it again.
func restart(tb testing.TB, ctx context.Context, gw *gateway, off time.Duration) {
	tb.Helper()
	gw.Kill()
	if off > 0 {
		select {
		case <-time.After(off):
		case <-ctx.Done():
		}
	}
	startAgain(tb, ctx, gw)
}

// startAgain starts a gateway that was killed as a service manager does: again, if it gives up. With libcephfs it
// does while the cluster still waits for what the killed process held.
func startAgain(tb testing.TB, ctx context.Context, gw *gateway) {
	tb.Helper()
	begin := time.Now()
	for try := 1; ; try++ {
		err := gw.Start(ctx)
		if err == nil {
			if try > 1 {
				tb.Logf("the gateway started at try %d, after %.1f s", try, time.Since(begin).Seconds())
			}
			return
		}
		if try == 4 || ctx.Err() != nil {
			tb.Fatal(err)
		}
	}
}

// lastAck returns the number of the last record of which a writer heard that it is stable, -1 for none.
func lastAck(lines []string) int {
	last := -1
	for _, l := range lines {
		if n, ok := strings.CutPrefix(l, "ack "); ok {
			if i, err := strconv.Atoi(n); err == nil {
				last = i
			}
		}
	}
	return last
}

// The server is killed again and again while programs write, with and without fsync, and work on names. They notice
// nothing but the wait, and what they wrote is there, seen without capstan.
func TestKillDuringWrites(t *testing.T) {
	crashTrees(t, func(t *testing.T, s servedTree, version string) {
		g := lab.Guest(t, 0)
		ctx := longContext(t, 6*time.Minute)
		at := mustMount(t, g, s.gw.mount(version, s.path()))
		mib, count, entries := sized(48, 512), sized(120, 2000), sized(150, 5000)
		records := startTool(t, ctx, g, GuestCommand{}, "records", at+"/records", "1", fmt.Sprint(count))
		streams := []*session{
			startTool(t, ctx, g, GuestCommand{}, "stream", at+"/stream0", "2", fmt.Sprint(mib)),
			startTool(t, ctx, g, GuestCommand{}, "stream", at+"/stream1", "3", fmt.Sprint(mib)),
		}
		names := startTool(t, ctx, g, GuestCommand{}, "metadata", at+"/names", "4", fmt.Sprint(entries))

		for i := range 3 {
			// Between two kills some work gets done: the writer of records is at it.
			for range 8 {
				if l := records.next(3 * time.Minute); !strings.HasPrefix(l, "ack ") {
					t.Fatalf("writer of records: %q", l)
				}
			}
			restart(t, ctx, s.gw, time.Duration(i)*500*time.Millisecond)
		}

		records.wait()
		for i, w := range streams {
			out := w.wait()
			if got := s.w.sum(t, ctx, fmt.Sprintf("stream%d", i)); len(out) != 1 || got != out[0] {
				t.Errorf("stream%d: the checksum is %s, was written as %v", i, got, out)
			}
		}
		out := names.wait()
		var files, refused int
		if _, err := fmt.Sscanf(strings.Join(out, ""), "files %d repeated exclusive creates refused %d", &files, &refused); err != nil {
			t.Errorf("names: %v, %v", out, err)
		}
		if refused > 0 {
			t.Logf("%d exclusive creates were refused when they were sent again", refused)
		}
		s.w.checkRecords(t, ctx, "records", 1, count)
	})
}

// Server and client die at the same moment: what the client's programs were told is stable is there.
func TestKillBothKeepsStableData(t *testing.T) {
	for _, engine := range []string{"local", "libcephfs"} {
		for _, version := range []string{"3", "4.2"} {
			t.Run(engine+"/v"+version, func(t *testing.T) {
				s := ownTree(t, engine, gatewayConfig{lease: "5s"})
				// A guest of its own: what it dies with is nobody's.
				g := lab.Guest(t, 2)
				ctx := longContext(t, 10*time.Minute)
				at, err := g.MountNFS(ctx, s.gw.mount(version, s.path()))
				if err != nil {
					t.Fatal(err)
				}
				Peer(t, "nfs"+version)
				records := startTool(t, ctx, g, GuestCommand{}, "records", at+"/records", "7", "100000")
				noise := startTool(t, ctx, g, GuestCommand{}, "stream", at+"/noise", "8", "4000")
				_ = noise
				last := -1
				for range 30 {
					last = max(last, lastAck([]string{records.next(time.Minute)}))
				}
				s.gw.Kill()
				g.Kill()
				if _, err := records.job.Wait(); err == nil {
					t.Error("the writer outlived its machine")
				}
				for l := range records.lines {
					last = max(last, lastAck([]string{l}))
				}
				if last < 0 {
					t.Fatal("nothing was acknowledged")
				}
				t.Logf("%d records acknowledged", last+1)
				// The new process gives up what the old one held, on which a witness would wait.
				startAgain(t, ctx, s.gw)
				s.w.checkRecords(t, ctx, "records", 7, last+1)
			})
		}
	}
}

// Data that were sent unstable and not committed when the server died are sent again, since its verifier is another.
func TestKillBeforeCommit(t *testing.T) {
	crashTrees(t, func(t *testing.T, s servedTree, version string) {
		g := lab.Guest(t, 0)
		ctx := longContext(t, 4*time.Minute)
		// Eager: without, the client commits by itself what it has been made to send.
		at := mustMount(t, g, s.gw.mount(version, s.path(), "write=eager"))
		const mib = 24
		w := startTool(t, ctx, g, GuestCommand{}, "held", at+"/held", "5", fmt.Sprint(mib))
		if l := w.next(2 * time.Minute); l != "written" {
			t.Fatalf("%q", l)
		}
		_, before := mountStat(t, ctx, g, at, "WRITE")
		restart(t, ctx, s.gw, 0)
		w.tell("go on")
		sum := w.next(2 * time.Minute)
		w.close()
		_, after := mountStat(t, ctx, g, at, "WRITE")
		if before < mib<<20 {
			t.Errorf("only %d bytes were sent before the kill", before)
		}
		if after-before < mib<<20 {
			t.Errorf("%d bytes were sent after it, want %d", after-before, mib<<20)
		}
		if got := s.w.sum(t, ctx, "held"); got != sum {
			t.Errorf("the checksum is %s, was written as %s", got, sum)
		}
	})
}

// Handles outlive a server that is killed and comes back with cold caches: open files, deep directories, the way
// up from them.
func TestHandlesOutliveKill(t *testing.T) {
	crashTrees(t, func(t *testing.T, s servedTree, version string) {
		g := lab.Guest(t, 0)
		ctx := longContext(t, 4*time.Minute)
		at := mustMount(t, g, s.gw.mount(version, s.path()))
		mustSh(t, ctx, g, `cd "$1"; mkdir -p a/b/c/d/e; echo deep >a/b/c/d/e/file; echo to >a/b/link; ln a/b/link a/linked
			mkdir other; i=0; while [ $i -lt 200 ]; do echo $i >other/$i; i=$((i+1)); done`, at)
		ids := func() string {
			return mustSh(t, ctx, g, `cd "$1"; stat -c '%n %i %d' . a a/b a/b/c/d/e a/b/c/d/e/file a/linked; ls -i other | sort`, at)
		}
		before := ids()
		c := startTool(t, ctx, g, GuestCommand{}, "control")
		c.must("open %s/a/b/c/d/e/file rw", at)
		c.must("open %s/gone c", at)
		c.must("write 1 0 before")
		mustSh(t, ctx, g, `rm "$1/gone"; ls -A "$1"`, at)
		shell := startShell(t, ctx, g, at+"/a/b/c/d/e")
		shell.must("ls >/dev/null")

		restart(t, ctx, s.gw, 0)
		dropCaches(t, ctx, g)

		shell.must("ls | grep -qx file && cat file >/dev/null && echo x >new && rm new")
		shell.must("cd .. && ls | grep -qx e && cd ../.. && ls | grep -qx link && pwd -P | grep -q '/a/b$'")
		c.must("write 0 4 er")
		if got := c.must("read 0 0 20"); !strings.HasPrefix(got, "deeper") {
			t.Errorf("the open file has %q", got)
		}
		// A file without a name ends with the server that held it open, unless the client had renamed it.
		c.must("read 1 0 20")
		c.must("close 1")
		c.close()
		if after := ids(); after != before {
			t.Errorf("fileid or fsid changed:\n%s\nwas\n%s", after, before)
		}
		if out := mustSh(t, ctx, g, `cd "$1"; `+sillyGone+`ls -A; rm -rf a other; ls -A`, at); strings.Contains(out, ".nfs") {
			t.Errorf("left over:\n%s", out)
		}
	})
}

// shell is a shell in a directory of a guest that stays there.
type shell struct {
	*session
	n int
}

func startShell(t *testing.T, ctx context.Context, g *Guest, dir string) *shell {
	t.Helper()
	return &shell{session: startProgram(t, ctx, g, GuestCommand{Argv: []string{"sh"}, Dir: dir})}
}

// must runs a command in the shell and ends the test if it fails.
func (s *shell) must(command string) {
	s.tb.Helper()
	s.n++
	s.tell("%s; echo rc %d $?", command, s.n)
	for {
		l := s.next(time.Minute)
		if code, ok := strings.CutPrefix(l, fmt.Sprintf("rc %d ", s.n)); ok {
			if code != "0" {
				s.tb.Fatalf("%s: exit code %s", command, code)
			}
			return
		}
	}
}

// A network that is cut for less than a lease is a pause; one that is cut for longer loses state, but no data.
func TestNetworkCut(t *testing.T) {
	for _, version := range versions {
		t.Run("v"+version, func(t *testing.T) {
			s := ownTree(t, "local", gatewayConfig{lease: "5s"})
			g := lab.Guest(t, 0)
			ctx := longContext(t, 5*time.Minute)
			at := mustMount(t, g, s.gw.mount(version, s.path()))
			t.Cleanup(func() { _ = g.Heal(context.Background()) })
			for _, cut := range []time.Duration{3 * time.Second, 12 * time.Second} {
				name := fmt.Sprintf("cut%d", cut/time.Second)
				w := startTool(t, ctx, g, GuestCommand{}, "stream", at+"/"+name, "6", fmt.Sprint(sized(64, 1024)))
				r := startTool(t, ctx, g, GuestCommand{}, "records", at+"/"+name+".r", "6", "60")
				r.next(time.Minute)
				if err := g.Cut(ctx); err != nil {
					t.Fatal(err)
				}
				time.Sleep(cut)
				if err := g.Heal(ctx); err != nil {
					t.Fatal(err)
				}
				if out := w.wait(); len(out) != 1 || out[0] != s.w.sum(t, ctx, name) {
					t.Errorf("%s: wrong checksum", name)
				}
				r.wait()
				s.w.checkRecords(t, ctx, name+".r", 6, 60)
			}
		})
	}
}

// Connections that break at any byte of a big WRITE or READ, and of the replies, lose and double nothing.
func TestConnectionCutInTheMiddle(t *testing.T) {
	for _, version := range versions {
		t.Run("v"+version, func(t *testing.T) {
			s := ownTree(t, "local", gatewayConfig{lease: "20s"})
			g := lab.Guest(t, 0)
			ctx := longContext(t, 5*time.Minute)
			p := StartProxy(t, ProxyOptions{Net: lab.Net(t), Server: fmt.Sprintf("%s:%d", ServerIP, s.gw.port)})
			m := s.gw.mount(version, s.path())
			m.Port = p.Port()
			at := mustMount(t, g, m)
			cuts := 0
			for i, n := range []int64{1, 3, 100, 1500, 65536, 1<<20 + 70, 3<<20 + 12345} {
				name := fmt.Sprintf("up%d", i)
				p.CutAfter(Up, n)
				sum := strings.TrimSpace(runTool(t, ctx, g, "stream", at+"/"+name, fmt.Sprint(i), "5"))
				if got := s.w.sum(t, ctx, name); got != sum {
					t.Errorf("cut after %d bytes up: the checksum is %s, was written as %s", n, got, sum)
				}
				dropCaches(t, ctx, g)
				p.CutAfter(Down, n)
				if got := strings.Fields(mustSh(t, ctx, g, `sha256sum <"$1"`, at+"/"+name))[0]; got != sum {
					t.Errorf("cut after %d bytes down: the checksum is %s, was written as %s", n, got, sum)
				}
				cuts += 2
			}
			if p.Cuts() != cuts {
				t.Errorf("%d cuts, want %d", p.Cuts(), cuts)
			}
		})
	}
}
