//go:build cgo && librados

package libcephfs_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"capstan/cephfs/libcephfs"
	"capstan/export"
	"capstan/export/billyfs"
)

const childEnv = "CAPSTAN_TEST_KILL_DIR"

// TestKillWhileWriting: after a SIGKILL with files open, a new mount of the same
// instance gets at them at once, handles are good, attributes and stable bytes
// are there.
func TestKillWhileWriting(t *testing.T) {
	if dir := os.Getenv(childEnv); dir != "" {
		killMe(t, dir)
	}
	conf(t)
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestKillWhileWriting$")
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var file export.Object
	for in := bufio.NewScanner(out); in.Scan(); {
		if _, err := fmt.Sscanf(in.Text(), "told %d %d", &file.Ino, &file.Snap); err == nil {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // says that it was killed
	if file.Ino == 0 {
		t.Fatal("the child told nothing")
	}
	begin := time.Now()
	root := mount(t, libcephfs.Options{Instance: dir})
	defer root.Close()
	sub, err := root.Chroot(filepath.Base(dir) + filepath.Base(filepath.Dir(dir)))
	if err != nil {
		t.Fatal(err)
	}
	v, err := billyfs.NewVolume(sub, billyfs.Options{Table: filepath.Join(dir, "handles")})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close(t.Context())
	a, err := v.GetAttr(t.Context(), sys, file, export.MaskAll)
	if err != nil || a.Mode != 0o604 || a.UID != 1234 {
		t.Errorf("attributes %o %d, %v", a.Mode, a.UID, err)
	}
	f, err := v.Open(t.Context(), sys, file, export.OpenRead|export.OpenWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	n, _, err := f.ReadAt(t.Context(), buf, 0)
	if err != nil || !bytes.Equal(buf[:n], bytes.Repeat([]byte{'s'}, 1<<20)) {
		t.Errorf("%d stable bytes, %v", n, err)
	}
	if _, _, err := f.WriteAt(t.Context(), sys, []byte("again"), 0, export.FileSync); err != nil {
		t.Error(err)
	}
	if d := time.Since(begin); d > 45*time.Second {
		t.Errorf("the file was out of reach for %v", d)
	}
}

var sys = export.System()

func killMe(t *testing.T, dir string) {
	root := mount(t, libcephfs.Options{Instance: dir})
	name := filepath.Base(dir) + filepath.Base(filepath.Dir(dir))
	if err := root.Mkdir(name, 0o755); err != nil {
		t.Fatal(err)
	}
	sub, err := root.Chroot(name)
	if err != nil {
		t.Fatal(err)
	}
	v, err := billyfs.NewVolume(sub, billyfs.Options{Table: filepath.Join(dir, "handles")})
	if err != nil {
		t.Fatal(err)
	}
	top, err := v.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	made, err := v.Create(t.Context(), sys, top, "f", &export.Create{Open: export.OpenRead | export.OpenWrite})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = made.File.WriteAt(t.Context(), sys, bytes.Repeat([]byte{'s'}, 1<<20), 0, export.FileSync)
	if err != nil {
		t.Fatal(err)
	}
	set := &export.SetAttr{Set: export.SetMode | export.SetUID, Mode: 0o604, UID: 1234}
	if _, err := v.SetAttr(t.Context(), sys, made.Object, nil, set); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("told %d %d\n", made.Object.Ino, made.Object.Snap)
	select {}
}
