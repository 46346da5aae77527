package integration

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// keepDaemons lets live tests, which are processes of their own, kill and start daemons: "kill mon.a" and "start mon.a"
// are lines on the socket that it returns the environment for.
func keepDaemons(t *testing.T, c *Cluster) []string {
	t.Helper()
	socket := filepath.Join(TempDir(t), "daemons")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(conn).ReadString('\n')
			if err := order(c, strings.TrimSpace(line)); err != nil {
				fmt.Fprintln(conn, err)
			} else {
				fmt.Fprintln(conn, "ok")
			}
			conn.Close()
		}
	})
	return []string{"CAPSTAN_TEST_CEPH_DAEMONS=" + socket}
}

func order(c *Cluster, line string) error {
	what, name, _ := strings.Cut(line, " ")
	d := c.Daemon(name)
	switch {
	case d == nil:
	case what == "kill":
		d.Kill()
		return nil
	case what == "start":
		return d.Start()
	}
	return fmt.Errorf("order %q is not understood", line)
}

// monitorsKilled has a client follow maps and give commands while the monitor that it uses is killed, again
// and again. It takes the others a quarter of a minute to go on without it.
func monitorsKilled(ctx context.Context, t *testing.T, c *Cluster) {
	env := append(nativeEnv(t, c), keepDaemons(t, c)...)
	runLiveOne(ctx, t, "mon", "TestLiveMonitorsKilled", append(env, fmt.Sprintf("CAPSTAN_TEST_ROUNDS=%d", sized(2, 12))))
	if err := c.waitQuorum(ctx); err != nil {
		t.Error(err)
	}
}

// A cluster that authenticates nobody: the settings of the client decide whether it goes along.
func TestNativeClientWithoutAuthentication(t *testing.T) {
	none := map[string]string{"auth cluster required": "none", "auth service required": "none", "auth client required": "none"}
	c := startNative(t, ClusterOptions{Config: none})
	ctx := longContext(t, 5*time.Minute)
	env := nativeEnv(t, c)
	runLiveOne(ctx, t, "mon", "TestLiveNone", env)
	runLiveOne(ctx, t, "osd", "TestLiveTwoClients", env)
}
