package auth_test

import (
	"fmt"
	"os"
	"path/filepath"

	"capstan/cephfs/auth"
	"capstan/cephfs/denc"
)

// What a configuration file, the environment and options say together.
func ExampleLoad() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	conf := filepath.Join(dir, "ceph.conf")
	os.WriteFile(conf, []byte(`
[global]
	mon host = [v2:192.0.2.1:3300,v1:192.0.2.1:6789], 192.0.2.2
	log file = /var/log/$cluster-$name.log
[client.backup]
	ms client mode = secure
`), 0o600)

	cfg, err := auth.Load(auth.LoadOptions{
		Conf:   conf,
		Name:   denc.EntityName{Type: denc.TypeClient, ID: "backup"},
		Getenv: func(string) string { return "" },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	host, _ := cfg.Get("mon_host")
	hosts, _ := auth.ParseMonHosts(host)
	for _, h := range hosts {
		fmt.Println(h.Addrs)
	}
	log, _ := cfg.Get("log file")
	fmt.Println(log)
	modes, _ := cfg.Modes("ms_client_mode")
	fmt.Println(modes)
	// Output:
	// [v2:192.0.2.1:3300/0,v1:192.0.2.1:6789/0]
	// [v2:192.0.2.2:3300/0,v1:192.0.2.2:6789/0]
	// /var/log/ceph-client.backup.log
	// [2]
}

func ExampleParseKeyring() {
	r, err := auth.ParseKeyring("keyring", []byte(`
[client.backup]
	key = AQB5lQxqyQPjMBAAUk2mhB0d4Z6H4CkpZ3kuWg==
	caps osd = "allow rw pool=backup"
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	e, _ := r.Get(denc.EntityName{Type: denc.TypeClient, ID: "backup"})
	fmt.Println(e.Key, e.Caps["osd"])
	// Output: key(aes) allow rw pool=backup
}
