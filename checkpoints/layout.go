// The layout of the old checkpoint store: RUN.json for a run that waits, RUN.inflight for a claimed one.
// The name of the file is the run's id, whatever the document says.
//
// A document that the original can't read is imported all the same, as the original lists it, and is
// also quarantined. An imported claim has no owner: RecoverOrphaned makes it claimable again.

package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"unicode/utf8"

	"selvedge/checkpoints/internal/codec"
	"selvedge/db"
	"selvedge/internal/tree"
	"selvedge/internal/tree/documents"
)

// Layout is that of the old checkpoint store's trees, for package legacy.
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
	description := fmt.Sprintf("a checkpoint store: %d paused, %d claimed", files[string(Paused)],
		files[string(Claimed)])
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
var checkpointExtensions = map[string]string{string(Paused): ".json", string(Claimed): ".inflight"}

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
	return nil, "", codec.Problem(text)
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
	claimed, waiting := run+checkpointExtensions[string(Claimed)], run+checkpointExtensions[string(Paused)]
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

func (kind) Store(d *db.DB, scope string) documents.Store { return table{d, scope} }

// A table is the documents of a scope as an import and an export use them. The number of a document is
// that of its row, shifted left by one, and its lowest bit is set if it is claimed: a claim, or a
// recovery, gives it another number.
type table struct {
	db    *db.DB
	scope string
}

func numberOf(id int64, state State) int64 {
	if state == Claimed {
		return id<<1 | 1
	}
	return id << 1
}

func partsOfNumber(n int64) (id int64, state string) {
	if n&1 == 1 {
		return n >> 1, string(Claimed)
	}
	return n >> 1, string(Paused)
}

const (
	sqlFindRow = `SELECT id FROM checkpoints WHERE scope = ? AND run_id = ? AND state = ?`
	sqlTextOf  = `SELECT d.document FROM checkpoints AS c
		JOIN checkpoint_documents AS d ON d.checkpoint = c.id WHERE c.id = ? AND c.state = ?`
	// epoch: for claims from before changes were counted
	sqlUntouched = `SELECT changes = 1 AND epoch IS NULL FROM checkpoints WHERE id = ? AND state = ?`
	sqlRemoveRow = `DELETE FROM checkpoints WHERE id = ? AND state = ?`
	sqlRunsAfter = `SELECT run_id, state FROM checkpoints WHERE scope = ? AND (run_id, state) > (?, ?)
		ORDER BY run_id, state LIMIT ?`
)

func (t table) Row(rx *db.Rx, e tree.Entity) (n int64, ok bool, err error) {
	scope, there, err := rx.Scope(t.scope)
	if err != nil || !there {
		return 0, false, err
	}
	var id int64
	ok, err = rx.Find(&id, sqlFindRow, scope, e.ID, e.Group)
	return numberOf(id, State(e.Group)), ok, err
}

func (t table) Prefetch(rx *db.Rx, e tree.Entity, ask func(query string, args ...any)) error {
	scope, ok, err := rx.Scope(t.scope)
	if err == nil && ok {
		ask(sqlFindRow, scope, e.ID, e.Group)
	}
	return err
}

func (table) Rows() string { return "checkpoints" }

func (table) Text(rx *db.Rx, n int64) (text []byte, ok bool, err error) {
	id, state := partsOfNumber(n)
	if ok, err = rx.Find(&text, sqlTextOf, id, state); ok {
		text = nonNil(text)
	}
	return text, ok, err
}

// Put adds a document in the state it was found in, even one that can't be read. Row must not have
// found a document in that state.
func (t table) Put(tx *db.Tx, e tree.Entity, _ any, text []byte) (int64, error) {
	if err := checkID(e.ID); err != nil {
		return 0, err
	}
	scope, err := tx.Scope(t.scope)
	if err != nil {
		return 0, err
	}
	r := rowOf(e.ID, text)
	r.State, r.SavedAt = State(e.Group), db.Nanos(tx.Now())
	id, err := tx.Number("checkpoints")
	if err == nil {
		err = r.add(tx, id, scope, text)
	}
	return numberOf(id, r.State), err
}

func (table) Remove(tx *db.Tx, n int64) error {
	id, state := partsOfNumber(n)
	_, err := tx.Exec(sqlRemoveRow, id, state)
	return err
}

const runsAtOnce = 1000

// All returns every document's run and state, by run id in byte order.
func (t table) All(ctx context.Context) iter.Seq2[tree.Entity, error] {
	return func(yield func(tree.Entity, error) bool) {
		for after, more := (Ref{}), true; more; {
			var refs []Ref
			err := t.db.Read(ctx, opList, func(rx *db.Rx) error {
				refs = nil
				scope, ok, err := rx.Scope(t.scope)
				if err != nil || !ok {
					return err
				}
				return rx.Select(&refs, sqlRunsAfter, scope, after.RunID, string(after.State), runsAtOnce)
			})
			if err != nil {
				yield(tree.Entity{}, err)
				return
			}
			for _, after = range refs {
				if !yield(tree.Entity{Group: string(after.State), ID: after.RunID}, nil) {
					return
				}
			}
			more = len(refs) == runsAtOnce
		}
	}
}

// Untouched reports whether a document is still in the state in which it was added, and was never
// saved, claimed or released since.
func (table) Untouched(rx *db.Rx, n int64) (untouched bool, err error) {
	id, state := partsOfNumber(n)
	_, err = rx.Find(&untouched, sqlUntouched, id, state)
	return untouched, err
}
