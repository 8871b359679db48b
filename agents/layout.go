// The layout of the old registry: agents/SESSION.toml, one entry a file.
//
// A file becomes the entry that it says it is, where that one's file is this; else the entry that
// its name says; else, where the name can't be an id, the entry that it says it is, if the tree has
// no other file for that. Such files leave, in an export, under the names and with the bytes that
// they came with. What the original can't read goes into quarantine and stands in nobody's way.
// Entries that were put aside are not exported: the original had deleted them.

package agents

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"

	"selvedge/db"
	"selvedge/internal/tree"
	"selvedge/internal/tree/documents"
)

// Layout is that of the old registry's trees, for package legacy.
func Layout() tree.Layout { return documents.Layout{Kind: kind{}} }

type kind struct{}

func (kind) Name() string { return "agents" }

// Recognise takes a folder in which the original can read an entry.
func (k kind) Recognise(dir tree.Folder) (string, bool, error) {
	root, err := k.Root(dir)
	if errors.Is(err, db.ErrNotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	files, readable := 0, false
	err = k.Walk(root, func(path string) error {
		files++
		readable = readable || documents.ReadFile(k, root, path).Readable()
		return nil
	}, func(string, string) error { return nil })
	return fmt.Sprintf("an agent registry: %d entries", files), err == nil && readable, err
}

// Root finds the folder agents/ from itself or from the folder that holds it.
func (kind) Root(dir tree.Folder) (tree.Folder, error) {
	root, err := dir.Sub("agents")
	if errors.Is(err, fs.ErrNotExist) && dir.Called("agents") {
		root, err = dir, nil
	}
	if err == nil && !isParent(root) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return root, err
	}
	return tree.Folder{}, &db.Error{
		Op: "open tree", Entity: "agent registry", ID: dir.Path(),
		Err: db.ErrNotFound, Hint: "name the folder that holds agents/, or its agents/",
	}
}

const (
	entryExtension = ".toml"
	lockFile       = ".lock"
)

// isParent reports whether a folder called agents/ holds one, and no entry: it is not the registry's.
func isParent(dir tree.Folder) bool {
	if _, err := dir.Sub("agents"); err != nil {
		return false
	}
	found := errors.New("found")
	return kind{}.Walk(dir, func(string) error { return found },
		func(string, string) error { return nil }) == nil
}

func (kind) Noun() string { return "agent" }

// Walk does as the original: every name with the extension toml is an entry's.
func (kind) Walk(root tree.Folder, file func(path string) error,
	ignored func(path, reason string) error,
) error {
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
	return id != "" && len(id) <= db.MaxID && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// Forms is the one file that an entry has.
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

func (kind) Store(d *db.DB, scope string) documents.Store {
	return store{d, table{scope: scope}}
}

// A store is the registry as an import knows it.
type store struct {
	db    *db.DB
	table table
}

func (s store) Row(rx *db.Rx, e tree.Entity) (int64, bool, error) { return s.table.row(rx, e.ID) }

func (s store) Prefetch(rx *db.Rx, e tree.Entity, ask func(query string, args ...any)) error {
	return s.table.prefetch(rx, e.ID, ask)
}

func (store) Rows() string { return "agents" }

func (s store) Text(rx *db.Rx, row int64) ([]byte, bool, error) { return s.table.toml(rx, row) }

func (s store) Put(tx *db.Tx, e tree.Entity, value any, _ []byte) (int64, error) {
	record := value.(Entry)
	if record.SessionID != e.ID {
		record = record.under(e.ID)
	}
	return s.table.put(tx, record)
}

func (s store) Remove(tx *db.Tx, row int64) error { return s.table.remove(tx, row) }

func (s store) All(ctx context.Context) iter.Seq2[tree.Entity, error] {
	return func(yield func(tree.Entity, error) bool) {
		for id, err := range s.table.ids(ctx, s.db) {
			if !yield(tree.Entity{ID: id}, err) {
				return
			}
		}
	}
}

func (s store) Untouched(rx *db.Rx, row int64) (bool, error) { return s.table.untouched(rx, row) }
