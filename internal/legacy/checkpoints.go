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
	"unicode/utf8"

	"selvedge/db"
	"selvedge/internal/checkpoints"
)

// Checkpoints are the folders of the checkpoint store: RUN.json for a run that waits, RUN.inflight for one that was
// claimed. The name of the file is the run's id, whatever the document says.
//
// A document that the original can't read is taken all the same, as the original lists it, and stands in quarantine too.
// A claim that is imported is nobody's: RecoverOrphaned makes it claimable again.
type Checkpoints struct{}

// Name is "checkpoints".
func (Checkpoints) Name() string { return "checkpoints" }

// Recognise takes the folder that holds the documents, or the one that holds workflow-runs/. A folder counts when the
// original can read a document in it.
func (Checkpoints) Recognise(dir string) (string, bool, error) {
	root, err := checkpointsLayout{}.root(dir)
	if errors.Is(err, db.ErrNotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	files, readable := map[string]int{}, false
	err = checkpointsLayout{}.walk(root, func(path string) error {
		e := checkpointAt(path)
		files[e.group]++
		if !readable {
			f := readDocument(checkpointsLayout{}, root, path)
			readable = !f.unread && f.flaw == ""
		}
		return nil
	}, func(string, string) error { return nil })
	description := fmt.Sprintf("a checkpoint store: %d paused, %d claimed", files[checkpoints.Paused], files[checkpoints.Claimed])
	return description, err == nil && readable, err
}

// Import brings a folder in.
func (Checkpoints) Import(ctx context.Context, d *db.DB, scope, dir string, o Options) (Report, error) {
	return runDocumentImport(ctx, d, checkpointsLayout{}, scope, dir, o)
}

// Verify compares a folder with what was imported.
func (Checkpoints) Verify(ctx context.Context, d *db.DB, scope, dir string, o Options) (Report, error) {
	return runDocumentVerify(ctx, d, checkpointsLayout{}, scope, dir, o)
}

// Export writes dir/RUN.json and dir/RUN.inflight.
func (Checkpoints) Export(ctx context.Context, d *db.DB, scope, dir string, o Options) (Report, error) {
	return runDocumentExport(ctx, d, checkpointsLayout{}, scope, dir, o)
}

// root finds the folder of the documents: dir itself, or workflow-runs/ in the home folder of the program that
// kept them there.
func (checkpointsLayout) root(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for _, root := range []string{filepath.Join(abs, "workflow-runs"), abs} {
		info, err := os.Stat(root)
		if err == nil && info.IsDir() {
			return filepath.EvalSymlinks(root)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", &db.Error{Op: "open tree", Entity: "checkpoint store", ID: dir, Err: db.ErrNotFound, Hint: "name the folder that holds the .json and .inflight files"}
}

// checkpointExtensions says what state a document is in by its file's extension.
var checkpointExtensions = map[string]string{checkpoints.Paused: ".json", checkpoints.Claimed: ".inflight"}

// checkpointAt is what the file of that name holds.
func checkpointAt(name string) entity {
	for state, extension := range checkpointExtensions {
		if id, ok := strings.CutSuffix(name, extension); ok {
			return entity{group: state, id: id}
		}
	}
	return entity{}
}

// checkpointsLayout is what the core has to know of a checkpoint folder.
type checkpointsLayout struct{}

func (checkpointsLayout) name() string { return "checkpoints" }

func (checkpointsLayout) noun() string { return "checkpoint" }

// walk does as the original: the extension decides, and a name that is only an extension has none. The original reads
// that file all the same for the run "", so it is taken when there is a document in it.
func (l checkpointsLayout) walk(root string, file func(path string) error, ignored func(path, reason string) error) error {
	return eachName(root, func(name string) error {
		e := checkpointAt(name)
		switch {
		case e.group == "":
			return ignored(name, "the name ends neither in .json nor in .inflight")
		case !utf8.ValidString(name):
			return ignored(name, "the name is not UTF-8")
		case e.id == "":
			if f := readDocument(l, root, name); f.unread || f.flaw != "" {
				return ignored(name, "the name is nothing but an extension, and no checkpoint is in it")
			}
		}
		return file(name)
	})
}

// A checkpointFile is a document on its way in.
type checkpointFile struct {
	entity
	problem string
}

func (checkpointsLayout) read(text []byte) (any, string) {
	return &checkpointFile{problem: checkpoints.Problem(text)}, ""
}

// flaw is why the original can't read the document.
func (checkpointsLayout) flaw(value any) string { return value.(*checkpointFile).problem }

func (checkpointsLayout) identities(path string, value any, _ func(path string) bool) []entity {
	f := value.(*checkpointFile)
	f.entity = checkpointAt(path)
	return []entity{f.entity}
}

func (checkpointsLayout) own(value any) entity { return value.(*checkpointFile).entity }

func (checkpointsLayout) path(e entity) (path, problem string) {
	path = e.id + checkpointExtensions[e.group]
	switch {
	case strings.Contains(e.id, "/"):
		return path, "its id can't be a file name"
	case len(path) > maxName:
		return path, "its file name is too long"
	}
	return path, ""
}

func (checkpointsLayout) title(e entity) string {
	return fmt.Sprintf("the %s checkpoint of run %q", e.group, e.id)
}

func (checkpointsLayout) prepare(dir string) (string, error) { return dir, nil }

func (checkpointsLayout) documents(d *db.DB, scope string) documentStore {
	return checkpointsTable{d, checkpoints.Table{Scope: scope}}
}

// checkpointsTable is the checkpoint store as the core has to know it.
type checkpointsTable struct {
	db    *db.DB
	table checkpoints.Table
}

func (s checkpointsTable) row(rx *db.Rx, e entity) (int64, bool, error) {
	n, ok, err := s.table.Row(rx, e.group, e.id)
	return int64(n), ok, err
}

func (s checkpointsTable) text(rx *db.Rx, row int64) ([]byte, bool, error) {
	return s.table.Document(rx, checkpoints.Number(row))
}

func (s checkpointsTable) put(tx *db.Tx, e entity, _ any, text []byte) (int64, error) {
	n, err := s.table.Put(tx, e.group, e.id, text)
	return int64(n), err
}

func (s checkpointsTable) remove(tx *db.Tx, row int64) error {
	return s.table.Remove(tx, checkpoints.Number(row))
}

func (s checkpointsTable) entities(ctx context.Context) iter.Seq2[entity, error] {
	return func(yield func(entity, error) bool) {
		for one, err := range s.table.Runs(ctx, s.db) {
			if !yield(entity{group: one.State, id: one.RunID}, err) {
				return
			}
		}
	}
}
