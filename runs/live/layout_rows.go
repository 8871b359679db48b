package live

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// An origin is the place in an old tree that a run came from.
type origin struct {
	Source   int64  `db:"source"` // number of the tree; 0: none
	Path     []byte `db:"path"`
	Position int    `db:"position"`
}

// An imported run is a run of the store, and where it came from.
type imported struct {
	wholeRow
	HasTexts bool `db:"told"`
	origin
	Digest []byte `db:"digest"` // SHA-256 of the record's bytes in its file
	Stamp  []byte `db:"stamp"`  // as it was imported
}

// A placed run is a run whose record belongs to that place of a tree.
type placed struct {
	Key       int64  `db:"key"`
	SessionID string `db:"session_id"`
	origin
}

var (
	sqlAddImport = `INSERT INTO live_imports (run, source, path, position, digest, stamp, text, checksum)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	sqlImport       = `SELECT stamp, text FROM live_imports WHERE run = ?`
	sqlFindImported = `SELECT ` + rowColumns + `, coalesce(t.prompt, '') AS prompt, t.result_text, t.error,
	t.further, t.run IS NOT NULL AS told, coalesce(i.source, 0) AS source, i.path,
	coalesce(i.position, 0) AS position, i.digest, i.stamp
FROM live_runs AS r LEFT JOIN live_texts AS t ON t.run = r.key LEFT JOIN live_imports AS i ON i.run = r.key
	WHERE r.scope = ? AND r.run_id = ?`
	sqlSetPlace = `UPDATE live_imports SET position = ? WHERE run = ?`
	// A scope includes the runs that came from its trees into scopes of their own.
	sqlInScope = `(r.scope = ?1
	OR r.scope IN (SELECT o.scope FROM import_sources AS s JOIN live_imports AS l ON l.source = s.id
    JOIN live_runs AS o ON o.key = l.run WHERE s.scope = ?1))`
	sqlOrigins = `SELECT r.key, r.session_id, coalesce(i.source, 0) AS source, i.path,
	coalesce(i.position, 0) AS position FROM live_runs AS r LEFT JOIN live_imports AS i ON i.run = r.key
WHERE ` + sqlInScope + ` ORDER BY r.created_at, r.key`
	sqlCopies = `SELECT r.key, r.session_id, c.source, c.path, c.position FROM live_copies AS c
	JOIN live_runs AS r ON r.key = c.run
WHERE ` + sqlInScope + ` ORDER BY r.created_at, r.key, c.source, c.path`
	sqlAddCopy      = `INSERT INTO live_copies (run, source, path, position, checksum) VALUES (?, ?, ?, ?, ?)`
	sqlForgetCopy   = `DELETE FROM live_copies WHERE run = ?1 AND source = ?2 AND ` + paging.Same("path", "?3")
	sqlCopiesOf     = `SELECT path FROM live_copies WHERE run = ? ORDER BY source, path`
	sqlForgetCopies = `DELETE FROM live_copies WHERE ` + ofFile
	sqlPositions    = `SELECT position FROM live_imports WHERE ` + ofFile +
		` UNION ALL SELECT position FROM live_copies WHERE ` + ofFile
	sqlScopeOfFile = `SELECT s.name FROM live_imports AS i JOIN live_runs AS r ON r.key = i.run
	JOIN scopes AS s ON s.id = r.scope
WHERE i.source = ?1 AND ` + paging.Same("i.path", "?2") + ` LIMIT 1`
	sqlRunsOfFile = `SELECT r.key, s.name AS scope, r.run_id
	FROM live_runs AS r JOIN scopes AS s ON s.id = r.scope
WHERE r.key IN (SELECT run FROM live_imports WHERE ` + ofFile + `
	UNION ALL SELECT run FROM live_copies WHERE ` + ofFile + `)
ORDER BY r.key`
	ofFile = `source = ?1 AND ` + paging.Same("path", "?2")
)

// importRun adds a new run. Caps do not apply.
func importRun(tx *db.Tx, scopeName string, e *fileElement, from origin) error {
	scope, err := tx.Store().Scope(scopeName)
	if err != nil {
		return err
	}
	row := rowOf(scope, &e.Record)
	if row.Key, err = tx.Store().Number("live_runs"); err == nil {
		err = row.addAs(tx)
	}
	if err == nil {
		err = row.storeEvents(tx, e.Record.Events, 0)
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
	sum := txn.Checksum(from.Path, digest, stamp, txn.Blob(text))
	return tx.Store().Queue(sqlAddImport,
		row.Key, from.Source, from.Path, from.Position, digest, stamp, text, sum)
}

// findImported finds a run, whether it was imported or not.
func findImported(rx *db.Rx, scopeName, runID string) (i imported, found bool, err error) {
	scope, ok, err := rx.Store().Scope(scopeName)
	if err != nil || !ok {
		return i, false, err
	}
	found, err = rx.Find(&i, sqlFindImported, scope, runID)
	if err == nil && found && !i.HasTexts {
		err = i.noTexts()
	}
	return i, found && err == nil, err
}

// recordText returns a run's record for a file: its bytes as they were imported, if it has not
// changed since and this program would write others (verbatim), else compact JSON. found is false
// for a run that was removed.
func recordText(rx *db.Rx, key int64) (text []byte, verbatim, found bool, err error) {
	row, found, err := wholeByKey(rx, key)
	if err != nil || !found {
		return nil, false, false, err
	}
	var from struct {
		Stamp []byte `db:"stamp"`
		Text  []byte `db:"text"`
	}
	if ok, err := rx.Find(&from, sqlImport, key); err != nil {
		return nil, false, false, err
	} else if ok && from.Text != nil && bytes.Equal(from.Stamp, row.stamp()) {
		return from.Text, true, true, nil
	}
	record, err := row.record(rx)
	if err != nil {
		return nil, false, false, err
	}
	return record.json(), false, true, nil
}

func wholeByKey(rx *db.Rx, key int64) (*wholeRow, bool, error) {
	row, found, err := rowByKey(rx, key)
	if err != nil || !found {
		return nil, false, err
	}
	whole, err := row.whole(rx)
	return whole, err == nil, err
}

// placedRuns returns all runs of the scope, and those that came from its trees into scopes of their
// own, oldest first; then each copy of one of them in a further file.
func placedRuns(rx *db.Rx, scope int64) (list []placed, err error) {
	for _, query := range []string{sqlOrigins, sqlCopies} {
		var some []placed
		if err := rx.Select(&some, query, scope); err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

// addCopy stores a further file that holds a run's record.
func addCopy(tx *db.Tx, key int64, at origin) error {
	if err := tx.Store().Queue(sqlForgetCopy, key, at.Source, at.Path); err != nil {
		return err
	}
	return stores.Put(tx, sqlAddCopy, key, at.Source, at.Path, at.Position)
}

// stamp changes with everything that a call on the run can change.
func (w *wholeRow) stamp() []byte {
	text := w.snapshot().appendJSON(nil)
	return sumOf(fmt.Appendf(text, " %d %d", w.KeptEvents, w.KeptBytes))
}

func sumOf(text []byte) []byte {
	sum := sha256.Sum256(text)
	return sum[:]
}

// holds reports whether a stored run equals an element of a file, whatever its bytes.
func holds(rx *db.Rx, key int64, e *fileElement) (bool, error) {
	row, found, err := wholeByKey(rx, key)
	if err != nil || !found {
		return false, err
	}
	return row.equals(rx, e.Record)
}
