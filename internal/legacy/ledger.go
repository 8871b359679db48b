package legacy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"selvedge/db"
)

// An entity is what the records of a file are in the store: for a run, the agent's id and the run's.
type entity struct{ group, id string }

// What became of a file; see the column import_files.state.
const (
	stateTaken   = "taken"
	stateShared  = "shared"
	stateRefused = "refused"
)

// ledgerRow is what the ledger knows about a file.
type ledgerRow struct {
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

func (r *ledgerRow) entity() entity { return entity{r.EntityGroup, r.EntityID} }

// holds reports whether what the row's file became is what the store has under that number.
func (r *ledgerRow) holds(s stored) bool { return r.EntityRow != nil && *r.EntityRow == s.row }

// complete reports whether the file was read to its end.
func (r *ledgerRow) complete() bool { return r.Size == r.Consumed+int64(len(r.Tail)) }

const (
	sqlFindSource = `SELECT id FROM import_sources WHERE scope = ? AND kind = ? AND root = ?`
	sqlAddSource  = `INSERT INTO import_sources (scope, kind, root, first_at, checksum) VALUES (?, ?, ?, ?, ?) RETURNING id`
	sqlSource     = `SELECT root, first_at FROM import_sources WHERE id = ?`
	sqlEndSource  = `UPDATE import_sources SET last_at = ?, checksum = ? WHERE id = ?`

	ledgerColumns = `path, state, entity_group, entity_id, entity_row, last_sequence, size, consumed, prefix_sha256, open_line, records, tail`
	sqlFindFile   = `SELECT ` + ledgerColumns + ` FROM import_files WHERE source = ? AND path = ?`
	sqlPathsAfter = `SELECT path FROM import_files WHERE source = ? AND path > ? ORDER BY path LIMIT ?`
	sqlPutFile    = `
INSERT INTO import_files (source, ` + ledgerColumns + `, imported_at, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (source, path) DO UPDATE SET
    state = excluded.state, entity_group = excluded.entity_group, entity_id = excluded.entity_id, entity_row = excluded.entity_row,
    last_sequence = excluded.last_sequence, size = excluded.size, consumed = excluded.consumed, prefix_sha256 = excluded.prefix_sha256,
    open_line = excluded.open_line, records = excluded.records, tail = excluded.tail, imported_at = excluded.imported_at,
    checksum = excluded.checksum`
	sqlForgetFile = `DELETE FROM import_files WHERE source = ? AND path = ?`

	sqlHolder = `
SELECT f.source AS source, ` + ledgerColumns + ` FROM import_files AS f JOIN import_sources AS s ON s.id = f.source
WHERE f.entity_id = ? AND f.entity_group = ? AND s.scope = ? AND s.kind = ? AND f.state = 'taken' AND f.entity_row = ?`
)

// source is a tree that is, or was, imported.
type source struct {
	id    int64
	scope int64
	kind  string
}

// findSource looks the tree up; ok is false when it was never imported into the scope.
func findSource(rx *db.Rx, scope, kind, root string) (s source, ok bool, err error) {
	s.kind = kind
	if s.scope, ok, err = rx.Scope(scope); err != nil || !ok {
		return s, false, err
	}
	ok, err = rx.Find(&s.id, sqlFindSource, s.scope, kind, []byte(root))
	return s, ok, err
}

// addSource gives the tree's row, and makes it, and the scope, where they are missing.
func addSource(tx *db.Tx, scope, kind, root string) (source, error) {
	s, ok, err := findSource(&tx.Rx, scope, kind, root)
	if err != nil || ok {
		return s, err
	}
	if s.scope, err = tx.Scope(scope); err != nil {
		return s, err
	}
	at := db.Nanos(tx.Now())
	return s, tx.Get(&s.id, sqlAddSource, s.scope, kind, []byte(root), at, db.Checksum(s.scope, kind, []byte(root), at, nil))
}

func (s source) end(tx *db.Tx) error {
	var row struct {
		Root    []byte `db:"root"`
		FirstAt int64  `db:"first_at"`
	}
	if err := tx.Get(&row, sqlSource, s.id); err != nil {
		return err
	}
	at := db.Nanos(tx.Now())
	_, err := tx.Exec(sqlEndSource, at, db.Checksum(s.scope, s.kind, row.Root, row.FirstAt, at), s.id)
	return err
}

// file is the ledger's row for path, or nil.
func (s source) file(rx *db.Rx, path string) (*ledgerRow, error) {
	var row ledgerRow
	if ok, err := rx.Find(&row, sqlFindFile, s.id, []byte(path)); err != nil || !ok {
		return nil, err
	}
	return &row, nil
}

func (s source) put(tx *db.Tx, r *ledgerRow) error {
	var tail any
	if len(r.Tail) > 0 {
		tail = r.Tail
	}
	at := db.Nanos(tx.Now())
	columns := []any{
		s.id, r.Path, r.State, r.EntityGroup, r.EntityID, r.EntityRow, r.LastSequence, r.Size, r.Consumed, r.PrefixSHA256, r.OpenLine, r.Records,
	}
	sum := db.Checksum(append(slices.Clone(columns), at, tail)...) // as they stand in the table
	_, err := tx.Exec(sqlPutFile, append(columns, tail, at, sum)...)
	return err
}

func (s source) forget(tx *db.Tx, path string) error {
	_, err := tx.Exec(sqlForgetFile, s.id, []byte(path))
	return err
}

// move notes that a file, with what is in quarantine of it, has another path now.
func (s source) move(tx *db.Tx, from, to string) error {
	if err := s.releaseFile(tx, to); err != nil {
		return err
	}
	row, err := s.file(&tx.Rx, from)
	if err == nil && row != nil {
		row.Path = []byte(to)
		err = errors.Join(s.put(tx, row), s.forget(tx, from))
	}
	if err != nil {
		return err
	}
	return s.moveQuarantine(tx, from, to)
}

// importing has body run between the beginning and the end of an import, and counts what is gone.
func (s *source) importing(ctx context.Context, d *db.DB, report *Report, root string, body func() error) error {
	err := d.Write(ctx, "begin import", func(tx *db.Tx) (err error) {
		*s, err = addSource(tx, report.Scope, report.Kind, root)
		return err
	})
	if err == nil {
		err = body()
	}
	if err == nil {
		report.Files.Gone, err = s.gone(ctx, d, root)
	}
	if err == nil {
		err = d.Write(ctx, "end import", func(tx *db.Tx) error { return s.end(tx) })
	}
	return err
}

// verifying has body run with what is known of the source, and counts what is gone. A tree that was never imported may be
// here from elsewhere.
func (s *source) verifying(ctx context.Context, d *db.DB, report *Report, root string, body func() error) error {
	err := d.Read(ctx, "begin verification", func(rx *db.Rx) (err error) {
		*s, _, err = findSource(rx, report.Scope, report.Kind, root)
		return err
	})
	if err == nil {
		err = body()
	}
	if err == nil && s.id != 0 {
		report.Files.Gone, err = s.gone(ctx, d, root)
	}
	return err
}

// gone counts the files that were imported once and are not in the tree any more.
func (s source) gone(ctx context.Context, d *db.DB, root string) (n int64, err error) {
	for after := []byte{}; ; {
		var paths [][]byte
		err := d.Read(ctx, "look for files that are gone", func(rx *db.Rx) error {
			paths = nil
			return rx.Select(&paths, sqlPathsAfter, s.id, after, 1000)
		})
		if err != nil || len(paths) == 0 {
			return n, err
		}
		n += int64(len(goneFrom(root, paths)))
		after = paths[len(paths)-1]
	}
}

// goneFrom gives those of the paths that are not in the tree any more.
func goneFrom(root string, paths [][]byte) (gone [][]byte) {
	for _, path := range paths {
		if _, err := os.Lstat(below(root, string(path))); errors.Is(err, fs.ErrNotExist) {
			gone = append(gone, path)
		}
	}
	return gone
}

// holderRow is a ledger row of any source.
type holderRow struct {
	Source int64 `db:"source"`
	ledgerRow
}

// holder is the row of the file that e's row in the store was made from; ok is false when it came from no file.
func (s source) holder(rx *db.Rx, e entity, row int64) (h holderRow, ok bool, err error) {
	ok, err = rx.Find(&h, sqlHolder, e.id, e.group, s.scope, s.kind, row)
	return h, ok, err
}

// tally counts records by kind, and is written as "started 1, turn 22".
type tally map[string]int64

func (t tally) String() string {
	kinds := make([]string, 0, len(t))
	for k := range t {
		kinds = append(kinds, k)
	}
	sort.Strings(kinds)
	var b strings.Builder
	for i, k := range kinds {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %d", k, t[k])
	}
	return b.String()
}

func parseTally(text string) (tally, error) {
	t := tally{}
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

// with adds the records of a piece.
func (t tally) with(records []record) tally {
	for i := range records {
		t[records[i].kind]++
	}
	return t
}
