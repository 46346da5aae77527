//go:build cgo && librados

package libcephfs

import (
	"encoding/json"
	"errors"
	"fmt"
)

// instanceKey is the key under which a session's metadata name its gateway.
const instanceKey = "capstan_instance"

// session is what `client ls` of an MDS tells of one.
type session struct {
	ID       int64             `json:"id"`
	State    string            `json:"state"`
	Metadata map[string]string `json:"client_metadata"`
}

// evictOlder evicts the sessions of mounts with our Instance that are older
// than ours. Session numbers of one cluster only grow, and ours is the newest.
func (f *FS) evictOlder() error {
	list := func() ([]session, error) {
		out, err := f.command(map[string]any{"prefix": "session ls", "format": "json"})
		if err != nil {
			return nil, err
		}
		// The metadata are nested one deeper than our keys.
		var raw []struct {
			ID       int64          `json:"id"`
			State    string         `json:"state"`
			Metadata map[string]any `json:"client_metadata"`
		}
		if err := json.Unmarshal(out, &raw); err != nil {
			return nil, fmt.Errorf("session ls: %w", err)
		}
		var ss []session
		for _, r := range raw {
			s := session{ID: r.ID, State: r.State, Metadata: map[string]string{}}
			for k, v := range r.Metadata {
				if v, ok := v.(string); ok {
					s.Metadata[k] = v
				}
			}
			ss = append(ss, s)
		}
		return ss, nil
	}
	ss, err := list()
	if err != nil {
		return err
	}
	var newest int64
	for _, s := range ss {
		if s.Metadata[instanceKey] == f.opt.Instance {
			newest = max(newest, s.ID)
		}
	}
	var errs []error
	for _, s := range ss {
		if s.Metadata[instanceKey] == f.opt.Instance && s.ID != newest {
			_, err := f.command(map[string]any{"prefix": "session evict", "filters": []string{fmt.Sprint("id=", s.ID)}})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// command sends a command to rank 0 of the filesystem.
func (f *FS) command(args map[string]any) ([]byte, error) {
	b, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	f.enter()
	defer f.leave()
	out, status, err := f.mount.MdsCommand("0", [][]byte{b})
	if err != nil {
		return nil, fmt.Errorf("mds command %v: %s: %w", args["prefix"], status, errnoOf(err))
	}
	return out, nil
}
