package main

import (
	"os"
	"os/exec"
	"testing"

	"capstan/config"
)

// TestClosedLog: a log that nobody reads any more does not end the server. The
// test runs itself again, since standard error of a process is what counts.
func TestClosedLog(t *testing.T) {
	const inChild = "CAPSTAN_TEST_CLOSED_LOG"
	if os.Getenv(inChild) != "" {
		surviveLog()
		log := newLogger(config.Log{Level: "info"})
		log.Info("one")
		log.Info("two")
		os.Exit(0)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestClosedLog$")
	cmd.Env = append(os.Environ(), inChild+"=1")
	cmd.Stderr = w
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
}
