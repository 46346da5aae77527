package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"capstan/cephfs/libcephfs"
	"capstan/export"
	"capstan/export/billyfs"
	"capstan/export/memory"
)

// An independent server serves our Volumes, seen as billy filesystems, to a real client: what the client writes the
// Volume has, and the other way round.
func TestGoNFSServesVolumes(t *testing.T) {
	for _, c := range []struct {
		engine string
		open   func(t *testing.T) export.Volume
	}{
		{"memory", func(t *testing.T) export.Volume {
			v, err := memory.New(memory.Options{RootMode: 0o755})
			if err != nil {
				t.Fatal(err)
			}
			return v
		}},
		{"libcephfs", openLibCephFS},
	} {
		t.Run(c.engine, func(t *testing.T) {
			g := lab.Guest(t, 0)
			ctx := longContext(t, 4*time.Minute)
			v := c.open(t)
			t.Cleanup(func() {
				if err := v.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			fs := billyfs.NewFilesystem(ctx, v, &export.Cred{Client: "go-nfs"})
			s, err := StartGoNFS(ctx, lab.Net(t), fs)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			Peer(t, "go-nfs")
			at := mustMount(t, g, s.Mount())

			// From the client to the Volume.
			out := mustSh(t, ctx, g, `cd "$1"
				mkdir -p dir/sub; printf 'one\n' >dir/one; seq 1 200000 >dir/sub/numbers; : >empty; ln -s dir/one link
				chmod 640 dir/one; touch -d '2021-02-03 04:05:06' dir/one; truncate -s 1000 dir/sub/cut 2>/dev/null || : >dir/sub/cut
				mv dir/sub/numbers dir/moved; rm empty; mkdir gone; rmdir gone
				sha256sum <dir/moved; cat link; readlink link; ls dir; stat -c '%a %Y %s %h' dir/one`, at)
			f := strings.Fields(out)
			if len(f) < 9 {
				t.Fatalf("%q", out)
			}
			want := fmt.Sprintf("%s - one dir/one moved one sub 640 1612325106 4 1", f[0])
			if got := strings.Join(f, " "); got != want {
				t.Errorf("the client sees\n%s\nwant\n%s", got, want)
			}
			numbers, err := readBilly(fs, "dir/moved")
			if err != nil || strings.Count(numbers, "\n") != 200_000 || !strings.HasSuffix(numbers, "\n200000\n") {
				t.Errorf("the Volume has %d bytes, %v", len(numbers), err)
			}
			st, err := fs.Stat("dir/one")
			if err != nil || st.Size() != 4 || st.Mode().Perm() != 0o640 || st.ModTime().Unix() != 1612325106 {
				t.Errorf("the Volume has %v, %v", st, err)
			}

			// From the Volume to the client.
			for i := range 300 {
				w, err := fs.Create(fmt.Sprintf("many/file%03d", i))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := w.Write([]byte(strings.Repeat(fmt.Sprint(i), 1000))); err != nil {
					t.Fatal(err)
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
			}
			got := mustSh(t, ctx, g, `cd "$1/many"; ls | wc -l; ls | uniq -d | wc -l; for i in 000 123 299; do head -c 6 file$i; echo; wc -c <file$i; done`, at)
			if want := "300\n0\n000000\n1000\n123123\n3000\n299299\n3000\n"; got != want {
				t.Errorf("the client sees %q, want %q", got, want)
			}
			mustSh(t, ctx, g, `cd "$1"; rm -r dir many link; ls -A | wc -l | grep -qx 0`, at)
		})
	}
}

func readBilly(fs *billyfs.Filesystem, name string) (string, error) {
	f, err := fs.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var b strings.Builder
	buf := make([]byte, 64<<10)
	for {
		n, err := f.Read(buf)
		b.Write(buf[:n])
		if err != nil || n == 0 {
			if b.Len() > 0 {
				err = nil // io.EOF
			}
			return b.String(), err
		}
	}
}

// openLibCephFS mounts a fresh directory of the lab's CephFS in this process, as a Volume.
func openLibCephFS(t *testing.T) export.Volume {
	t.Helper()
	requireLibCephFS(t)
	c := lab.Cluster(t)
	n := lab.Net(t)
	dir := fmt.Sprintf("/gonfs-%d", time.Now().UnixNano())
	var top, fs *libcephfs.FS
	// Threads of the library belong to the namespace that it is mounted in.
	err := n.Do(func() (err error) {
		o := libcephfs.Options{Conf: c.ConfPath(), Filesystem: c.FSName(), Settings: map[string]string{"log_file": "/dev/null"}}
		if top, err = libcephfs.Mount(o); err != nil {
			return err
		}
		if err = top.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		o.Root = dir
		fs, err = libcephfs.Mount(o)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, f := range []*libcephfs.FS{fs, top} {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	v, err := billyfs.NewVolume(fs, billyfs.Options{Table: filepath.Join(TempDir(t), "handles")})
	if err != nil {
		t.Fatal(err)
	}
	return v
}
