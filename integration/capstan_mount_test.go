package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fsidOfHere prints the fsid that the server gave the file system of the working directory. The kernel shows it
// nowhere but in this list, by device.
const fsidOfHere = `awk -v dev="0:$(stat -c %d .)" '$4 == dev { print $5 }' /proc/fs/nfsfs/volumes`

// The exports are joined under one root, each a file system of its own: another device, another fsid, another size.
func TestExportsUnderOneRoot(t *testing.T) {
	gw := capstan(t)
	g := lab.Guest(t, 0)
	for _, version := range []string{"4.1", "4.2"} {
		t.Run("v"+version, func(t *testing.T) {
			ctx := Context(t)
			at := mustMount(t, g, gw.mount(version, "/"))
			if got := mustSh(t, ctx, g, `cd "$1"; echo *; echo export/*`, at); got != "export mem\nexport/ceph export/local\n" {
				t.Errorf("the root shows %q", got)
			}
			if r, err := g.Run(ctx, "mkdir", at+"/new"); err == nil || !strings.Contains(r.Stderr, "Read-only file system") {
				t.Errorf("mkdir in the root: %q", r.Stderr)
			}
			seen := map[string]string{}
			for _, p := range []string{"/", "/mem", "/export/local", "/export/ceph"} {
				out := mustSh(t, ctx, g, `cd "$1$2"; [ "$2" = / ] || { echo x >where; rm where; }; stat -c %d .; `+fsidOfHere+`; stat -f -c '%T %S' .`, at, p)
				f := strings.Fields(out)
				for _, id := range f[:2] {
					if other, ok := seen[id]; ok {
						t.Errorf("%s and %s have the same id %s", p, other, id)
					}
					if id == "0" || id == "0:0" {
						t.Errorf("%s has an id of 0", p)
					}
				}
				for _, id := range f[:2] {
					seen[id] = p
				}
				if f[2] != "nfs" {
					t.Errorf("%s: type %s", p, f[2])
				}
			}
			// A name joins, a link or a move between exports does not.
			if r, err := g.Run(ctx, "ln", at+"/mem/where", at+"/export/local/where"); err == nil {
				t.Errorf("a link from one export to another: %+v", r)
			}
		})
	}
	t.Run("v3", func(t *testing.T) {
		ctx := Context(t)
		seen := map[string]bool{}
		for engine, path := range sharedExports {
			at := mustMount(t, g, gw.mount("3", path))
			out := mustSh(t, ctx, g, `cd "$1"; stat -c %d .; `+fsidOfHere+`; mkdir -p v3dir; echo `+engine+` >v3dir/f`, at)
			for _, id := range strings.Fields(out) {
				if seen[id] || id == "0" || id == "0:0" {
					t.Errorf("%s has the id %s, as another or none", path, id)
				}
				seen[id] = true
			}
			// A directory inside an export can be mounted too.
			sub := mustMount(t, g, gw.mount("3", path+"/v3dir"))
			if got := mustSh(t, ctx, g, `cat "$1/f"; rm "$1/f"; rmdir "$2/v3dir"`, sub, at); got != engine+"\n" {
				t.Errorf("%s/v3dir/f: %q", path, got)
			}
		}
		if _, err := g.MountNFS(ctx, gw.mount("3", "/absent")); err == nil || !strings.Contains(err.Error(), "No such file") {
			t.Errorf("mounting what is not exported: %v", err)
		}
	})
}

// Each version over IPv6.
func TestMountOverIPv6(t *testing.T) {
	if !haveIPv6() {
		t.Skip("this machine has no IPv6")
	}
	gw := capstan(t)
	g := lab.Guest(t, 0)
	for _, version := range versions {
		t.Run("v"+version, func(t *testing.T) {
			ctx := Context(t)
			m := gw.mount(version, sharedExports["memory"])
			m.Server = ServerIP6
			at := mustMount(t, g, m)
			if got := mustSh(t, ctx, g, `cd "$1"; echo six >f6; cat f6; rm f6; grep " $1 " /proc/mounts | grep -c fd99::1`, at); got != "six\n1\n" {
				t.Errorf("%q", got)
			}
		})
	}
}

// A registration with rpcbind lets clients find NFS and MOUNT by themselves, and showmount list the exports.
func TestRpcbind(t *testing.T) {
	Require(t, NeedRoot, NeedProgram("rpcbind"), NeedProgram("showmount"), NeedProgram("rpcinfo"))
	n := lab.Net(t)
	ctx := Context(t)
	g := lab.Guest(t, 0)
	if c, err := n.Dial(ctx, "tcp", "127.0.0.1:111"); err == nil {
		c.Close() // that of the reference server
	} else {
		dir := TempDir(t)
		for _, d := range []string{"run/rpcbind", "lib"} {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		p, err := startProc(procSpec{name: "rpcbind", argv: []string{"rpcbind", "-f"}, net: n, log: dir + "/log",
			private: map[string]string{"/run": dir + "/run", "/var/lib/nfs": dir + "/lib"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		if err := poll(ctx, "rpcbind", func() (bool, error) {
			c, err := n.Dial(ctx, "tcp", "127.0.0.1:111")
			if err == nil {
				c.Close()
			}
			return err == nil, p.unexpectedEnd()
		}); err != nil {
			t.Fatal(err)
		}
	}
	Peer(t, "rpcbind", "showmount")
	gw := ownGateway(t, gatewayConfig{server: "  rpcbind: true\n", exports: []string{
		memoryExport("/one", 1),
		`{path: /two/b, id: 2, engine: memory, access: [{clients: [10.99.0.0/24, fd99::/64], access: ro}]}`,
		`{path: /three, id: 3, engine: memory, access: [{clients: 192.0.2.1}]}`,
	}})
	r, err := n.Run(ctx, "rpcinfo", "-p", ServerIP)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"100003    3   tcp", "100003    4   tcp", "100005    3   tcp"} {
		if !strings.Contains(r.Stdout, fmt.Sprintf("%s  %5d", want, gw.port)) {
			t.Errorf("rpcinfo lacks %q at %d:\n%s", want, gw.port, r.Stdout)
		}
	}
	r, err = n.Run(ctx, "showmount", "-e", "--no-headers", ServerIP)
	if err != nil {
		t.Fatal(err)
	}
	if out := strings.Join(strings.Fields(r.Stdout), " "); !strings.Contains(out, "/one ") || !strings.Contains(out, "/two/b ") {
		t.Errorf("showmount -e:\n%s", r.Stdout)
	}
	// A client that is told no port asks rpcbind.
	at := g.mountPoint()
	if err := g.mount(ctx, at, []string{"mount", "-t", "nfs", "-o", "vers=3,nolock,proto=tcp,mountproto=tcp", ServerIP + ":/one", at}); err != nil {
		t.Fatal(err)
	}
	r, err = n.Run(ctx, "showmount", "-a", "--no-headers", ServerIP)
	if err != nil || !strings.Contains(r.Stdout, g.IP()+":/one") {
		t.Errorf("showmount -a: %q, %v", r.Stdout, err)
	}
	if err := g.Unmount(ctx, at); err != nil {
		t.Error(err)
	}
	if err := gw.Stop(); err != nil {
		t.Error(err)
	}
	if r, _ := n.Run(ctx, "rpcinfo", "-p", ServerIP); strings.Contains(r.Stdout, fmt.Sprint(gw.port)) {
		t.Errorf("still registered after the end:\n%s", r.Stdout)
	}
}

// The first rule that matches a client's address decides: write, read, or nothing.
func TestAccessRules(t *testing.T) {
	g0, g1 := lab.Guest(t, 0), lab.Guest(t, 1)
	gw := ownGateway(t, gatewayConfig{exports: []string{fmt.Sprintf(`
path: /rules
id: 1
engine: local
local: {root: DIR/local}
squash: none
access:
  - {clients: [%s, "%s"]}
  - {clients: [10.99.0.0/24, "fd99::/64"], access: ro}`, g0.IP(), g0.IP6()), fmt.Sprintf(`
path: /first
id: 2
engine: memory
squash: none
access:
  - {clients: %s, access: none}
  - {clients: "*"}`, g1.IP()), `
path: /v42only
id: 3
engine: memory
versions: "4.2"
squash: none
access: [{clients: "*"}]`}})
	for _, version := range versions {
		t.Run("v"+version, func(t *testing.T) {
			ctx := Context(t)
			rw := mustMount(t, g0, gw.mount(version, "/rules"))
			mustSh(t, ctx, g0, `echo `+version+` >"$1/f"`, rw)
			ro := mustMount(t, g1, gw.mount(version, "/rules"))
			if got := mustSh(t, ctx, g1, `cat "$1/f"`, ro); got != version+"\n" {
				t.Errorf("read %q", got)
			}
			for _, c := range []string{"echo x >$1/f", "rm $1/f", "mkdir $1/d", "touch $1/f", "ln -s x $1/s", "chmod 600 $1/f", "mv $1/f $1/g"} {
				r, err := g1.Run(ctx, "sh", "-c", c, "sh", ro)
				// A v3 client asks ACCESS before it opens, and that has no other word for it.
				asked := version == "3" && strings.Contains(r.Stderr, "Permission denied")
				if err == nil || !asked && !strings.Contains(r.Stderr, "Read-only file system") {
					t.Errorf("%s on a read-only export: %q", c, r.Stderr)
				}
			}
			if _, err := g1.MountNFS(ctx, gw.mount(version, "/first")); err == nil {
				t.Error("a client with access: none mounted")
			}
			mustMount(t, g0, gw.mount(version, "/first"))
			if version != "3" {
				root := mustMount(t, g1, gw.mount(version, "/"))
				want := "rules"
				if version == "4.2" {
					want = "rules v42only"
				}
				if got := strings.TrimSpace(mustSh(t, ctx, g1, `cd "$1"; echo *`, root)); got != want {
					t.Errorf("the root shows %q to a client without access to /first, want %q", got, want)
				}
			}
			_, err := g0.MountNFS(ctx, gw.mount(version, "/v42only"))
			if (err == nil) != (version == "4.2") {
				t.Errorf("an export for version 4.2 alone, with %s: %v", version, err)
			}
		})
	}
}

// Shared locks work on a read-only export, exclusive ones are refused.
func TestLocksOnReadOnlyExport(t *testing.T) {
	g := lab.Guest(t, 0)
	gw := ownGateway(t, gatewayConfig{exports: []string{
		`{path: /ro, id: 1, engine: local, local: {root: DIR/local}, read_only: true, squash: none, access: [{clients: "*"}]}`,
	}})
	if err := os.WriteFile(gw.local()+"/f", []byte("content"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"4.1", "4.2"} {
		t.Run("v"+version, func(t *testing.T) {
			ctx := Context(t)
			at := mustMount(t, g, gw.mount(version, "/ro"))
			c := startTool(t, ctx, g, GuestCommand{}, "control")
			c.must("open %s/f r", at)
			c.must("lock 0 r 0 10 try")
			if got := c.must("read 0 0 7"); got != "content" {
				t.Errorf("read %q", got)
			}
			c.must("unlock 0 0 10")
			if got := c.ask("open %s/f rw", at); got != "error EROFS" {
				t.Errorf("open for writing: %s", got)
			}
			c.close()
		})
	}
}

// Who a user is on the server: root squashed by default, all squashed, or nobody.
func TestSquash(t *testing.T) {
	g := lab.Guest(t, 0)
	gw := ownGateway(t, gatewayConfig{exports: []string{
		`{path: /root, id: 1, engine: local, local: {root: DIR/local/root}, access: [{clients: "*"}]}`,
		`{path: /all, id: 2, engine: local, local: {root: DIR/local/all}, squash: all, anon_uid: 1001, anon_gid: 1001, access: [{clients: "*"}]}`,
		`{path: /none, id: 3, engine: local, local: {root: DIR/local/none}, squash: none, access: [{clients: "*"}]}`,
	}, dir: squashDirs(t)})
	for _, version := range versions {
		for _, c := range []struct {
			export string
			uid    uint32
			want   string
		}{
			{"root", 0, "65534:65534"}, {"root", 1500, "1500:1500"},
			{"all", 0, "1001:1001"}, {"all", 1500, "1001:1001"},
			{"none", 0, "0:0"}, {"none", 1500, "1500:1500"},
		} {
			t.Run(fmt.Sprintf("v%s/%s/%d", version, c.export, c.uid), func(t *testing.T) {
				ctx := Context(t)
				at := mustMount(t, g, gw.mount(version, "/"+c.export))
				name := fmt.Sprintf("by%d-%s", c.uid, version)
				r, err := g.RunCommand(ctx, GuestCommand{UID: c.uid, GID: c.uid, Dir: at, Argv: []string{"sh", "-ec",
					`mkdir $1.d; echo x >$1; cat $1 >/dev/null; stat -c %u:%g $1; stat -c %u:%g $1.d`, "sh", name}})
				if err != nil {
					t.Fatal(err)
				}
				if r.Stdout != c.want+"\n"+c.want+"\n" {
					t.Errorf("the client sees the owners %q, want %s", r.Stdout, c.want)
				}
				out, err := (witness{at: filepath.Join(gw.local(), c.export)}).sh(ctx, `stat -c %u:%g "$1" "$1.d"; rm -r "$1" "$1.d"`, name)
				if err != nil || out != c.want+"\n"+c.want {
					t.Errorf("on the server the owners are %q, want %s; %v", out, c.want, err)
				}
			})
		}
	}
}

// squashDirs makes the directories of TestSquash.
func squashDirs(t *testing.T) string {
	t.Helper()
	dir := TempDir(t)
	for d, uid := range map[string]int{"root": 0, "all": 1001, "none": 0} {
		p := filepath.Join(dir, "local", d)
		if err := os.MkdirAll(p, 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o777)
		if d == "all" {
			mode = 0o700 // nobody but the anonymous user may enter
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(p, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Users in more groups than AUTH_SYS carries get into all of them with manage_gids; users whom the server does not
// know keep the groups they sent; owners unknown to the server come back as they went.
func TestUsersInManyGroups(t *testing.T) {
	Require(t, NeedProgram("getent"))
	g := lab.Guest(t, 0)
	dir := TempDir(t)
	etc := filepath.Join(dir, "etc")
	if err := os.MkdirAll(etc, 0o755); err != nil {
		t.Fatal(err)
	}
	const many, manyUID, unknownUID, first = "labmany", 4242, 54321, 6001
	var groups strings.Builder
	var gids []uint32
	for i := range uint32(40) {
		fmt.Fprintf(&groups, "labgroup%d:x:%d:%s\n", i, first+i, many)
		gids = append(gids, first+i)
	}
	last := gids[39]
	for name, content := range map[string]string{
		"passwd":        fmt.Sprintf("root:x:0:0::/root:/bin/sh\n%s:x:%d:%d::/:/bin/sh\n", many, manyUID, manyUID),
		"group":         fmt.Sprintf("root:x:0:\n%s:x:%d:\n%s", many, manyUID, groups.String()),
		"nsswitch.conf": "passwd: files\ngroup: files\ninitgroups: files\nhosts: files\n",
		"hosts":         "127.0.0.1 localhost\n",
	} {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"local/with", "local/without"} {
		p := filepath.Join(dir, d, "secret")
		if err := os.MkdirAll(p, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(p, 0, int(last)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, 0o2770); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Dir(p), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	gw := ownGateway(t, gatewayConfig{dir: dir, private: map[string]string{"/etc": etc}, exports: []string{
		`{path: /with, id: 1, engine: local, local: {root: DIR/local/with}, manage_gids: true, squash: none, access: [{clients: "*"}]}`,
		`{path: /without, id: 2, engine: local, local: {root: DIR/local/without}, squash: none, access: [{clients: "*"}]}`,
	}})
	for _, version := range versions {
		t.Run("v"+version, func(t *testing.T) {
			ctx := Context(t)
			try := func(at string, uid uint32, groups []uint32) error {
				_, err := g.RunCommand(ctx, GuestCommand{UID: uid, GID: uid, Groups: groups, Dir: at, Argv: []string{"sh", "-ec", "echo x >secret/f; cat secret/f; rm secret/f; ls secret"}})
				return err
			}
			with, without := mustMount(t, g, gw.mount(version, "/with")), mustMount(t, g, gw.mount(version, "/without"))
			if err := try(with, manyUID, gids); err != nil {
				t.Errorf("a user in 40 groups, with manage_gids: %v", err)
			}
			if err := try(without, manyUID, gids); err == nil {
				t.Error("the 40th group counts without manage_gids, where AUTH_SYS has 16")
			}
			if err := try(without, manyUID, gids[30:]); err != nil {
				t.Errorf("a user in ten groups, without manage_gids: %v", err)
			}
			if err := try(with, unknownUID, []uint32{last}); err != nil {
				t.Errorf("a user unknown to the server, with manage_gids: %v", err)
			}
			if err := try(with, unknownUID, []uint32{last - 1}); err == nil {
				t.Error("a user who is not in the group gets in")
			}
			// The server's groups count, not those that a known user claims.
			out := mustSh(t, ctx, g, `cd "$1"; echo x >f; chown 987654:876543 f; stat -c %u:%g f; chown 4000000000:4000000001 f; stat -c %u:%g f; rm f`, with)
			if out != "987654:876543\n4000000000:4000000001\n" {
				t.Errorf("owners come back as %q", out)
			}
		})
	}
}

// A directory that is exported below one that most users may not enter can be mounted, and each call is checked.
func TestMountBelowClosedDirectory(t *testing.T) {
	g := lab.Guest(t, 0)
	dir := TempDir(t)
	open := filepath.Join(dir, "local/a/b")
	if err := os.MkdirAll(open, 0o755); err != nil {
		t.Fatal(err)
	}
	for p, c := range map[string]struct {
		mode os.FileMode
		uid  int
	}{"local/a": {0o750, 3001}, "local/a/b": {0o755, 3002}} {
		if err := os.Chown(filepath.Join(dir, p), c.uid, c.uid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, p), c.mode); err != nil {
			t.Fatal(err)
		}
	}
	gw := ownGateway(t, gatewayConfig{dir: dir, exports: []string{
		`{path: /export, id: 1, engine: local, local: {root: DIR/local}, access: [{clients: "*"}]}`,
	}})
	ctx := Context(t)
	// Root is squashed and may not enter a, but it may mount what is below.
	at := mustMount(t, g, gw.mount("3", "/export/a/b"))
	as := func(uid uint32, script string) error {
		_, err := g.RunCommand(ctx, GuestCommand{UID: uid, GID: uid, Dir: at, Argv: []string{"sh", "-ec", script}})
		return err
	}
	if err := as(3002, "echo x >f; cat f"); err != nil {
		t.Errorf("the owner: %v", err)
	}
	if err := as(3003, "cat f"); err != nil {
		t.Errorf("another user, reading: %v", err)
	}
	if err := as(3003, "echo y >f"); err == nil {
		t.Error("another user writes")
	}
	top := mustMount(t, g, gw.mount("3", "/export"))
	if r, err := g.RunCommand(ctx, GuestCommand{UID: 3003, GID: 3003, Argv: []string{"ls", top + "/a/b"}}); err == nil || !strings.Contains(r.Stderr, "Permission denied") {
		t.Errorf("through the closed directory: %+v", r)
	}
}
