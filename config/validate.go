package config

import (
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// validate checks what only shows when the whole file is read. list is the
// node of the exports, for lines.
func (r *reader) validate(c *Config, list *yaml.Node) {
	node := func(i int) *yaml.Node {
		if list = deref(list); list != nil && list.Kind == yaml.SequenceNode && i < len(list.Content) {
			return deref(list.Content[i])
		}
		return nil
	}
	ids, paths, fsids := map[uint32]int{}, map[string]int{}, map[uint64]int{}
	for i := range c.Exports {
		e, n := &c.Exports[i], node(i)
		key := fmt.Sprintf("exports[%d]", i)
		if why := checkExportPath(e.Path); e.Path != "" && why != "" {
			r.fail(keyNode(n, "path"), key+".path", "%s", why)
		}
		if j, dup := paths[e.Path]; dup && e.Path != "" {
			r.fail(keyNode(n, "path"), key+".path", "%q is the path of exports[%d] too", e.Path, j)
		}
		if j, dup := ids[e.ID]; dup && e.ID != 0 {
			r.fail(keyNode(n, "id"), key+".id", "%d is the id of exports[%d] too", e.ID, j)
		}
		fsid := e.FSID
		if fsid == 0 {
			fsid = uint64(e.ID)
		}
		if j, dup := fsids[fsid]; dup && fsid != 0 {
			if _, sameID := ids[e.ID]; !sameID {
				r.fail(keyNode(n, "fsid"), key+".fsid", "%d is the fsid of exports[%d] too", fsid, j)
			}
		}
		paths[e.Path], ids[e.ID], fsids[fsid] = i, i, i
		if e.Engine == "local" && e.Local.Root == "" {
			r.fail(n, key+".local.root", "missing: the directory to export")
		}
		if len(e.Versions) == 0 {
			r.fail(keyNode(n, "versions"), key+".versions", "no version is left that could mount this export")
		}
		if len(e.Access) == 0 {
			r.fail(n, key+".access", "missing: nobody could mount this export; say who may, for instance [{clients: 10.0.0.0/8}]")
		}
	}
	for a := range paths {
		for b, i := range paths {
			if a != b && a != "" && a != "/" && strings.HasPrefix(b, a+"/") {
				r.fail(keyNode(node(i), "path"), fmt.Sprintf("exports[%d].path", i), "%q lies inside the export %q", b, a)
			}
		}
	}
	if _, root := paths["/"]; root && len(paths) > 1 {
		r.fail(keyNode(node(paths["/"]), "path"), fmt.Sprintf("exports[%d].path", paths["/"]), "an export at / leaves no place for the others")
	}
}

// keyNode returns the value of a key of mapping n, or n itself.
func keyNode(n *yaml.Node, name string) *yaml.Node {
	if n != nil && n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				return n.Content[i+1]
			}
		}
	}
	return n
}

// checkExportPath says what is wrong with a pseudo path, "" if nothing is.
func checkExportPath(p string) string {
	switch {
	case !strings.HasPrefix(p, "/"):
		return fmt.Sprintf("want a path that starts with /, got %q", p)
	case path.Clean(p) != p:
		return fmt.Sprintf("write %q as %q", p, path.Clean(p))
	case strings.ContainsRune(p, 0):
		return "a path holds no NUL"
	case len(p) > 1024:
		return "a path has at most 1024 bytes"
	}
	for _, name := range strings.Split(p, "/") {
		if len(name) > 255 {
			return "a name in a path has at most 255 bytes"
		}
	}
	return ""
}
