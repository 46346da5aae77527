package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// modulesDir is where Debian's user-mode-linux package keeps its modules.
const modulesDir = "/usr/lib/uml/modules"

// boot sets the guest up, starts the agent and reaps children for ever.
func boot() {
	err := setUp()
	if err != nil {
		fmt.Println("guestd: set up:", err)
	}
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "TERM=dumb"}
	for _, name := range []string{"lab_guest", "lab_host"} {
		env = append(env, name+"="+os.Getenv(name))
	}
	if err != nil {
		env = append(env, "lab_error="+err.Error())
	}
	agent, err := os.StartProcess("/proc/self/exe", []string{"guestd", "agent"}, &os.ProcAttr{
		Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		fmt.Println("guestd: start agent:", err)
		powerOff()
	}
	for {
		pid, err := syscall.Wait4(-1, nil, 0, nil)
		if err == nil && pid == agent.Pid {
			fmt.Println("guestd: the agent ended")
			powerOff()
		}
	}
}

func powerOff() {
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// setUp builds the file tree and the network. It needs lab_guest (the guest's number), lab_share (host directory
// for /lab) and the addresses lab_ip, lab_ip6, lab_manage and lab_host from the kernel command line.
func setUp() error {
	if err := mountAll([]mount{
		{"proc", "/proc", "proc", 0, ""},
		{"sys", "/sys", "sysfs", 0, ""},
		{"tmp", "/mnt", "tmpfs", 0, "mode=0755,size=75%,nr_inodes=0"},
	}); err != nil {
		return err
	}
	if err := loadModule("overlay"); err != nil {
		return err
	}
	for _, d := range []string{"/mnt/upper", "/mnt/work", "/mnt/root"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	const r = "/mnt/root"
	if err := mountAll([]mount{{"root", r, "overlay", 0, "lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work"}}); err != nil {
		return err
	}
	rel := kernelRelease()
	for _, d := range []string{"lab", "proc", "sys", "dev", "run", "tmp", "var/tmp", "mnt", "root", "lib/modules/" + rel} {
		if err := os.MkdirAll(filepath.Join(r, d), 0o755); err != nil {
			return err
		}
	}
	if err := mountAll([]mount{
		{"proc", r + "/proc", "proc", 0, ""},
		{"sys", r + "/sys", "sysfs", 0, ""},
		{"dev", r + "/dev", "devtmpfs", 0, ""},
		{"run", r + "/run", "tmpfs", 0, "mode=0755"},
		{"tmp", r + "/tmp", "tmpfs", 0, "mode=1777"},
		{"tmp", r + "/var/tmp", "tmpfs", 0, "mode=1777"},
		{"mnt", r + "/mnt", "tmpfs", 0, "mode=0755"},
		{"home", r + "/root", "tmpfs", 0, "mode=0700"},
		{"lab", r + "/lab", "hostfs", 0, os.Getenv("lab_share")},
		{r + modulesDir + "/" + rel, r + "/lib/modules/" + rel, "", unix.MS_BIND, ""},
	}); err != nil {
		return err
	}
	for _, d := range []string{"/dev/pts", "/dev/shm"} {
		if err := os.MkdirAll(r+d, 0o755); err != nil {
			return err
		}
	}
	if err := mountAll([]mount{
		{"pts", r + "/dev/pts", "devpts", 0, ""},
		{"shm", r + "/dev/shm", "tmpfs", 0, "mode=1777"},
	}); err != nil {
		return err
	}
	// The overlay becomes the root and hides the host's tree for good.
	if err := unix.Chdir(r); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	return network()
}

func network() error {
	host := "guest" + os.Getenv("lab_guest")
	if err := unix.Sethostname([]byte(host)); err != nil {
		return err
	}
	// The host's names would lead nowhere, and a resolver that nobody answers costs seconds.
	_ = os.WriteFile("/etc/hosts", []byte("127.0.0.1 localhost\n"+os.Getenv("lab_ip")+" "+host+"\n10.99.0.1 server\n"), 0o644)
	_ = os.Remove("/etc/resolv.conf")
	_ = os.WriteFile("/etc/resolv.conf", nil, 0o644)
	lines := []string{
		"link set lo up",
		"addr add " + os.Getenv("lab_manage") + "/30 dev vec1", "link set vec1 up",
		"addr add " + os.Getenv("lab_ip") + "/24 dev vec0", "link set vec0 up",
	}
	if err := loadModule("ipv6"); err == nil {
		lines = append(lines, "addr add "+os.Getenv("lab_ip6")+"/64 dev vec0 nodad")
	}
	cmd := exec.Command("/bin/ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, out)
	}
	return nil
}

type mount struct {
	source, target, fstype string
	flags                  uintptr
	data                   string
}

func mountAll(ms []mount) error {
	for _, m := range ms {
		if err := unix.Mount(m.source, m.target, m.fstype, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.fstype, m.target, err)
		}
	}
	return nil
}

func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// loadModule loads a module and what it needs, before /lib/modules is in its place for modprobe.
func loadModule(name string) error {
	dir := filepath.Join(modulesDir, kernelRelease())
	deps, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(deps)) {
		path, needs, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || filepath.Base(path) != name+".ko" {
			continue
		}
		// modules.dep lists what must be loaded first last.
		files := append([]string{path}, strings.Fields(needs)...)
		for i := len(files) - 1; i >= 0; i-- {
			if err := insertModule(filepath.Join(dir, files[i])); err != nil {
				return fmt.Errorf("module %s: %w", files[i], err)
			}
		}
		return nil
	}
	return fmt.Errorf("module %s: %w", name, os.ErrNotExist)
}

func insertModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && err != unix.EEXIST {
		return err
	}
	return nil
}
