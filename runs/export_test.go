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

func (s *Store) imported() store { return store{s.scope, s.db} }

func (r RunRef) entity() tree.Entity { return tree.Entity{Group: r.AgentID, ID: r.RunID} }

// ImportLines appends the lines of a trace file's text, as an importer does.
func (s *Store) ImportLines(tx *db.Tx, run RunRef, text string) error {
	var records []record
	for line := range bytes.Lines([]byte(text)) {
		records = append(records, record{line: readLine(bytes.TrimSuffix(line, []byte("\n")))})
	}
	at, found, err := s.imported().state(&tx.Rx, run.entity())
	if err != nil {
		return err
	}
	was := &at
	if !found {
		was = nil
	}
	_, err = s.imported().append(tx, run.entity(), was, records)
	return err
}

// Remove removes a run, as an importer does.
func (s *Store) Remove(tx *db.Tx, run RunRef) (found bool, err error) {
	if _, found, err = s.imported().state(&tx.Rx, run.entity()); err == nil {
		err = s.imported().remove(tx, run.entity())
	}
	return found, err
}

// PageOfLines is the number of lines in a page of about so many bytes, and of those of the run.
func (s *Store) PageOfLines(rx *db.Rx, run RunRef, maxBytes int) (page int, all int64, err error) {
	at, _, err := s.imported().state(rx, run.entity())
	if err != nil {
		return 0, 0, err
	}
	lines, err := s.imported().lines(rx, run.entity(), 0, maxBytes)
	return len(lines), at.Last, err
}
