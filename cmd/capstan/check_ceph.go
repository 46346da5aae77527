package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"capstan/cephfs/cluster"
	"capstan/cephfs/denc"
	"capstan/cephfs/mon"
	"capstan/cephfs/osd"
	"capstan/config"
)

// checkCeph asks a cluster, with capstan's own client, for all that an export
// needs of it, and says what is missing: monitors, key, file system, an active
// metadata server, pools, and the key's right to read them.
func checkCeph(ctx context.Context, e config.LibCephFS) error {
	c, err := connectCluster(ctx, cluster.Options{
		Conf: e.Conf, Keyring: e.Keyring,
		Name: denc.EntityName{Type: denc.TypeClient, ID: strings.TrimPrefix(e.Name, "client.")},
	}, connectTimeout)
	if err != nil {
		return err
	}
	defer c.Close()
	fs, err := findFilesystem(ctx, c, e.Filesystem)
	if err != nil {
		return err
	}
	return errors.Join(fs.active(), fs.readable(ctx, c))
}

// filesystem is what "fs dump" tells of one.
type filesystem struct {
	Map struct {
		Name string  `json:"fs_name"`
		Data []int64 `json:"data_pools"`
		In   []int   `json:"in"` // the ranks that there are to be
		Info map[string]struct {
			Name  string `json:"name"`
			Rank  int    `json:"rank"`
			State string `json:"state"`
		} `json:"info"`
	} `json:"mdsmap"`
	ID int64 `json:"id"`
}

// findFilesystem finds a file system by its name, or the default one.
func findFilesystem(ctx context.Context, c *cluster.Cluster, name string) (*filesystem, error) {
	r, err := c.Mon.Command(ctx, mon.Command{Args: mon.Args{"prefix": "fs dump"}})
	if err != nil {
		return nil, fmt.Errorf("the file systems cannot be listed (the key needs mon 'allow r'): %w", err)
	}
	var dump struct {
		Default     int64        `json:"default_fscid"`
		Filesystems []filesystem `json:"filesystems"`
	}
	if err := r.Decode(&dump); err != nil {
		return nil, err
	}
	var names []string
	for i := range dump.Filesystems {
		fs := &dump.Filesystems[i]
		if name == fs.Map.Name || name == "" && fs.ID == dump.Default {
			return fs, nil
		}
		names = append(names, fs.Map.Name)
	}
	switch {
	case len(names) == 0:
		return nil, errors.New("no file system that this key may see")
	case name == "":
		return nil, fmt.Errorf("no default file system; there are: %s", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("no file system %q; there are: %s", name, strings.Join(names, ", "))
}

// active says whether every rank has an active metadata server.
func (fs *filesystem) active() error {
	if len(fs.Map.In) == 0 {
		return fmt.Errorf("file system %s has no active MDS", fs.Map.Name)
	}
	var missing []string
	for _, rank := range fs.Map.In {
		state := "has no MDS"
		for _, i := range fs.Map.Info {
			if i.Rank == rank {
				state = fmt.Sprintf("is mds.%s, %s", i.Name, i.State)
			}
			if i.Rank == rank && i.State == "up:active" {
				state = ""
				break
			}
		}
		if state != "" {
			missing = append(missing, fmt.Sprintf("rank %d %s", rank, state))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("file system %s has no active MDS for every rank: %s", fs.Map.Name, strings.Join(missing, ", "))
	}
	return nil
}

// readable says whether the key may read the data pools.
func (fs *filesystem) readable(ctx context.Context, c *cluster.Cluster) error {
	m, err := c.Latest(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range fs.Map.Data {
		name := m.PoolNames[id]
		if m.Pool(id) == nil {
			errs = append(errs, fmt.Errorf("data pool %d of file system %s does not exist", id, fs.Map.Name))
			continue
		}
		// No client makes an object of this name.
		_, _, err := c.OSD.Stat(ctx, osd.Object{Pool: id, Name: "capstan.check"})
		switch {
		case err == nil, osd.IsNotExist(err):
		case errors.Is(err, syscall.EPERM):
			errs = append(errs, fmt.Errorf("the key may not read pool %s (it needs osd 'allow rw tag cephfs data=%s'): %w", name, fs.Map.Name, err))
		default:
			errs = append(errs, fmt.Errorf("pool %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
