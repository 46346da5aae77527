package mon

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"capstan/cephfs/denc"
)

func golden(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The map was made by monmaptool of 16.2.15, which prints what is wanted here.
func TestDecodeMonMap(t *testing.T) {
	b := golden(t, "monmap-16.2.15")
	m, err := DecodeMonMap(b)
	if err != nil {
		t.Fatal(err)
	}
	if m.FSID.String() != "3f6a2c1e-0000-4000-8000-00000000abcd" || m.Epoch != 0 || m.Created.Format(time.RFC3339) != "2026-11-30T18:21:17Z" {
		t.Errorf("%v %d %v", m.FSID, m.Epoch, m.Created)
	}
	var got []string
	for _, mon := range m.Monitors {
		got = append(got, mon.Name+" "+mon.Addrs.String())
	}
	want := []string{"a [v2:192.0.2.1:3300/0,v1:192.0.2.1:6789/0]", "c v1:192.0.2.3:6789/0",
		"d [v2:[2001:db8::4]:3300/0,v1:[2001:db8::4]:6789/0]", "b v2:192.0.2.2:3300/0"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if mon, ok := m.Find("d"); !ok || mon.Addrs[0].Host.Port() != 3300 {
		t.Error("d is not there")
	}
	if mon, ok := m.FindAddr(m.Monitors[2].Addrs[1]); !ok || mon.Name != "d" {
		t.Error("d is not at its address")
	}
	for i := range b {
		if _, err := DecodeMonMap(b[:i]); err == nil {
			t.Errorf("cut at %d passed", i)
		}
	}
	newer := slices.Clone(b)
	newer[0], newer[1] = 11, 10
	if _, err := DecodeMonMap(newer); !errors.Is(err, denc.ErrVersion) {
		t.Errorf("%v", err)
	}
}

func TestRecordedMaps(t *testing.T) {
	m, err := DecodeMgrMap(golden(t, "mgrmap-16.2.15"))
	if err != nil || m.Epoch != 4 || m.ActiveName != "x" || m.ActiveGID != 4102 || !m.Available || m.ActiveAddrs[0].String() != "v2:10.99.0.1:6816/27464" {
		t.Errorf("%+v, %v", m, err)
	}
	m, err = DecodeMgrMap(golden(t, "mgrmap-20.2.4"))
	if err != nil || m.Epoch != 3 || m.ActiveName != "x" || m.ActiveGID != 4102 || !m.Available || m.ActiveAddrs[0].String() != "v2:10.99.0.1:6808/899097399" {
		t.Errorf("%+v, %v", m, err)
	}
	mm, err := decodeMonMapMessage(golden(t, "monmap-message-20.2.4"))
	if err != nil || mm.Epoch != 1 || mm.FSID.String() != "3cdf9deb-521d-4c90-8317-b06708fb6717" || mm.MinRelease != 20 ||
		len(mm.Monitors) != 1 || mm.Monitors[0].Addrs.String() != "[v2:10.99.0.1:40100/0,v1:10.99.0.1:40101/0]" {
		t.Errorf("%+v, %v", mm, err)
	}
	for name, typ := range map[string]uint16{"mgrmap": msgMgrMap, "fsmap": msgFSMap, "mdsmap": msgMDSMap, "osdmap": msgOSDMap} {
		b := golden(t, name+"-16.2.15")
		epoch, _, err := epochOf(typ, b)
		if want := map[string]uint64{"mgrmap": 4, "fsmap": 5, "mdsmap": 5, "osdmap": 23}[name]; err != nil || epoch != want {
			t.Errorf("%s: epoch %d, %v", name, epoch, err)
		}
		if _, _, err := epochOf(typ, b[:3]); err == nil {
			t.Errorf("%s: a cut message passed", name)
		}
	}
}

func TestCommandText(t *testing.T) {
	for _, c := range []struct {
		cmd  Command
		want string
	}{
		{Command{Args: Args{"prefix": "status"}}, `{"format":"json","prefix":"status"}`},
		{Command{Args: Args{"prefix": "fsid", "format": ""}}, `{"prefix":"fsid"}`},
		{Command{Args: Args{"prefix": "x", "expire": 1.0, "half": 0.5, "n": 3, "list": []string{"a"}, "format": "xml"}},
			`{"expire":1.0,"format":"xml","half":0.5,"list":["a"],"n":3,"prefix":"x"}`},
	} {
		if got, err := c.cmd.text(); got != c.want || err != nil {
			t.Errorf("%s, %v", got, err)
		}
	}
	if _, err := (&Command{}).text(); err == nil {
		t.Error("a command without a prefix passed")
	}
	if _, err := (&Command{Args: Args{"prefix": "x", "y": make(chan int)}}).text(); err == nil {
		t.Error("a channel passed")
	}
	for prefix, want := range map[string]bool{
		"status": true, "osd dump": true, "osd pool get": true, "auth get": true, "fs subvolume getpath": true,
		"auth get-or-create": false, "osd pool create": false, "osd pool set": false, "config set": false, "": false, "osd getmap": true,
	} {
		if (&Command{Args: Args{"prefix": prefix}}).repeatable() != want {
			t.Errorf("%q", prefix)
		}
	}
	if !(&Command{Args: Args{"prefix": "osd pool create"}, Repeatable: true}).repeatable() {
		t.Error("Repeatable does not count")
	}
}

func TestHunt(t *testing.T) {
	now := time.Unix(1000, 0)
	var h hunt
	fill := func() []candidate { return []candidate{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}} }
	try := func(want string) {
		t.Helper()
		c, ok, _ := h.step(now, fill)
		if !ok || c.name != want {
			t.Fatalf("%q %v, want %q", c.name, ok, want)
		}
	}
	not := func(d time.Duration) {
		t.Helper()
		_, ok, again := h.step(now, fill)
		if ok || d == 0 && !again.IsZero() || d != 0 && again.Sub(now) != d {
			t.Fatalf("%v %v, want %v", ok, again.Sub(now), d)
		}
	}
	try("a")
	not(huntStagger)
	if h.failed(now, true) {
		t.Error("hopeless too early")
	}
	try("b") // at once after a failure
	now = now.Add(huntStagger)
	try("c")
	now = now.Add(huntStagger)
	try("d")
	not(0) // three under way
	h.failed(now, true)
	not(0) // the round is not over
	h.failed(now, true)
	if !h.failed(now, true) {
		t.Error("not hopeless")
	}
	var last time.Duration
	for round := range 8 {
		_, ok, again := h.step(now, fill)
		pause := again.Sub(now)
		if ok || pause < huntPause/2 || pause > huntPauseMax {
			t.Fatalf("round %d: pause %v", round, pause)
		}
		last = pause
		now = again
		for _, name := range []string{"a", "b", "c", "d"} {
			try(name)
			if h.failed(now, name == "a") {
				t.Error("hopeless with passing faults")
			}
		}
	}
	if last < huntPauseMax/2 {
		t.Errorf("last pause %v", last)
	}
	h.found()
	h.lost(now, time.Hour)
	try("a")
	for i := range 12 {
		h.found()
		h.lost(now, time.Second)
		pause := h.next.Sub(now)
		if pause <= 0 || i == 0 && pause > 100*time.Millisecond || pause > huntPauseMax || i == 11 && pause < huntPauseMax/2 {
			t.Errorf("pause %v after %d short sessions", pause, i+1)
		}
	}
	if _, _, again := (&hunt{}).step(now, func() []candidate { return nil }); again.IsZero() {
		t.Error("no candidates: no time to ask again")
	}
}

func TestOrder(t *testing.T) {
	m := &MonMap{Monitors: []Monitor{{Name: "late", Priority: 1}, {Name: "heavy", Weight: 100}, {Name: "light", Weight: 1}, {Name: "none"}}}
	first := map[string]int{}
	for range 2000 {
		o := order(m)
		if len(o) != 4 || o[3].name != "late" || o[2].name != "none" {
			t.Fatalf("%v", o)
		}
		first[o[0].name]++
	}
	if first["heavy"] < 1900 || first["light"] == 0 {
		t.Errorf("%v", first)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(uint16(msgMonMap), golden(f, "monmap-16.2.15"))
	f.Add(uint16(msgMonMap), golden(f, "monmap-message-20.2.4"))
	f.Add(uint16(msgMgrMap), golden(f, "mgrmap-16.2.15")[:600])
	f.Add(uint16(msgFSMap), golden(f, "fsmap-16.2.15"))
	f.Add(uint16(msgMDSMap), golden(f, "mdsmap-16.2.15")[:100])
	f.Add(uint16(msgOSDMap), golden(f, "osdmap-16.2.15"))
	f.Add(uint16(msgMonCommandAck), make([]byte, 30))
	f.Fuzz(func(t *testing.T, typ uint16, b []byte) {
		DecodeMonMap(b)
		decodeMonMapMessage(b)
		DecodeMgrMap(b)
		DecodeConfig(b)
		decodeAuthReply(b)
		decodeVersionReply(b)
		decodeCommandReply(typ, b)
		epochOf(typ, b)
	})
}
