package libcephfs

import "time"

// Options say what to mount and how. The zero value mounts the default
// filesystem of the cluster in /etc/ceph/ceph.conf as client.admin.
type Options struct {
	// Conf is the cluster's configuration file; empty: the library's usual
	// places.
	Conf string
	// Client is the name of the client, with or without "client."; empty:
	// "admin".
	Client string
	// Keyring is a keyring file, KeyFile a file with nothing but the key. Empty:
	// as the configuration says.
	Keyring, KeyFile string
	// Filesystem is the name of the filesystem; empty: the cluster's default.
	Filesystem string
	// Root is the directory to mount; empty: "/".
	Root string
	// Timeout bounds the wait for the cluster when mounting; 0: 30 s. Whole
	// seconds.
	Timeout time.Duration
	// Settings are options of the Ceph client, set last.
	Settings map[string]string
	// MaxCalls bounds the calls into the library at a time; 0: 64.
	MaxCalls int
	// MaxFileSize is what the filesystem is set to (`ceph fs set NAME
	// max_file_size`), in bytes; 0: 1 TiB, its default.
	MaxFileSize uint64
	// SyncMetadata flushes what a call did to names and attributes before it
	// returns; see lazy-metadata in the package comment.
	SyncMetadata bool
	// Instance names this mount among the sessions of the MDS. If not empty,
	// sessions of the same name that a killed process left behind are evicted
	// when mounting; that takes `mds allow *` in the key, and is skipped with a
	// warning without it. Two running gateways must not share it.
	Instance string
	// Lost is told, from any goroutine and maybe often, that the cluster has shut
	// this client out (ESHUTDOWN), after which the mount never works again; nil:
	// nobody.
	Lost func(err error)
	// Warn is told of what went wrong without making the mount fail; nil:
	// nobody.
	Warn func(msg string, err error)
}
