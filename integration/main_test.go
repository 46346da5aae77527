package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// lab is shared by the tests of this package.
var lab = NewLab(LabOptions{Guest: GuestOptions{DiskMB: 4096}})

func TestMain(m *testing.M) {
	if role := os.Getenv(envRole); role != "" {
		os.Exit(roles[role]())
	}
	code := Main(m, lab)
	if left := leftovers(); left != "" {
		fmt.Fprintln(os.Stderr, "integration: the lab left behind:\n"+left)
		code = 1
	}
	os.Exit(code)
}

// envRole makes the test binary play another program: a value is a key of roles.
const envRole = "CAPSTAN_LAB_ROLE"

var roles = map[string]func() int{
	"capstan":  fakeCapstan,
	"roughnet": roughnet,
	"victim":   victim,
}

// leftovers lists what this process started or made and did not take back: children, mounts, scratch.
func leftovers() string {
	var left []string
	if out, _ := exec.Command("ps", "-o", "pid,args", "--no-headers", "--ppid", fmt.Sprint(os.Getpid())).Output(); len(out) > 0 {
		for line := range strings.Lines(string(out)) {
			if !strings.Contains(line, "ps -o") {
				left = append(left, "process "+strings.TrimSpace(line))
			}
		}
	}
	if m, err := os.ReadFile("/proc/self/mounts"); err == nil {
		for line := range strings.Lines(string(m)) {
			if strings.Contains(line, scratchPrefix) {
				left = append(left, "mount "+strings.TrimSpace(line))
			}
		}
	}
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range fds {
		if to, _ := os.Readlink(fd); strings.HasPrefix(to, "net:") || strings.Contains(to, scratchPrefix) {
			left = append(left, "descriptor of "+to)
		}
	}
	return strings.Join(left, "\n")
}
