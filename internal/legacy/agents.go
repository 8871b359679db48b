package legacy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"selvedge/db"
	"selvedge/internal/agents"
)

// Agents are the trees of the agent registry: agents/SESSION.toml, one entry a file.
//
// A file becomes the entry that it says it is, where that one's file is this; else the entry that its name says; else,
// where the name can't be an id, the entry that it says it is, if the tree has no other file for that. Such files leave,
// in an export, under the names and with the bytes that they came with. What the original can't read goes into quarantine
// and stands in nobody's way.
type Agents struct{}

// Name is "agents".
func (Agents) Name() string { return "agents" }

// Recognise takes the folder that holds agents/, or agents/ itself.
func (Agents) Recognise(dir string) (string, bool, error) {
	root, err := agentsLayout{}.root(dir)
	if errors.Is(err, db.ErrNotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	files := 0
	err = agentsLayout{}.walk(root, func(string) error {
		files++
		return nil
	}, func(string, string) error { return nil })
	return fmt.Sprintf("an agent registry: %d entries", files), err == nil && files > 0, err
}

// Import brings a registry in.
func (Agents) Import(ctx context.Context, d *db.DB, scope, dir string, o Options) (Report, error) {
	return runDocumentImport(ctx, d, agentsLayout{}, scope, dir, o)
}

// Verify compares a registry with what was imported.
func (Agents) Verify(ctx context.Context, d *db.DB, scope, dir string, o Options) (Report, error) {
	return runDocumentVerify(ctx, d, agentsLayout{}, scope, dir, o)
}

// Export writes dir/agents/SESSION.toml. Entries that were put aside are not written: the original had deleted them.
func (Agents) Export(ctx context.Context, d *db.DB, scope, dir string, o Options) (Report, error) {
	return runDocumentExport(ctx, d, agentsLayout{}, scope, dir, o)
}

// root finds the folder agents/ from itself or from the folder that holds it.
func (agentsLayout) root(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for _, root := range []string{filepath.Join(abs, "agents"), abs} {
		info, err := os.Stat(root)
		if err == nil && info.IsDir() && filepath.Base(root) == "agents" {
			return filepath.EvalSymlinks(root)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", &db.Error{Op: "open tree", Entity: "agent registry", ID: dir, Err: db.ErrNotFound, Hint: "name the folder that holds agents/, or its agents/"}
}

const entryExtension = ".toml"

// agentsLayout is what the core has to know of an agent registry.
type agentsLayout struct{}

func (agentsLayout) name() string { return "agents" }

func (agentsLayout) noun() string { return "agent" }

// walk does as the original: every name with the extension toml is an entry's.
func (agentsLayout) walk(root string, file func(path string) error, ignored func(path, reason string) error) error {
	return eachName(root, func(name string) error {
		if strings.HasSuffix(name, entryExtension) && len(name) > len(entryExtension) {
			return file(name)
		}
		if name == ".lock" {
			return nil
		}
		return ignored(name, "the name has no .toml extension")
	})
}

func (agentsLayout) read(text []byte) (any, string) {
	e, err := agents.DecodeTOML(text)
	if err != nil {
		return nil, err.Error()
	}
	return e, ""
}

func (agentsLayout) own(value any) entity { return entity{id: shown(value.(agents.Record).SessionID)} }

func (l agentsLayout) identities(path string, value any, claimed func(path string) bool) []entity {
	own := l.own(value)
	byPath := entity{id: strings.TrimSuffix(path, entryExtension)}
	if own == byPath {
		return []entity{own}
	}
	if isAgentID(byPath.id) {
		return []entity{byPath}
	}
	if isAgentID(own.id) && !claimed(own.id+entryExtension) {
		return []entity{own}
	}
	return nil
}

func isAgentID(id string) bool {
	return id != "" && len(id) <= db.MaxID && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func (agentsLayout) path(e entity) (path, problem string) {
	path = e.id + entryExtension
	if len(path) > maxName {
		return path, "its file name is too long"
	}
	return path, ""
}

func (agentsLayout) title(e entity) string { return fmt.Sprintf("agent %q", e.id) }

func (agentsLayout) prepare(dir string) (string, error) {
	root := filepath.Join(dir, "agents")
	return root, os.MkdirAll(root, 0o700)
}

func (agentsLayout) documents(d *db.DB, scope string) documentStore {
	return agentsTable{d, agents.Table{Scope: scope}}
}

// agentsTable is the registry as the core has to know it.
type agentsTable struct {
	db    *db.DB
	table agents.Table
}

func (s agentsTable) row(rx *db.Rx, e entity) (int64, bool, error) { return s.table.Row(rx, e.id) }

func (s agentsTable) text(rx *db.Rx, row int64) ([]byte, bool, error) { return s.table.TOML(rx, row) }

func (s agentsTable) put(tx *db.Tx, e entity, value any, _ []byte) (int64, error) {
	record := value.(agents.Record)
	if record.SessionID != e.id {
		record = record.Under(e.id)
	}
	return s.table.Put(tx, record)
}

func (s agentsTable) remove(tx *db.Tx, row int64) error { return s.table.Remove(tx, row) }

func (s agentsTable) entities(ctx context.Context) iter.Seq2[entity, error] {
	return func(yield func(entity, error) bool) {
		for id, err := range s.table.IDs(ctx, s.db) {
			if !yield(entity{id: id}, err) {
				return
			}
		}
	}
}
