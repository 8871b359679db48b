//go:build postgres

package maintenance_test

import (
	"path/filepath"
	"testing"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

// Tables whose key holds texts of any length, of which an index of the server has the beginning.
func TestPostgres_MoveReadsLongKeysOnce(t *testing.T) {
	const n = 12000
	from := dbtest.Postgres(t)
	d, err := db.Open(t.Context(), from, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	dbtest.PostgresExec(t, from, `SET search_path = selvedge;
INSERT INTO import_sources (scope, kind, root, first_at) VALUES (1, 'runs', '/r', 1), (1, 'live', '/l', 1);
INSERT INTO import_files (source, path, state, entity_group, entity_id, last_sequence, size, consumed,
	prefix_sha256, open_line, records, imported_at)
SELECT 1, convert_to(CASE WHEN n % 10 = 0 THEN repeat(n || '/', 60) ELSE n || '/run.jsonl' END, 'UTF8'),
	'refused', '', '', 0, 0, 0, sha256(''), 0, '', 1
FROM generate_series(1, 12000) AS n;
INSERT INTO live_runs (scope, run_id, session_id, status, created_at, updated_at, event_count, kept_events,
	kept_bytes) VALUES (1, 'r', 's', 'completed', 1, 1, 0, 0, 0);
INSERT INTO live_copies (run, source, path, position)
SELECT 1, 2, convert_to(CASE WHEN n % 10 = 0 THEN repeat(n || '/', 60)
	ELSE n || '/events.jsonl' END, 'UTF8'), n FROM generate_series(1, 12000) AS n;
INSERT INTO run_spent_keys (scope, run_id, agent_id, append_key, digest, removed_at)
SELECT 1, 'r' || n % 30, 'a', 'k' || n, sha256(''), 1 FROM generate_series(1, 12000) AS n;
ANALYZE`)
	tables := []string{"import_files", "live_copies", "run_spent_keys"}
	before := map[string]int64{}
	for _, table := range tables {
		before[table] = dbtest.PostgresReads(t, from, table)
	}
	if _, err := maintenance.Move(t.Context(), from, filepath.Join(t.TempDir(), "selvedge.db"),
		db.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		// Counted, copied and compared; and where a page goes on with another run or source, that one is sorted.
		if read := dbtest.PostgresReads(t, from, table) - before[table]; read < 2*n || read > 5*n {
			t.Errorf("%d rows of %s were read of %d that are there", read, table, n)
		}
	}
}
