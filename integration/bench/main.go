package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// settings say what is measured and how long.
type settings struct {
	capstan string        // the binary; "" stands for this program
	dir     string        // scratch
	profile string        // directory for CPU profiles; needs capstan == ""
	window  time.Duration // length of one measurement
	rounds  int           // measurements of each row
	only    string        // run only the sets whose name contains this
	files   int           // entries of the directory that is listed
	log     io.Writer     // progress
}

func main() {
	if len(os.Args) > 1 && serveIfAsked(os.Args[1:]) {
		return
	}
	var s settings
	flag.StringVar(&s.capstan, "capstan", "", "capstan `binary` to measure; without it this program serves itself")
	flag.StringVar(&s.profile, "profile", "", "`directory` for CPU profiles of the server, without -capstan")
	flag.DurationVar(&s.window, "window", time.Second, "length of one measurement")
	flag.IntVar(&s.rounds, "rounds", 7, "measurements of each row")
	flag.StringVar(&s.only, "only", "", "run only what contains `text` in its name, stat/4x16 for instance")
	flag.IntVar(&s.files, "files", 10_000, "entries of the directory that is listed")
	into := flag.String("into", "", "`file` to write the tables into, between its markers")
	flag.Parse()
	s.log = os.Stderr

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s, *into); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures everything and prints the result, or writes it into a file.
func run(ctx context.Context, s settings, into string) (err error) {
	if s.capstan != "" {
		if s.profile != "" {
			return errors.New("-profile needs the server of this program: leave -capstan out")
		}
		if s.capstan, err = filepath.Abs(s.capstan); err != nil {
			return err
		}
	}
	if s.dir, err = os.MkdirTemp("", "capstan-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	text, err := measureAll(ctx, s)
	if err != nil {
		return err
	}
	if into == "" {
		fmt.Print(text)
		return nil
	}
	return writeBetweenMarkers(into, text)
}
