package tree

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/txn"
)

// An Entity identifies a file's records in the store: for a run, by the ids of the agent and the
// run.
type Entity struct {
	Group string `db:"entity_group"`
	ID    string `db:"entity_id"`
}

// What became of a file; see the column import_files.state.
const (
	StateTaken   = "taken"
	StateShared  = "shared"
	StateRefused = "refused"
)

// Row is the ledger's row of a file.
type Row struct {
	Path         []byte `db:"path"`
	State        string `db:"state"`
	EntityGroup  string `db:"entity_group"`
	EntityID     string `db:"entity_id"`
	EntityRow    *int64 `db:"entity_row"`
	LastSequence int64  `db:"last_sequence"`
	Size         int64  `db:"size"`
	Consumed     int64  `db:"consumed"`
	PrefixSHA256 []byte `db:"prefix_sha256"`
	OpenLine     bool   `db:"open_line"`
	Records      string `db:"records"`
	Tail         []byte `db:"tail"`
}

// Entity is what the file became, or would have become if it was refused.
func (r *Row) Entity() Entity { return Entity{r.EntityGroup, r.EntityID} }

// Complete reports whether the file was read to its end.
func (r *Row) Complete() bool { return r.Size == r.Consumed+int64(len(r.Tail)) }

var (
	sqlFindSource = `SELECT id FROM import_sources WHERE scope = ?1 AND kind = ?2 AND ` +
		paging.Same("root", "?3")
	sqlAddSource = `INSERT INTO import_sources (scope, kind, root, first_at, checksum) VALUES (?, ?, ?, ?, ?)
		RETURNING id`
	sqlSource    = `SELECT root, first_at FROM import_sources WHERE id = ?`
	sqlEndSource = `UPDATE import_sources SET last_at = ?, checksum = ? WHERE id = ?`

	ledgerColumns = `path, state, entity_group, entity_id, entity_row, last_sequence, size, consumed,
	prefix_sha256, open_line, records, tail`
	sqlFindFile = `SELECT ` + ledgerColumns + ` FROM import_files WHERE source = ?1 AND ` +
		paging.Same("path", "?2")
	sqlPaths   = `SELECT path FROM import_files WHERE source = ?1`
	sqlFiles   = `SELECT ` + ledgerColumns + ` FROM import_files WHERE source = ?1`
	sqlPutFile = `INSERT INTO import_files (source, ` + ledgerColumns + `, imported_at, checksum)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlForgetFile = `DELETE FROM import_files WHERE source = ?1 AND ` + paging.Same("path", "?2")

	sqlHolder = `SELECT f.source AS source, ` + ledgerColumns + `
FROM import_files AS f JOIN import_sources AS s ON s.id = f.source
WHERE f.entity_id = ? AND f.entity_group = ? AND s.scope = ? AND s.kind = ? AND f.state = 'taken'
	AND f.entity_row = ?`
)

// Source is a tree that is or was imported. Its ID is 0 if it never was; its Scope is 0 if the scope
// does not exist.
type Source struct {
	ID    int64
	Scope int64
	kind  string
	scope string // its name
	root  string
	aside *aside // of an import; nil: the source's quarantine must be queried
}

// findSource looks the tree up. ok is false if it was never imported into the scope.
func findSource(rx *db.Rx, scope, kind, root string) (s Source, ok bool, err error) {
	s.kind, s.scope, s.root = kind, scope, root
	if s.Scope, ok, err = rx.Store().Scope(scope); err != nil || !ok {
		return s, false, err
	}
	ok, err = rx.Find(&s.ID, sqlFindSource, s.Scope, kind, []byte(root))
	return s, ok, err
}

// addSource finds the tree's row, or adds it, and the scope if that is missing.
func addSource(tx *db.Tx, scope, kind, root string) (Source, error) {
	s, ok, err := findSource(&tx.Rx, scope, kind, root)
	if err != nil || ok {
		return s, err
	}
	if s.Scope, err = tx.Store().Scope(scope); err != nil {
		return s, err
	}
	at := db.Nanos(tx.Now())
	return s, tx.Get(&s.ID, sqlAddSource, s.Scope, kind, []byte(root), at,
		txn.Checksum(s.Scope, kind, []byte(root), at, nil))
}

func (s Source) end(tx *db.Tx) error {
	var row struct {
		Root    []byte `db:"root"`
		FirstAt int64  `db:"first_at"`
	}
	if err := tx.Get(&row, sqlSource, s.ID); err != nil {
		return err
	}
	at := db.Nanos(tx.Now())
	_, err := tx.Exec(sqlEndSource, at, txn.Checksum(s.Scope, s.kind, row.Root, row.FirstAt, at), s.ID)
	return err
}

// File is the ledger's row for path, or nil.
func (s Source) File(rx *db.Rx, path string) (*Row, error) {
	var row Row
	if ok, err := rx.Find(&row, sqlFindFile, s.ID, []byte(path)); err != nil || !ok {
		return nil, err
	}
	return &row, nil
}

// PrefetchFile prefetches the query of File.
func (s Source) PrefetchFile(rx *db.Rx, path string) error {
	return rx.Store().Prefetch(sqlFindFile, s.ID, []byte(path))
}

// Put writes the file's row.
func (s Source) Put(tx *db.Tx, r *Row) error {
	var tail any
	if len(r.Tail) > 0 {
		tail = r.Tail
	}
	at := db.Nanos(tx.Now())
	columns := []any{
		s.ID, r.Path, r.State, r.EntityGroup, r.EntityID, r.EntityRow, r.LastSequence, r.Size, r.Consumed,
		r.PrefixSHA256, r.OpenLine, r.Records,
	}
	sum := txn.Checksum(append(slices.Clone(columns), at, tail)...) // as the table has them
	if err := tx.Store().Queue(sqlForgetFile, s.ID, r.Path); err != nil {
		return err
	}
	return tx.Store().Queue(sqlPutFile, append(columns, tail, at, sum)...)
}

// Forget removes the file's row.
func (s Source) Forget(tx *db.Tx, path string) error {
	_, err := tx.Exec(sqlForgetFile, s.ID, []byte(path))
	return err
}

// Move changes the path of a file and of its rows in quarantine.
func (s Source) Move(tx *db.Tx, from, to string) error {
	if err := s.ReleaseFile(tx, to); err != nil {
		return err
	}
	row, err := s.File(&tx.Rx, from)
	if err == nil && row != nil {
		row.Path = []byte(to)
		err = errors.Join(s.Put(tx, row), s.Forget(tx, from))
	}
	if err != nil {
		return err
	}
	return s.moveQuarantine(tx, from, to)
}

// pathsAfter ends a query of a source's rows: it then returns at most ?3 rows, after the path ?2.
func pathsAfter(rx *db.Rx) string {
	return ` AND path > ?2 AND ` + paging.Start("path") + ` >= ` + paging.Start("?2") + ` ORDER BY ` +
		rx.Store().InOrder("path") + ` LIMIT ?3`
}

// files yields the ledger's rows of the source, by path. query is sqlFiles, or sqlPaths for rows with
// nothing but the path.
func (s Source) files(ctx context.Context, d *db.DB, query string) iter.Seq2[*Row, error] {
	return Each(ctx, d, "read the ledger", func(rx *db.Rx, last *Row, rows *[]Row) error {
		return rx.Select(rows, query+pathsAfter(rx), s.ID, append([]byte{}, last.Path...), PageRows)
	})
}

func isGone(root string, path []byte) bool { return Folder{path: root}.Lacks(string(path)) }

// GoneFrom returns the paths at which the tree has nothing any more.
func GoneFrom(root string, paths [][]byte) [][]byte {
	return slices.DeleteFunc(slices.Clone(paths), func(path []byte) bool { return !isGone(root, path) })
}

// Holder is a ledger row of any source.
type Holder struct {
	Source int64 `db:"source"`
	Row
}

// Holder is the row of the file that e's row in the store came from. ok is false if it came from no
// file.
func (s Source) Holder(rx *db.Rx, e Entity, row int64) (h Holder, ok bool, err error) {
	ok, err = rx.Find(&h, sqlHolder, e.ID, e.Group, s.Scope, s.kind, row)
	return h, ok, err
}

// Tally counts records by kind, and is written as "started 1, turn 22".
type Tally map[string]int64

func (t Tally) String() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(t)) {
		parts = append(parts, fmt.Sprintf("%s %d", kind, t[kind]))
	}
	return strings.Join(parts, ", ")
}

// ParseTally reads what String wrote.
func ParseTally(text string) (Tally, error) {
	t := Tally{}
	if text == "" {
		return t, nil
	}
	for part := range strings.SplitSeq(text, ", ") {
		kind, count, _ := strings.Cut(part, " ")
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: the ledger counts records as %q", db.ErrCorrupt, text)
		}
		t[kind] += n
	}
	return t, nil
}

// Kinds of record that any tree can have.
const (
	Blank       = "blank"
	Undecodable = "undecodable"
)
