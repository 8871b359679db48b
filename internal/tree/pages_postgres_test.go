//go:build postgres

package tree

import (
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

func TestPostgres_PathPagesReadOnce(t *testing.T) {
	const n = 12000
	address := dbtest.Postgres(t)
	d := dbtest.OpenAt(t, address, db.Options{})
	dbtest.PostgresExec(t, address, `SET search_path = selvedge;
INSERT INTO import_sources (scope, kind, root, first_at) VALUES (1, 'runs', '/r', 1);
INSERT INTO import_files (source, path, state, entity_group, entity_id, last_sequence, size, consumed,
	prefix_sha256, open_line, records, imported_at)
SELECT 1, convert_to(CASE WHEN n % 10 = 0 THEN repeat(n || '/', 60) ELSE n || '/run.jsonl' END, 'UTF8'),
	'refused', '', '', 0, 0, 0, sha256(''), 0, '', 1
FROM generate_series(1, 12000) AS n;
INSERT INTO quarantine (scope, source, path, byte_offset, what, reason, bytes, found_at)
	SELECT 1, source, path, 0, 'file', '', 0, 1 FROM import_files;
ANALYZE`)
	read := map[string]int64{}
	for _, table := range []string{"import_files", "quarantine"} {
		read[table] = -dbtest.PostgresReads(t, address, table)
	}
	source := Source{ID: 1}
	gone, root := 0, t.TempDir()
	for row, err := range source.files(t.Context(), d, sqlFiles) {
		if err != nil {
			t.Fatal(err)
		}
		if isGone(root, row.Path) {
			gone++
		}
	}
	if gone != n {
		t.Errorf("%d files are gone", gone)
	}
	var unread int
	for after := []byte{}; ; {
		var page [][]byte
		err := d.Read(t.Context(), "test", func(rx *db.Rx) (err error) {
			page, err = source.Unread(rx, after)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		unread += len(page)
		after = page[len(page)-1]
	}
	if unread != n {
		t.Errorf("%d files could not be read", unread)
	}
	for table, before := range read {
		if read := before + dbtest.PostgresReads(t, address, table); read < n || read > 2*n {
			t.Errorf("%d rows of %s were read of %d that are there", read, table, n)
		}
	}
}
