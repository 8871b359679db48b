package live

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"selvedge/db"
)

// A Table is the live runs of one scope as an import and an export need them: ids, times and
// counters are kept as they are given, and the caller's transaction holds the ledger's row, too.
type table struct{ Scope string }

// An Origin is the place in an old tree that a run came from.
type origin struct {
	Source   int64 // number of the tree; 0: the run came from none
	Path     []byte
	Position int
}

// Imported is how a run that is here stands to its origin.
type imported struct {
	Key       int64
	SessionID string
	origin
	Digest  []byte // SHA-256 of the record's bytes in its file
	Touched bool   // written to since it was imported
}

var (
	sqlAddImport = `INSERT INTO live_imports (run, source, path, position, digest, stamp, text, checksum)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	sqlImport       = `SELECT source, path, position, digest, stamp, text FROM live_imports WHERE run = ?`
	sqlFindImported = `SELECT ` + rowColumns + `, coalesce(t.prompt, '') AS prompt, t.result_text, t.error,
	t.further, t.run IS NOT NULL AS told, i.source, i.path, i.position, i.digest, i.stamp
FROM live_runs AS r LEFT JOIN live_texts AS t ON t.run = r.key LEFT JOIN live_imports AS i ON i.run = r.key
	WHERE r.scope = ? AND r.run_id = ?`
	sqlSetPlace = `UPDATE live_imports SET position = ? WHERE run = ?`
	// What came from a tree of the scope into a scope of its own belongs to the tree.
	sqlInScope = `(r.scope = ?1
	OR r.scope IN (SELECT o.scope FROM import_sources AS s JOIN live_imports AS l ON l.source = s.id
    JOIN live_runs AS o ON o.key = l.run WHERE s.scope = ?1))`
	sqlOrigins = `SELECT r.key, r.session_id, i.source, i.path, i.position FROM live_runs AS r LEFT
	JOIN live_imports AS i ON i.run = r.key
WHERE ` + sqlInScope + ` ORDER BY r.created_at, r.key`
	sqlCopies = `SELECT r.key, r.session_id, c.source, c.path, c.position FROM live_copies AS c
	JOIN live_runs AS r ON r.key = c.run
WHERE ` + sqlInScope + ` ORDER BY r.created_at, r.key, c.source, c.path`
	sqlAddCopy      = `INSERT INTO live_copies (run, source, path, position, checksum) VALUES (?, ?, ?, ?, ?)`
	sqlForgetCopy   = `DELETE FROM live_copies WHERE run = ?1 AND source = ?2 AND ` + db.Same("path", "?3")
	sqlCopiesOf     = `SELECT path FROM live_copies WHERE run = ? ORDER BY source, path`
	sqlForgetCopies = `DELETE FROM live_copies WHERE ` + ofFile
	sqlPositions    = `SELECT position FROM live_imports WHERE ` + ofFile +
		` UNION ALL SELECT position FROM live_copies WHERE ` + ofFile
	sqlScopeOfFile = `SELECT s.name FROM live_imports AS i JOIN live_runs AS r ON r.key = i.run
	JOIN scopes AS s ON s.id = r.scope
WHERE i.source = ?1 AND ` + db.Same("i.path", "?2") + ` LIMIT 1`
	ofFile = `source = ?1 AND ` + db.Same("path", "?2")
)

type importRow struct {
	Source   int64  `db:"source"`
	Path     []byte `db:"path"`
	Position int    `db:"position"`
	Digest   []byte `db:"digest"`
	Stamp    []byte `db:"stamp"`
	Text     []byte `db:"text"`
}

// ImportRun adds a run whose id is not here. No caps hold.
func (t table) importRun(tx *db.Tx, e *fileElement, from origin) error {
	scope, err := tx.Scope(t.Scope)
	if err != nil {
		return err
	}
	row := rowOf(scope, &e.Record)
	if row.Key, err = tx.Number("live_runs"); err == nil {
		err = row.addAs(tx)
	}
	for i := 0; err == nil && i < len(e.Record.Events); i++ {
		err = row.storeEvent(tx, e.Record.Events, i)
	}
	if err == nil {
		err = countIn(tx, scope, 1, row.Key)
	}
	if err != nil {
		return fmt.Errorf("live run %q: %w", e.Record.Snapshot.ID, err)
	}
	var text []byte
	if !e.regular() {
		text = e.Text
	}
	digest, stamp := sumOf(e.Text), row.stamp()
	sum := db.Checksum(from.Path, digest, stamp, bytesOrNull(text))
	return tx.Queue(sqlAddImport, row.Key, from.Source, from.Path, from.Position, digest, stamp, text, sum)
}

// FindImported tells whether a run is here, and where it came from.
func (t table) findImported(rx *db.Rx, runID string) (i imported, found bool, err error) {
	scope, ok, err := rx.Scope(t.Scope)
	if err != nil || !ok {
		return i, false, err
	}
	var row struct {
		wholeRow
		Told     bool   `db:"told"` // there are texts
		Source   *int64 `db:"source"`
		Path     []byte `db:"path"`
		Position *int   `db:"position"`
		Digest   []byte `db:"digest"`
		Stamp    []byte `db:"stamp"`
	}
	if ok, err := rx.Find(&row, sqlFindImported, scope, runID); err != nil || !ok {
		return i, false, err
	}
	i.Key, i.SessionID = row.Key, row.SessionID
	if !row.Told {
		return i, false, fmt.Errorf("%w: live run %q has no texts", db.ErrCorrupt, runID)
	}
	if row.Source != nil {
		i.origin, i.Digest = origin{*row.Source, row.Path, *row.Position}, row.Digest
		i.Touched = !bytes.Equal(row.Stamp, row.stamp())
	}
	return i, true, nil
}

// Foresee names what FindImported is about to ask.
func (t table) foresee(rx *db.Rx, runID string, ask func(query string, args ...any)) error {
	scope, ok, err := rx.Scope(t.Scope)
	if err == nil && ok {
		ask(sqlFindImported, scope, runID)
	}
	return err
}

// ForeseeFile names what ScopeOfFile is about to ask.
func (table) foreseeFile(source int64, path []byte, ask func(query string, args ...any)) {
	ask(sqlScopeOfFile, source, path)
}

// SetPosition notes that a run's record stands elsewhere among those of its file.
func (table) setPosition(tx *db.Tx, key int64, position int) error {
	return tx.Queue(sqlSetPlace, position, key)
}

// CopiesOf gives the paths of the further files that hold a run's record.
func (table) copiesOf(rx *db.Rx, key int64) (paths [][]byte, err error) {
	err = rx.Select(&paths, sqlCopiesOf, key)
	return paths, err
}

// RemoveImported takes a run out, and what AddCopy noted of it.
func (table) removeImported(tx *db.Tx, key int64) error {
	row, found, err := rowByKey(&tx.Rx, key)
	if err != nil || !found {
		return err
	}
	return row.removeAll(tx)
}

// RecordText is a run's record for a file: as it came, where it was not written to since and this
// program would write other bytes (verbatim), else as compact JSON. found is false for a run that
// is gone.
func (table) recordText(rx *db.Rx, key int64) (text []byte, verbatim, found bool, err error) {
	row, found, err := wholeByKey(rx, key)
	if err != nil || !found {
		return nil, false, false, err
	}
	var from importRow
	if ok, err := rx.Find(&from, sqlImport, key); err != nil {
		return nil, false, false, err
	} else if ok && from.Text != nil && bytes.Equal(from.Stamp, row.stamp()) {
		return from.Text, true, true, nil
	}
	record, err := row.record(rx)
	if err != nil {
		return nil, false, false, err
	}
	return record.appendJSON(nil), false, true, nil
}

func wholeByKey(rx *db.Rx, key int64) (*wholeRow, bool, error) {
	row, found, err := rowByKey(rx, key)
	if err != nil || !found {
		return nil, false, err
	}
	whole, err := row.whole(rx)
	return whole, err == nil, err
}

// A Placed is a run and where its record belongs in a tree.
type placed struct {
	Key       int64
	SessionID string
	origin
}

// Placed gives all runs of the scope, and those that came from its trees into scopes of their own,
// oldest first; then, for every further file that holds one of them, the run once more.
func (t table) placed(rx *db.Rx) (list []placed, err error) {
	scope, ok, err := rx.Scope(t.Scope)
	if err != nil || !ok {
		return nil, err
	}
	for _, query := range []string{sqlOrigins, sqlCopies} {
		var rows []struct {
			Key       int64  `db:"key"`
			SessionID string `db:"session_id"`
			Source    *int64 `db:"source"`
			Path      []byte `db:"path"`
			Position  *int   `db:"position"`
		}
		if err := rx.Select(&rows, query, scope); err != nil {
			return nil, err
		}
		for _, row := range rows {
			p := placed{Key: row.Key, SessionID: row.SessionID}
			if row.Source != nil {
				p.origin = origin{*row.Source, row.Path, *row.Position}
			}
			list = append(list, p)
		}
	}
	return list, nil
}

// AddCopy notes a further file that holds a run's record.
func (table) addCopy(tx *db.Tx, key int64, at origin) error {
	if err := tx.Queue(sqlForgetCopy, key, at.Source, at.Path); err != nil {
		return err
	}
	return tx.Queue(sqlAddCopy, key, at.Source, at.Path, at.Position,
		db.Checksum(key, at.Source, at.Path, at.Position))
}

// ForgetCopies takes out what AddCopy noted of a file.
func (table) forgetCopies(tx *db.Tx, source int64, path []byte) error {
	return tx.Queue(sqlForgetCopies, source, path)
}

// PositionsOf are the places, among the records of a file, of those that are here.
func positionsOf(rx *db.Rx, source int64, path []byte) (list []int, err error) {
	err = rx.Select(&list, sqlPositions, source, path)
	return list, err
}

// ScopeOfFile is the scope that the runs of a file are in; ok is false where none is here.
func (table) scopeOfFile(rx *db.Rx, source int64, path []byte) (scope string, ok bool, err error) {
	ok, err = rx.Find(&scope, sqlScopeOfFile, source, path)
	return scope, ok, err
}

// An ImportedRun is one that a file of a tree holds.
type importedRun struct {
	Key   int64  `db:"key"`
	Scope string `db:"scope"`
	RunID string `db:"run_id"`
}

var sqlRunsOfFile = `
SELECT r.key, s.name AS scope, r.run_id FROM live_runs AS r JOIN scopes AS s ON s.id = r.scope
WHERE r.key IN (SELECT run FROM live_imports WHERE ` + ofFile + ` UNION ALL SELECT run FROM live_copies WHERE ` + ofFile + `)
ORDER BY r.key`

// RunsOfFile gives the runs that came from a file, and those that it holds a copy of.
func runsOfFile(rx *db.Rx, source int64, path []byte) (list []importedRun, err error) {
	err = rx.Select(&list, sqlRunsOfFile, source, path)
	return list, err
}

// stamp stands for everything that a call on the run can change.
func (w *wholeRow) stamp() []byte {
	text := w.snapshot().appendJSON(nil)
	return sumOf(fmt.Appendf(text, " %d %d", w.KeptEvents, w.KeptBytes))
}

func sumOf(text []byte) []byte {
	sum := sha256.Sum256(text)
	return sum[:]
}

// Holds reports whether a run is what an element of a file says, whatever their bytes.
func (table) holds(rx *db.Rx, key int64, e *fileElement) (bool, error) {
	row, found, err := wholeByKey(rx, key)
	if err != nil || !found {
		return false, err
	}
	ours, err := row.record(rx)
	if err != nil {
		return false, err
	}
	theirs := e.Record
	theirs.Snapshot.EventCount = theirs.nextSequence()
	return bytes.Equal(ours.appendJSON(nil), theirs.appendJSON(nil)), nil
}
