package runs

import "selvedge/db"

// HandleOf is the file of a store, for tests.
func HandleOf(s *Store) *db.DB { return s.db }
