// The layout of the old registry: agents/SESSION.toml, one entry in each file.
//
// The file name is the id of the entry, whatever id the document has. If the name can't be an id,
// the id in the document counts, unless the tree has another file for that id. An export writes
// such files with their original names and bytes. A file that the original can't read goes into
// quarantine and blocks nothing. Entries that were put aside are not exported: the original had
// deleted them.

package agents

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"selvedge/internal/tree"
	"selvedge/internal/tree/documents"
	"selvedge/internal/txn"
)

// Layout is the layout of the old registry's trees, for package legacy.
func Layout() tree.Layout { return documents.Layout{Kind: kind{}} }

type kind struct{}

func (kind) Name() string { return "agents" }

// Describe counts the entries.
func (kind) Describe(files map[string]int) string {
	return fmt.Sprintf("an agent registry: %d entries", files[entryExtension])
}

// Root is agents/, which dir is or holds.
func (kind) Root(dir tree.Folder) (tree.Folder, error) {
	root, err := dir.Sub("agents")
	if errors.Is(err, fs.ErrNotExist) && dir.Called("agents") {
		root, err = dir, nil
	}
	if err == nil && !isParent(root) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return root, err
	}
	return root, tree.NoTree(dir, "agent registry", "name the folder that holds agents/, or its agents/")
}

const (
	entryExtension = ".toml"
	lockFile       = ".lock"
)

// isParent reports whether a folder called agents/ holds another agents/ and no entry. Such a
// folder is not the registry's.
func isParent(dir tree.Folder) bool {
	if _, err := dir.Sub("agents"); err != nil {
		return false
	}
	entry, err := tree.HasFile(kind{}, dir, func(string) bool { return true })
	return err == nil && !entry
}

// Walk follows the original: every name with the extension toml is an entry's.
func (kind) Walk(root tree.Folder, file func(string) error, ignored func(path, reason string) error) error {
	return root.Names(".", func(name string) error {
		if strings.HasSuffix(name, entryExtension) && len(name) > len(entryExtension) {
			return file(name)
		}
		if name == lockFile {
			return nil
		}
		return ignored(name, "the name has no .toml extension")
	})
}

func (kind) Decode(text []byte) (value any, reason, flaw string) {
	e, err := DecodeTOML(text)
	if err != nil {
		return nil, err.Error(), ""
	}
	return e, "", ""
}

func (kind) Own(_ string, value any) tree.Entity {
	return tree.Entity{ID: tree.Shown(value.(Entry).SessionID)}
}

func (k kind) Identities(path string, value any, claimed func(path string) bool) []tree.Entity {
	own := k.Own(path, value)
	byPath := tree.Entity{ID: strings.TrimSuffix(path, entryExtension)}
	if own == byPath {
		return []tree.Entity{own}
	}
	if isAgentID(byPath.ID) {
		return []tree.Entity{byPath}
	}
	if isAgentID(own.ID) && !claimed(own.ID+entryExtension) {
		return []tree.Entity{own}
	}
	return nil
}

func isAgentID(id string) bool {
	return len(id) <= txn.MaxID && checkID(id) == nil
}

// Forms is the one file of an entry.
func (kind) Forms(path string) []string { return []string{path} }

func (kind) Once() bool { return false }

func (kind) Path(e tree.Entity) (path, problem string) {
	path = e.ID + entryExtension
	if len(path) > tree.MaxName {
		return path, "its file name is too long"
	}
	return path, ""
}

func (kind) Title(e tree.Entity) string { return fmt.Sprintf("agent %q", e.ID) }

func (kind) Unlisted(string) string { return "" }

func (kind) Folder() string { return "agents" }
