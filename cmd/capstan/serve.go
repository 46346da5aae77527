package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"capstan/config"
	"capstan/internal/loglimit"
	"capstan/server"
)

func serveCommand() *cobra.Command {
	var file, listen string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "serve exports until SIGTERM",
		Long: "serve reads a configuration file and serves its exports. Without a file it serves an\n" +
			"in-memory scratch export on loopback. SIGHUP takes over changed exports, SIGTERM stops in order.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := config.Scratch()
			if file != "" {
				var err error
				if c, err = config.Load(file); err != nil {
					return err
				}
			}
			if listen != "" {
				c.Server.Listen = []string{listen}
			}
			return serve(cmd.Context(), c)
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "configuration `file`")
	cmd.Flags().StringVarP(&listen, "listen", "l", "", "`address` to listen on instead of the configured ones")
	return cmd
}

// serve runs the server until a signal ends it.
func serve(ctx context.Context, c *config.Config) error {
	log := newLogger(c.Log)
	slog.SetDefault(log) // for what has no logger of its own
	surviveLog()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)

	o, err := c.Options()
	if err != nil {
		return err
	}
	o.Logger, o.Version = log, version
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := start(ctx, cancel, signals, o)
	if err != nil {
		return err
	}
	if c.File == "" {
		log.Info("no configuration file: a scratch export in memory, for this host only, lost at the end",
			"mount", fmt.Sprintf("mount -t nfs4 -o vers=4.2,port=%s 127.0.0.1:/scratch /mnt", port(s)))
	}
	tell(log, "READY=1")
	stopWatchdog := watchdog(log, s)
	defer stopWatchdog()

	for {
		select {
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				reload(ctx, log, s, c)
				continue
			}
			log.Info("stopping", "signal", sig.String())
			tell(log, "STOPPING=1")
			return stop(log, s, signals, c.Server.ShutdownTimeout)
		case err := <-s.Failed():
			_ = stop(log, s, signals, c.Server.ShutdownTimeout)
			return err
		}
	}
}

// start starts the server; a signal other than SIGHUP during that, which may
// wait for a cluster, gives up.
func start(ctx context.Context, cancel func(), signals <-chan os.Signal, o server.Options) (*server.Server, error) {
	type result struct {
		s   *server.Server
		err error
	}
	done := make(chan result, 1)
	go func() {
		s, err := server.Start(ctx, o)
		done <- result{s, err}
	}()
	for {
		select {
		case r := <-done:
			return r.s, r.err
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				continue
			}
			cancel()
			r := <-done
			if r.err == nil {
				r.err = stop(slog.New(slog.DiscardHandler), r.s, signals, time.Second)
			}
			return nil, fmt.Errorf("%s during start: %w", sig, r.err)
		}
	}
}

// stop shuts the server down in order; a second signal makes it hurry.
func stop(log *slog.Logger, s *server.Server, signals <-chan os.Signal, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	finished := make(chan struct{})
	defer close(finished)
	go func() {
		select {
		case <-signals:
			log.Warn("second signal: not waiting for running calls")
			cancel()
		case <-finished:
		}
	}()
	if err := s.Shutdown(ctx); err != nil {
		return fmt.Errorf("shutdown: %w", err)
	}
	log.Info("stopped")
	return nil
}

// reload reads the file again and takes over its exports; a bad file is
// refused whole. running is what the server was started with: the other
// sections stay as they are there.
func reload(ctx context.Context, log *slog.Logger, s *server.Server, running *config.Config) {
	if running.File == "" {
		log.Warn("nothing to reload: serving without a configuration file")
		return
	}
	tell(log, reloading())
	defer tell(log, "READY=1")
	c, err := config.Load(running.File)
	if problems, ok := err.(config.Problems); ok {
		for _, p := range problems {
			log.Error("configuration", "file", p.File, "line", p.Line, "key", p.Key, "problem", p.What)
		}
		log.Error("reload refused; the exports stay as they were", "problems", len(problems))
		return
	}
	if err == nil {
		if sections := c.TakeFrom(running); len(sections) > 0 {
			log.Warn("changed sections that take a restart", "sections", strings.Join(sections, " "))
		}
		var mounts []server.Mount
		if mounts, err = c.Mounts(); err == nil {
			err = s.Reload(ctx, mounts)
		}
	}
	if err != nil {
		log.Error("reload refused; the exports stay as they were", "err", err)
	}
}

func tell(log *slog.Logger, state string) {
	if err := notify(state); err != nil {
		log.Warn("systemd", "err", err)
	}
}

// watchdog tells systemd that the server lives, as long as it does.
func watchdog(log *slog.Logger, s *server.Server) (stop func()) {
	every := watchdogInterval()
	if every == 0 {
		return func() {}
	}
	done := make(chan struct{})
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
				if err := s.Healthy(); err != nil {
					log.Error("not healthy; the watchdog is not told", "err", err)
					continue
				}
				tell(log, "WATCHDOG=1")
			}
		}
	}()
	return func() { close(done); <-exited }
}

// logBurst is how many lines of one message go to the log per minute: enough
// to follow what happens, too few for clients to fill a disk.
const logBurst = 100

// surviveLog has the server go on when nobody reads its log any more: a write
// to a broken pipe on standard error would otherwise end the process.
func surviveLog() { signal.Ignore(syscall.SIGPIPE) }

func newLogger(l config.Log) *slog.Logger {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	o := &slog.HandlerOptions{Level: levels[l.Level]}
	var h slog.Handler = slog.NewTextHandler(os.Stderr, o)
	if l.Format == "json" {
		h = slog.NewJSONHandler(os.Stderr, o)
	}
	return slog.New(loglimit.New(h, logBurst, time.Minute))
}

// port is where NFS is served.
func port(s *server.Server) string {
	for _, a := range s.Addrs() {
		if t, ok := a.(*net.TCPAddr); ok {
			return strconv.Itoa(t.Port)
		}
	}
	return "2049"
}
