// Package checkpoints is how folders of the checkpoint store are laid out: RUN.json for a run that
// waits, RUN.inflight for one that was claimed. The name of the file is the run's id, whatever the
// document says.
//
// A document that the original can't read is taken all the same, as the original lists it, and
// stands in quarantine too. A claim that is imported is nobody's: RecoverOrphaned makes it
// claimable again.
package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"unicode/utf8"

	"selvedge/db"
	paused "selvedge/internal/checkpoints"
	"selvedge/internal/tree"
	"selvedge/internal/tree/documents"
)

// Layout is the checkpoint store's.
func Layout() tree.Layout { return documents.Layout{Kind: kind{}} }

type kind struct{}

func (kind) Name() string { return "checkpoints" }

// Recognise takes the folder that holds the documents, or the one that holds workflow-runs/. A
// folder counts when the original can read a document in it.
func (k kind) Recognise(dir tree.Folder) (string, bool, error) {
	root, err := k.Root(dir)
	if errors.Is(err, db.ErrNotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	files, readable := map[string]int{}, false
	err = k.Walk(root, func(path string) error {
		e := checkpointAt(path)
		files[e.Group]++
		if !readable {
			readable = documents.ReadFile(k, root, path).Readable()
		}
		return nil
	}, func(string, string) error { return nil })
	description := fmt.Sprintf("a checkpoint store: %d paused, %d claimed", files[paused.Paused],
		files[paused.Claimed])
	return description, err == nil && readable, err
}

// Root finds the folder of the documents: dir itself, or workflow-runs/ in the home folder of the
// program that kept them there.
func (kind) Root(dir tree.Folder) (tree.Folder, error) {
	root, err := dir.Sub("workflow-runs")
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil
	}
	return root, err
}

// checkpointExtensions says what state a document is in by its file's extension.
var checkpointExtensions = map[string]string{paused.Paused: ".json", paused.Claimed: ".inflight"}

// checkpointAt is what the file of that name holds.
func checkpointAt(name string) tree.Entity {
	for state, extension := range checkpointExtensions {
		if id, ok := strings.CutSuffix(name, extension); ok {
			return tree.Entity{Group: state, ID: id}
		}
	}
	return tree.Entity{}
}

func (kind) Noun() string { return "checkpoint" }

// Walk does as the original: the extension decides, and a name that is only an extension has none.
// The original reads that file all the same for the run "", so it is taken when there is a document
// in it.
func (k kind) Walk(root tree.Folder, file func(path string) error,
	ignored func(path, reason string) error,
) error {
	return root.Names(".", func(name string) error {
		e := checkpointAt(name)
		switch {
		case e.Group == "":
			return ignored(name, "the name ends neither in .json nor in .inflight")
		case !utf8.ValidString(name):
			return ignored(name, "the name is not UTF-8")
		case e.ID == "":
			if !documents.ReadFile(k, root, name).Readable() {
				return ignored(name, "the name is nothing but an extension, and no checkpoint is in it")
			}
		}
		return file(name)
	})
}

func (kind) Decode(text []byte) (value any, reason, flaw string) {
	return nil, "", paused.Problem(text)
}

func (kind) Identities(path string, _ any, _ func(path string) bool) []tree.Entity {
	return []tree.Entity{checkpointAt(path)}
}

func (kind) Own(path string, _ any) tree.Entity { return checkpointAt(path) }

// Forms are the two files of a run. Those of the run "" need not be checkpoints, and each is for itself.
func (kind) Forms(path string) []string {
	run := checkpointAt(path).ID
	if run == "" {
		return []string{path}
	}
	claimed, waiting := run+checkpointExtensions[paused.Claimed], run+checkpointExtensions[paused.Paused]
	if len(claimed) > tree.MaxName {
		return []string{waiting} // which the old program can't claim
	}
	return []string{claimed, waiting}
}

func (kind) Once() bool { return true }

func (kind) Path(e tree.Entity) (path, problem string) {
	path = e.ID + checkpointExtensions[e.Group]
	switch {
	case strings.Contains(e.ID, "/"):
		return path, "its id can't be a file name"
	case len(path) > tree.MaxName:
		return path, "its file name is too long"
	}
	return path, ""
}

func (kind) Title(e tree.Entity) string {
	return fmt.Sprintf("the %s checkpoint of run %q", e.Group, e.ID)
}

func (kind) Unlisted(path string) string {
	if checkpointAt(path).ID == "" {
		return "the name is nothing but an extension, and stands in no list"
	}
	return ""
}

func (kind) Folder() string { return "" }

func (kind) Store(d *db.DB, scope string) documents.Store {
	return store{d, paused.Table{Scope: scope}}
}

// A store is the checkpoint store as an import knows it.
type store struct {
	db    *db.DB
	table paused.Table
}

func (s store) Row(rx *db.Rx, e tree.Entity) (int64, bool, error) {
	n, ok, err := s.table.Row(rx, e.Group, e.ID)
	return int64(n), ok, err
}

func (s store) Foresee(rx *db.Rx, e tree.Entity, ask func(query string, args ...any)) error {
	return s.table.Foresee(rx, e.Group, e.ID, ask)
}

func (store) Rows() string { return "checkpoints" }

func (s store) Text(rx *db.Rx, row int64) ([]byte, bool, error) {
	return s.table.Document(rx, paused.Number(row))
}

func (s store) Put(tx *db.Tx, e tree.Entity, _ any, text []byte) (int64, error) {
	n, err := s.table.Put(tx, e.Group, e.ID, text)
	return int64(n), err
}

func (s store) Remove(tx *db.Tx, row int64) error {
	return s.table.Remove(tx, paused.Number(row))
}

func (s store) All(ctx context.Context) iter.Seq2[tree.Entity, error] {
	return func(yield func(tree.Entity, error) bool) {
		for one, err := range s.table.Runs(ctx, s.db) {
			if !yield(tree.Entity{Group: one.State, ID: one.RunID}, err) {
				return
			}
		}
	}
}

func (s store) Untouched(rx *db.Rx, row int64) (bool, error) {
	return s.table.Untouched(rx, paused.Number(row))
}
