package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"capstan/integration/internal/guestrpc"
)

// serve reports to the harness and runs commands until the guest is switched off. It returns only for an error.
func serve() error {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(guestrpc.Port))
	if err != nil {
		return err
	}
	if err := hello(); err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			if err := command(c); err != nil {
				fmt.Fprintln(os.Stderr, "guestd: command channel:", err)
			}
		}()
	}
}

// hello tells the harness that the guest is up, or what failed on the way.
func hello() error {
	var d net.Dialer
	d.Timeout = 5 * time.Second
	addr := net.JoinHostPort(os.Getenv("lab_host"), strconv.Itoa(guestrpc.Port))
	var c net.Conn
	var err error
	for range 20 {
		if c, err = d.Dial("tcp", addr); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond) // the link may still be coming up
	}
	if err != nil {
		return err
	}
	defer c.Close()
	return guestrpc.NewWriter(c).JSON(guestrpc.KindHello, guestrpc.Hello{Kernel: kernelRelease(), Error: os.Getenv("lab_error")})
}

// command runs the one command of a connection.
func command(c net.Conn) error {
	r := bufio.NewReader(c)
	w := guestrpc.NewWriter(c)
	var req guestrpc.Request
	if err := guestrpc.ReadJSON(r, guestrpc.KindRequest, &req); err != nil {
		return err
	}
	if len(req.Argv) == 0 {
		return w.JSON(guestrpc.KindExit, guestrpc.Exit{Code: -1, Error: "empty command"})
	}
	cmd := exec.Command(req.Argv[0], req.Argv[1:]...)
	cmd.Env = append(os.Environ(), req.Env...)
	cmd.Dir = "/"
	if req.Dir != "" {
		cmd.Dir = req.Dir
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if req.UID != 0 || req.GID != 0 || len(req.Groups) > 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: req.UID, Gid: req.GID, Groups: req.Groups}
		cmd.Env = append(cmd.Env, "HOME=/tmp")
	}
	cmd.Stdout = w.Stream(guestrpc.KindStdout)
	cmd.Stderr = w.Stream(guestrpc.KindStderr)
	cmd.WaitDelay = time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return w.JSON(guestrpc.KindExit, guestrpc.Exit{Code: -1, Error: err.Error()})
	}
	// The command's process group ends with the command, or with the connection, whichever is first.
	killGroup := sync.OnceFunc(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	go func() {
		for {
			k, b, err := guestrpc.ReadFrame(r)
			switch {
			case err != nil: // the harness has gone, or has its answer and closes
				killGroup()
				return
			case k == guestrpc.KindStdin:
				_, _ = stdin.Write(b) // a command may end without reading its input
			case k == guestrpc.KindEOF:
				stdin.Close()
			}
		}
	}()
	err = cmd.Wait()
	killGroup()
	exit := guestrpc.Exit{}
	var ee *exec.ExitError
	switch {
	case errors.As(err, &ee):
		exit.Code = ee.ExitCode()
		if exit.Code < 0 {
			exit.Error = ee.Error()
		}
	case errors.Is(err, exec.ErrWaitDelay): // a background child keeps the pipes: the command itself succeeded
	case err != nil:
		exit = guestrpc.Exit{Code: -1, Error: err.Error()}
	}
	return w.JSON(guestrpc.KindExit, exit)
}
