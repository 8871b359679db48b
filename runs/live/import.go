package live

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"

	"selvedge/db"
)

// The import door: what is here keeps ids, times and counters as they are given, and takes the caller's transaction, so
// that the ledger's row is written with the runs. Nothing but internal/legacy uses it.

// An Origin is the place in an old tree that a run came from.
type Origin struct {
	Source   int64 // number of the tree; 0: the run came from none
	Path     []byte
	Position int
}

// Imported is how a run that is here stands to its origin.
type Imported struct {
	Key       int64
	SessionID string
	Origin
	Digest  []byte // SHA-256 of the record's bytes in its file
	Touched bool   // written to since it was imported
}

const (
	sqlAddImport = `INSERT INTO live_imports (run, source, path, position, digest, stamp, text) VALUES (?, ?, ?, ?, ?, ?, ?)`
	sqlImport    = `SELECT source, path, position, digest, stamp, text FROM live_imports WHERE run = ?`
	sqlSetPlace  = `UPDATE live_imports SET position = ? WHERE run = ?`
	sqlDropKey   = `DELETE FROM live_runs WHERE key = ?`
	sqlOrigins   = `SELECT r.key, r.session_id, i.source, i.path, i.position FROM live_runs AS r LEFT JOIN live_imports AS i ON i.run = r.key
WHERE r.scope = ? ORDER BY r.created_at, r.key`
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
func (s *Store) ImportRun(tx *db.Tx, e *FileElement, from Origin) error {
	scope, err := tx.Scope(s.scope)
	if err != nil {
		return err
	}
	open := &Store{db: s.db, scope: s.scope}
	if err := open.add(tx, scope, &e.Record); err != nil {
		return fmt.Errorf("live run %q: %w", e.Record.Snapshot.ID, err)
	}
	row, _, err := findRun(&tx.Rx, scope, e.Record.Snapshot.ID)
	if err != nil {
		return err
	}
	var text []byte
	if !e.regular() {
		text = e.Text
	}
	_, err = tx.Exec(sqlAddImport, row.Key, from.Source, from.Path, from.Position, sumOf(e.Text), row.stamp(), text)
	return err
}

// FindImported tells whether a run is here, and where it came from.
func (s *Store) FindImported(rx *db.Rx, runID string) (i Imported, found bool, err error) {
	scope, ok, err := rx.Scope(s.scope)
	if err != nil || !ok {
		return i, false, err
	}
	row, ok, err := findRun(rx, scope, runID)
	if err != nil || !ok {
		return i, false, err
	}
	i.Key, i.SessionID = row.Key, row.SessionID
	var from importRow
	if ok, err := rx.Find(&from, sqlImport, row.Key); err != nil || !ok {
		return i, err == nil, err
	}
	i.Origin, i.Digest = Origin{from.Source, from.Path, from.Position}, from.Digest
	i.Touched = !bytes.Equal(from.Stamp, row.stamp())
	return i, true, nil
}

// SetPosition notes that a run's record stands elsewhere among those of its file.
func (s *Store) SetPosition(tx *db.Tx, key int64, position int) error {
	_, err := tx.Exec(sqlSetPlace, position, key)
	return err
}

// RemoveImported takes a run out.
func (s *Store) RemoveImported(tx *db.Tx, key int64) error {
	_, err := tx.Exec(sqlDropKey, key)
	return err
}

// RecordText is a run's record for a file: as it came, where it was not written to since and this program would write other
// bytes (verbatim), else as compact JSON. found is false for a run that is gone.
func (s *Store) RecordText(rx *db.Rx, key int64) (text []byte, verbatim, found bool, err error) {
	var row runRow
	err = rx.Get(&row, sqlRunByKey, key)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, false, nil
	}
	if err != nil {
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
	return record.AppendJSON(nil), false, true, nil
}

// A Placed is a run and where its record belongs in a tree.
type Placed struct {
	Key       int64
	SessionID string
	Origin
}

// Placed gives all runs of the scope, oldest first.
func (s *Store) Placed(rx *db.Rx) (list []Placed, err error) {
	scope, ok, err := rx.Scope(s.scope)
	if err != nil || !ok {
		return nil, err
	}
	var rows []struct {
		Key       int64  `db:"key"`
		SessionID string `db:"session_id"`
		Source    *int64 `db:"source"`
		Path      []byte `db:"path"`
		Position  *int   `db:"position"`
	}
	if err := rx.Select(&rows, sqlOrigins, scope); err != nil {
		return nil, err
	}
	for _, row := range rows {
		p := Placed{Key: row.Key, SessionID: row.SessionID}
		if row.Source != nil {
			p.Origin = Origin{*row.Source, row.Path, *row.Position}
		}
		list = append(list, p)
	}
	return list, nil
}

// stamp stands for everything that a call on the run can change.
func (w *runRow) stamp() []byte {
	text := w.snapshot().AppendJSON(nil)
	return sumOf(fmt.Appendf(text, " %d %d", w.KeptEvents, w.KeptBytes))
}

func sumOf(text []byte) []byte {
	sum := sha256.Sum256(text)
	return sum[:]
}

// Holds reports whether a run is what an element of a file says, whatever their bytes.
func (s *Store) Holds(rx *db.Rx, key int64, e *FileElement) (bool, error) {
	var row runRow
	if err := rx.Get(&row, sqlRunByKey, key); err != nil {
		return false, err
	}
	ours, err := row.record(rx)
	if err != nil {
		return false, err
	}
	theirs := e.Record
	theirs.Snapshot.EventCount = theirs.nextSequence()
	return bytes.Equal(ours.AppendJSON(nil), theirs.AppendJSON(nil)), nil
}
