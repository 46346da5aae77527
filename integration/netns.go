package integration

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Addresses inside a lab's namespace. Every lab has the same ones: namespaces keep labs apart.
const (
	// ServerIP is the address of the bridge; clusters and servers listen there.
	ServerIP = "10.99.0.1"
	// ServerIP6 is its IPv6 address.
	ServerIP6 = "fd99::1"
)

// guestIP is the address of guest g on the bridge, and manageIP, manageHostIP the two ends of the link that
// carries its command channel.
func guestIP(g int) string      { return fmt.Sprintf("10.99.0.%d", 2+g) }
func guestIP6(g int) string     { return fmt.Sprintf("fd99::%x", 2+g) }
func manageIP(g int) string     { return fmt.Sprintf("10.98.%d.2", g) }
func manageHostIP(g int) string { return fmt.Sprintf("10.98.%d.1", g) }

// Net is a network namespace with a bridge that guests are plugged into. It has no name in the file system: it is
// held by a descriptor of this process and by the processes in it, so nothing of it can outlive them. To look
// inside from a shell: nsenter --net=/proc/PID/fd/N (Path).
type Net struct {
	fd *os.File // constant

	mu   sync.Mutex
	taps map[string]bool // taps made so far; guarded by mu
}

// NewNet makes a namespace with loopback and a bridge that has ServerIP/24 and, if the host knows IPv6, ServerIP6/64.
func NewNet(ctx context.Context) (*Net, error) {
	type made struct {
		f   *os.File
		err error
	}
	ch := make(chan made, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends in the new namespace
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			ch <- made{err: fmt.Errorf("new network namespace: %w", err)}
			return
		}
		f, err := os.Open("/proc/thread-self/ns/net")
		ch <- made{f, err}
	}()
	m := <-ch
	if m.err != nil {
		return nil, m.err
	}
	n := &Net{fd: m.f, taps: make(map[string]bool)}
	lines := []string{
		"link set lo up",
		"link add br0 type bridge",
		"addr add " + ServerIP + "/24 dev br0",
		"link set br0 up",
	}
	if _, err := os.Stat("/proc/net/if_inet6"); err == nil {
		lines = append(lines, "addr add "+ServerIP6+"/64 dev br0 nodad")
	}
	if err := n.ip(ctx, lines...); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Close lets the namespace go. It disappears with the last process in it.
func (n *Net) Close() error { return n.fd.Close() }

// Path names the namespace for nsenter --net=PATH, as long as this process lives.
func (n *Net) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.fd.Fd()) }

// enter moves the calling thread, which must be locked, into the namespace.
func (n *Net) enter() error {
	if err := unix.Setns(int(n.fd.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	return nil
}

// Do runs f on a thread inside the namespace and waits for it. Sockets that f makes belong to the namespace for
// good and may be used anywhere; goroutines that f starts run outside it, threads that C code in f starts inside.
// A nil Net runs f where the caller is.
func (n *Net) Do(f func() error) error {
	if n == nil {
		return f()
	}
	ch := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, see NewNet
		if err := n.enter(); err != nil {
			ch <- err
			return
		}
		ch <- f()
	}()
	return <-ch
}

// Dial connects to a literal address from inside the namespace (from the host, if n is nil).
func (n *Net) Dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = n.Do(func() error {
		var d net.Dialer
		var e error
		c, e = d.DialContext(ctx, network, address)
		return e
	})
	return c, err
}

// Listen announces a literal address inside the namespace (on the host, if n is nil).
func (n *Net) Listen(ctx context.Context, network, address string) (l net.Listener, err error) {
	err = n.Do(func() error {
		var lc net.ListenConfig
		var e error
		l, e = lc.Listen(ctx, network, address)
		return e
	})
	return l, err
}

// Run runs a host program inside the namespace; an exit code other than 0 is a *CommandError.
func (n *Net) Run(ctx context.Context, argv ...string) (Result, error) {
	return runCommand(ctx, procSpec{argv: argv, net: n})
}

// AddAddr gives the bridge a further address ("10.99.0.101/24"): a second server, or one that moves.
func (n *Net) AddAddr(ctx context.Context, cidr string) error {
	return n.ip(ctx, "addr add "+cidr+" dev br0")
}

// DelAddr takes an address from the bridge; connections to it freeze as if their server had lost power.
func (n *Net) DelAddr(ctx context.Context, cidr string) error {
	return n.ip(ctx, "addr del "+cidr+" dev br0")
}

// ip runs lines of ip(8) in one batch.
func (n *Net) ip(ctx context.Context, lines ...string) error {
	_, err := runCommand(ctx, procSpec{
		argv:  []string{"ip", "-batch", "-"},
		net:   n,
		stdin: strings.NewReader(strings.Join(lines, "\n") + "\n"),
	})
	return err
}

// addGuest makes the two taps of guest g: its network on the bridge, and the link for its commands, which no cut
// of the network touches.
func (n *Net) addGuest(ctx context.Context, g int) (lan, manage string, err error) {
	lan, manage = fmt.Sprintf("tap%d", g), fmt.Sprintf("ctl%d", g)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.taps[lan] {
		return lan, manage, n.ip(ctx, "link set "+lan+" master br0")
	}
	err = n.ip(ctx,
		"tuntap add dev "+lan+" mode tap",
		"link set "+lan+" master br0 up",
		"tuntap add dev "+manage+" mode tap",
		"addr add "+manageHostIP(g)+"/30 dev "+manage,
		"link set "+manage+" up",
	)
	if err == nil {
		n.taps[lan] = true
	}
	return lan, manage, err
}
