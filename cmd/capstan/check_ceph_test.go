package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// Each rank that a file system is to have needs an active metadata server.
func TestEveryRankIsActive(t *testing.T) {
	for dump, want := range map[string]string{
		`{"mdsmap":{"fs_name":"a","in":[0,1],"info":{"g1":{"name":"x","rank":0,"state":"up:active"},"g2":{"name":"y","rank":1,"state":"up:active"},"g3":{"name":"z","rank":-1,"state":"up:standby"}}}}`: "",
		`{"mdsmap":{"fs_name":"a","in":[0],"info":{"g1":{"name":"x","rank":0,"state":"up:standby-replay"},"g2":{"name":"y","rank":0,"state":"up:active"}}}}`:                                            "",
		`{"mdsmap":{"fs_name":"a","in":[0,1],"info":{"g1":{"name":"x","rank":0,"state":"up:active"}}}}`:                                                                                                 "rank 1 has no MDS",
		`{"mdsmap":{"fs_name":"a","in":[0],"info":{"g1":{"name":"x","rank":0,"state":"up:replay"}}}}`:                                                                                                   "rank 0 is mds.x, up:replay",
		`{"mdsmap":{"fs_name":"a","in":[],"info":{}}}`: "no active MDS",
	} {
		var fs filesystem
		if err := json.Unmarshal([]byte(dump), &fs); err != nil {
			t.Fatal(err)
		}
		switch err := fs.active(); {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", dump, err, want)
		}
	}
}
