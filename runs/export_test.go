package runs

import (
	"selvedge/db"
	traces "selvedge/internal/runs"
)

// HandleOf is the file of a store, for tests.
func HandleOf(s *Store) *db.DB { return s.db }

// Shown is a record as callers see it.
func Shown(r traces.Record) Record { return shown(r) }
