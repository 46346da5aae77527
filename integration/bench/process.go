package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"capstan/config"
	"capstan/server"
)

// serveIfAsked makes this process one of the servers that bench starts; it
// reports whether it was one.
func serveIfAsked(args []string) bool {
	var err error
	switch {
	case args[0] == "plain" && len(args) == 2:
		err = plainProcess(args[1])
	case args[0] == "serve" && len(args) >= 3:
		err = capstanProcess(args[2], args[3:]...)
	default:
		return false
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench server:", err)
		os.Exit(1)
	}
	return true
}

func plainProcess(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	go func() {
		waitForTerm()
		l.Close()
		os.Exit(0) // connections may still be open
	}()
	return servePlain(l)
}

// capstanProcess is `capstan serve -c file`, with a CPU profile if one is asked
// for.
func capstanProcess(file string, profile ...string) error {
	c, err := config.Load(file)
	if err != nil {
		return err
	}
	o, err := c.Options()
	if err != nil {
		return err
	}
	o.Version = "bench"
	s, err := server.Start(context.Background(), o)
	if err != nil {
		return err
	}
	if len(profile) > 0 {
		f, err := os.Create(profile[0])
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	waitForTerm()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s.Shutdown(ctx)
}

// process is a server under measurement.
type process struct {
	cmd     *exec.Cmd
	addr    string
	metrics string // "" for the plain side
	done    chan struct{}
	err     error // set when done is closed

	scrapeCost float64 // allocations of one scrape
}

// freeAddr returns an address of the loopback that nobody listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// startPlain starts the plain server.
func startPlain(ctx context.Context) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startProcess(ctx, &process{cmd: exec.Command(self, "plain", addr), addr: addr})
}

// capstanConfig is the configuration of capstan: the defaults, on loopback, with
// one in-memory export.
const capstanConfig = `server: {listen: %q, metrics: %q, control: "", state_dir: ""}
log: {level: warn}
exports:
  - {path: /bench, id: 1, engine: memory, squash: none, access: [{clients: 127.0.0.1, access: rw}]}
`

// startCapstan starts capstan; name tells its profile from others.
func startCapstan(ctx context.Context, s settings, name string) (*process, error) {
	p := &process{}
	var err error
	if p.addr, err = freeAddr(); err != nil {
		return nil, err
	}
	if p.metrics, err = freeAddr(); err != nil {
		return nil, err
	}
	file := filepath.Join(s.dir, name+".yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, capstanConfig, p.addr, p.metrics), 0o600); err != nil {
		return nil, err
	}
	argv := []string{s.capstan, "serve", "-c", file}
	if s.capstan == "" {
		if argv[0], err = os.Executable(); err != nil {
			return nil, err
		}
		if s.profile != "" {
			argv = append(argv, filepath.Join(s.profile, name+".pprof"))
		}
	}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	if p, err = startProcess(ctx, p); err != nil {
		return nil, err
	}
	// What looking costs is taken off what is seen.
	var seen [3]map[string]float64
	for i := range seen {
		if seen[i], err = p.scrape(ctx); err != nil {
			p.stop()
			return nil, err
		}
	}
	p.scrapeCost = seen[2][mallocs] - seen[1][mallocs]
	return p, nil
}

func startProcess(ctx context.Context, p *process) (*process, error) {
	p.cmd.Stdout, p.cmd.Stderr = os.Stderr, os.Stderr
	// It must not outlive this process, whatever ends that.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.done = make(chan struct{})
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	for _, addr := range []string{p.addr, p.metrics} {
		if addr == "" {
			continue
		}
		if err := p.await(ctx, addr); err != nil {
			p.stop()
			return nil, err
		}
	}
	return p, nil
}

// await waits until the process listens on addr.
func (p *process) await(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		nc, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			return nc.Close()
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended: %w", filepath.Base(p.cmd.Path), errors.Join(p.err, err))
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen: %w", filepath.Base(p.cmd.Path), err)
		case <-tick.C:
		}
	}
}

// stop ends the process, in order if it can.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// cpu returns the CPU time that the process has used, user and system, from its
// CPU clock (clock_getcpuclockid(3)), which is finer than the ticks of
// /proc/PID/stat.
func (p *process) cpu() (time.Duration, error) {
	const cpuclockSched = 2
	var ts unix.Timespec
	id := int32(^p.cmd.Process.Pid<<3 | cpuclockSched)
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0, fmt.Errorf("CPU clock of %s: %w", filepath.Base(p.cmd.Path), err)
	}
	return time.Duration(ts.Nano()), nil
}

// Names in /metrics.
const (
	mallocs  = "go_memstats_mallocs_total"
	gcCPU    = "go_cpu_classes_gc_total_cpu_seconds_total"
	totalCPU = "go_cpu_classes_total_cpu_seconds_total"
	idleCPU  = "go_cpu_classes_idle_cpu_seconds_total"
)

// scraper asks for plain text: to compress it costs CPU time that is measured.
var scraper = &http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: patience}

// scrape reads the metrics without labels.
func (p *process) scrape(ctx context.Context) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.metrics+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := scraper.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	seen := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || name == "#" {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			seen[name] = v
		}
	}
	for _, name := range []string{mallocs, gcCPU, totalCPU, idleCPU} {
		if _, ok := seen[name]; !ok {
			return nil, fmt.Errorf("/metrics has no %s", name)
		}
	}
	return seen, lines.Err()
}

func waitForTerm() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM, os.Interrupt)
	<-c
}
