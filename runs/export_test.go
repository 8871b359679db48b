package runs

import (
	"bytes"
	"time"

	"selvedge/db"
	"selvedge/internal/tree"
)

// HandleOf is the file of a store, for tests.
func HandleOf(s *Store) *db.DB { return s.db }

// Scope is the name of the store's scope.
func (s *Store) Scope() string { return s.scope }

// Retention is what GC keeps.
func (s *Store) Retention() RetentionConfig { return s.retention }

// DecodeSeed reads a line as the seed version of the original does.
func DecodeSeed(line []byte) (Record, error) { return decodeSeed(line) }

func decodeSeed(line []byte) (Record, error) { return decode(bytes.Clone(line)) }

func undated(r Record) bool {
	_, undated := dated(r, time.Time{})
	return undated
}

func (r RunRef) entity() tree.Entity { return tree.Entity{Group: r.AgentID, ID: r.RunID} }

// ImportLines appends the lines of a trace file's text, as an importer does.
func (s *Store) ImportLines(tx *db.Tx, run RunRef, text string) error {
	var records []record
	for line := range bytes.Lines([]byte(text)) {
		records = append(records, record{parsedLine: readLine(bytes.TrimSuffix(line, []byte("\n")))})
	}
	scope, err := tx.Store().Scope(s.scope)
	if err != nil {
		return err
	}
	at, found, err := stateOf(&tx.Rx, scope, run.entity())
	if err != nil {
		return err
	}
	was := &at
	if !found {
		was = nil
	}
	_, err = importRecords(tx, scope, run.entity(), was, records)
	return err
}

// Remove removes a run, as an importer does.
func (s *Store) Remove(tx *db.Tx, run RunRef) (found bool, err error) {
	key, found, err := s.find(&tx.Rx, run)
	if err == nil && found {
		_, err = tx.Exec(sqlRemoveRun, key)
	}
	return found, err
}

// PageOfLines is the number of lines in a page of about so many bytes, and of those of the run.
func (s *Store) PageOfLines(rx *db.Rx, run RunRef, maxBytes int) (page int, all int64, err error) {
	scope, _, err := rx.Store().Scope(s.scope)
	if err != nil {
		return 0, 0, err
	}
	at, _, err := stateOf(rx, scope, run.entity())
	if err != nil {
		return 0, 0, err
	}
	lines, _, err := readLines(rx, at.Row, 0, maxBytes)
	return len(lines), at.Last, err
}
