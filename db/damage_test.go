package db_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/maintenance"
	"selvedge/migrations"
	"selvedge/test/dbtest"
)

// made gives a file with the schema that nobody has open, and that no test checks afterwards.
func made(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "made.db")
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// foreign runs statements as a program of the user's would that does not know of us.
func foreign(t *testing.T, path string, statements ...string) {
	t.Helper()
	c, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // the statements have ended
	c.SetMaxOpenConns(1)
	for _, s := range statements {
		if _, err := c.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func checked(t *testing.T, path string, o db.Options) maintenance.Examination {
	t.Helper()
	d, err := db.Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // opened for reading only
	x, err := maintenance.Examine(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func finds(x maintenance.Examination, check, detail string) bool {
	for _, p := range x.Problems {
		if p.Check == check && strings.Contains(p.Detail, detail) {
			return true
		}
	}
	return false
}

func TestCheck_NoticesMissingOrChangedSchema(t *testing.T) {
	const edit = "PRAGMA writable_schema = ON"
	for name, c := range map[string]struct {
		statements []string
		check      string
		detail     string
	}{
		"a dropped table": {
			[]string{"DROP TABLE run_leavings"},
			"schema",
			"table run_leavings is missing",
		},
		"a dropped index": {
			[]string{"DROP INDEX runs_by_end"},
			"schema",
			"index runs_by_end is missing",
		},
		"a dropped trigger": {
			[]string{"DROP TRIGGER runs_count_delete"},
			"schema",
			"trigger runs_count_delete is missing",
		},
		"a dropped view": {[]string{"DROP VIEW v_threads"}, "schema", "view v_threads is missing"},
		"an index of another column": {[]string{
			"DROP INDEX runs_by_end",
			"CREATE INDEX runs_by_end ON runs (scope)",
		}, "schema", "index runs_by_end is not as"},
		"a trigger that does less": {[]string{
			"DROP TRIGGER runs_count_delete",
			"CREATE TRIGGER runs_count_delete AFTER DELETE ON runs BEGIN SELECT 1; END",
		}, "schema", "trigger runs_count_delete is not as"},
		"a view that shows something else": {[]string{
			"DROP VIEW v_threads",
			"CREATE VIEW v_threads AS SELECT 1 AS thread",
		}, "schema", "view v_threads is not as"},
		"a table without a constraint": {[]string{
			edit, "UPDATE sqlite_schema SET sql = replace(sql, 'CHECK (ended >= 0)', '') WHERE name = 'run_agents'",
		}, "schema", "table run_agents is not as"},
		"a column more": {
			[]string{"ALTER TABLE run_leavings ADD COLUMN more TEXT"},
			"schema",
			"table run_leavings is not as",
		},
		"another schema version": {[]string{"UPDATE goose_db_version SET version_id = 1000 WHERE version_id " +
			"= (SELECT max(version_id) FROM goose_db_version)"}, "versions", "never got"},
		"other programs' versions": {
			[]string{"UPDATE selvedge_file SET min_writer = 3"},
			"versions",
			"writers from 3 on",
		},
		"no schema version at all": {[]string{"DROP TABLE goose_db_version"}, "versions", "are missing"},
		"a comment that is another": {[]string{
			edit,
			"UPDATE sqlite_schema SET sql = replace(sql, '-- ', '--  ') WHERE name = 'runs'",
		}, "", ""},
		"what its user made": {[]string{
			"CREATE TABLE mine (x)", "CREATE VIEW my_view AS SELECT run_id FROM runs",
			"CREATE INDEX my_index ON runs (outcome)",
			"CREATE TRIGGER my_trigger AFTER DELETE ON runs BEGIN DELETE FROM mine; END", "ANALYZE",
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := made(t)
			foreign(t, path, c.statements...)
			o := db.Options{ReadOnly: true, AnySchema: true}
			x := checked(t, path, o)
			if c.check == "" {
				if len(x.Problems) > 0 {
					t.Errorf("a whole file: %v", x.Problems)
				}
				return
			}
			if !finds(x, c.check, c.detail) {
				t.Errorf("%v", x.Problems)
			}
		})
	}
}

const someRun = `INSERT INTO runs (key, scope, agent_id, run_id, intent, started_at, status, others, checksum)
VALUES (1, 1, 'a', 'r', 'mend', 5, 'in_progress', 1, ?)`

// sumOf is the checksum of a row with these values, and NULL elsewhere.
func sumOf(table string, row map[string]any) int64 {
	at := slices.IndexFunc(migrations.Checksums, func(c migrations.Checksum) bool { return c.Table == table })
	var values []any
	for _, column := range migrations.Checksums[at].Covered {
		values = append(values, row[column])
	}
	return txn.Checksum(values...)
}

// startedRecord is what the record of putRun's run holds.
const startedRecord = `{"record":"started","run_id":"r","agent_id":"a","intent":"mend",` +
	`"started_at":"1970-01-01T00:00:00.000000005Z"}`

// putRun writes a run with one record, with or without checksums.
func putRun(t *testing.T, d *db.DB, sums bool) {
	t.Helper()
	var run, record any
	if sums {
		run = sumOf("runs", map[string]any{
			"scope": 1, "agent_id": "a", "run_id": "r", "intent": "mend",
			"started_at": 5, "status": "in_progress", "others": 1,
		})
		record = sumOf("run_records", map[string]any{
			"kind": "started", "parameters": []byte{},
			"raw": []byte(startedRecord), "exact": 1, "recorded_at": 7,
		})
	}
	err := d.Write(t.Context(), "put", func(tx *db.Tx) error {
		if _, err := tx.Exec(someRun, run); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO run_records (id, kind, parameters, raw, exact, recorded_at, checksum)
			VALUES ((1 << 24) + 1, 'started', x'', ?, 1, 7, ?)`,
			[]byte(startedRecord), record)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCheckRecomputesEveryChecksum(t *testing.T) {
	for name, c := range map[string]struct {
		sums      bool
		statement string
		detail    string // "" where nothing is wrong
		without   int64
	}{
		"rows as they were written": {sums: true},
		"rows from before":          {without: 1},
		"a text": {
			sums: true, statement: "UPDATE runs SET intent = 'bend'",
			detail: "row 1 of runs has another checksum",
		},
		"a number": {
			sums:      true,
			statement: "UPDATE run_records SET recorded_at = 8", detail: "row 16777217 of run_records",
		},
		"bytes": {
			sums: true, statement: "UPDATE run_records SET raw = x'7b7c'",
			detail: "row 16777217 of run_records",
		},
		"an empty value that is NULL now": {
			sums:      true,
			statement: "UPDATE run_records SET parameters = NULL", detail: "row 16777217 of run_records",
		},
		"a checksum of a user's own": {
			sums: true, statement: "UPDATE runs SET checksum = 7",
			detail: "row 1 of runs",
		},
		"a row that its user says is right": {
			sums: true, without: 1,
			statement: "UPDATE runs SET intent = 'bend', checksum = NULL; UPDATE run_records SET " +
				"raw = CAST(replace(CAST(raw AS TEXT), 'mend', 'bend') AS BLOB), checksum = NULL",
		},
		"a column that the checksum doesn't cover": {sums: true, statement: "UPDATE runs SET owner_id = NULL"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rows.db")
			d, err := db.Open(t.Context(), path, db.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close() //nolint:errcheck // the test is about what Examine says
			putRun(t, d, c.sums)
			if c.statement != "" {
				foreign(t, path, c.statement)
			}
			x, err := maintenance.Examine(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			if c.detail == "" && len(x.Problems) > 0 || c.detail != "" && !finds(x, "checksums", c.detail) {
				t.Errorf("%v", x.Problems)
			}
			want := maintenance.ChecksumCount{Table: "runs", Rows: 1, Without: c.without}
			if !slices.Contains(x.Checksums, want) {
				t.Errorf("%+v", x.Checksums)
			}
		})
	}
}

// A check of thousands of rows comes to the last one too.
func TestCheck_RecomputesMoreThanOneBatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "many.db")
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // the test is about what Examine says
	putRun(t, d, false)
	foreign(t, path, `WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
INSERT INTO run_records (id, kind, raw, exact) SELECT (1 << 24) + i, 'opaque', x'61', 1 FROM n`,
		"UPDATE run_records SET checksum = 1 WHERE id = (1 << 24) + 2500")
	x, err := maintenance.Examine(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if !finds(x, "checksums", "row 16779716 of run_records") ||
		!slices.Contains(x.Checksums, maintenance.ChecksumCount{Table: "run_records", Rows: 2500, Without: 2499}) {
		t.Errorf("%v %v", x.Problems, x.Checksums)
	}
}

func TestCheck_UsesNoReaderEndsWithContext(t *testing.T) {
	d := dbtest.Open(t, db.Options{Readers: 1})
	err := d.Read(t.Context(), "hold the only reader", func(*db.Rx) error {
		ended := make(chan error)
		go func() {
			_, err := d.Check(t.Context())
			ended <- err
		}()
		select {
		case err := <-ended:
			return err
		case <-time.After(20 * time.Second):
			return errors.New("the check waits for a reader")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := d.Check(ctx); !errors.Is(err, cause) {
		t.Errorf("a check whose context has ended: %v", err)
	}
}

// What the integrity check reads is too long for the time that it is given.
func TestCheckIsInterrupted(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	putManyRows(t, d)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := d.Check(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

func putManyRows(t *testing.T, d *db.DB) {
	t.Helper()
	err := d.Write(t.Context(), "fill", func(tx *db.Tx) error {
		if _, err := tx.Exec("CREATE TABLE filler (id INTEGER PRIMARY KEY, x TEXT)"); err != nil {
			return err
		}
		_, err := tx.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
			WHERE i < 200000) INSERT INTO filler SELECT i, printf('%50d', i) FROM n`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAFileAtRestIsCheckedTheSame(t *testing.T) {
	path := made(t)
	foreign(t, path, "DROP INDEX runs_by_end", "DROP VIEW v_threads")
	atRest := checked(t, path, db.Options{ReadOnly: true})
	d, err := db.Open(t.Context(), path, db.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // opened for reading only
	inUse := checked(t, path, db.Options{ReadOnly: true})
	if len(atRest.Problems) != 2 || len(inUse.Problems) != 2 {
		t.Errorf("at rest %v, in use %v", atRest.Problems, inUse.Problems)
	}
}

// flipped changes one bit of a text wherever it stands in the file: a page may still have what was
// there before an ALTER.
func flipped(t *testing.T, path, text string, at int, bit byte) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(content, []byte(text)) {
		t.Fatalf("%q is not in the file", text)
	}
	for i := bytes.Index(content, []byte(text)); i >= 0; i = bytes.Index(content, []byte(text)) {
		content[i+at] ^= bit
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestABitOfTheSchemaKeepsNobodyOut(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		at     int
		bit    byte
		mended string
	}{
		"a view":             {"CREATE VIEW v_threads", 7, 1, "view v_threads"},
		"a trigger":          {"CREATE TRIGGER runs_count_delete", 3, 2, "trigger runs_count_delete"},
		"an index":           {"CREATE INDEX runs_by_end", 0, 1, "index runs_by_end"},
		"a table":            {"CREATE TABLE quarantine_parts", 1, 8, "table quarantine_parts"},
		"what a view is":     {"viewv_threads", 0, 1, "view v_threads"},
		"a view of a user's": {"CREATE VIEW my_view", 8, 1, "view my_view, of its damaged text"},
	} {
		t.Run(name, func(t *testing.T) {
			path := made(t)
			foreign(t, path, "CREATE VIEW my_view AS SELECT 1 AS x", "PRAGMA wal_checkpoint(TRUNCATE)")
			flipped(t, path, c.text, c.at, c.bit)
			// A reader can't mend it, and goes on without it.
			if r, err := db.Open(t.Context(), path, db.Options{ReadOnly: true}); err != nil {
				t.Errorf("open to read: %v", err)
			} else if err := r.Close(); err != nil {
				t.Error(err)
			}
			d, err := db.Open(t.Context(), path, db.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close() //nolint:errcheck // what was written is looked at
			done, err := maintenance.Repair(t.Context(), d)
			if err != nil || len(done) != 1 || done[0] != c.mended {
				t.Errorf("%q, %v", done, err)
			}
			if problems, err := d.Check(t.Context()); err != nil || len(problems) > 0 {
				t.Errorf("%v, %v", problems, err)
			}
			if err := d.Write(t.Context(), "write",
				func(tx *db.Tx) error { _, err := tx.Exec("DELETE FROM runs"); return err }); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRepairMakesAgainWhatWasDroppedOrChanged(t *testing.T) {
	path := made(t)
	foreign(t, path, "DROP INDEX runs_by_end", "CREATE INDEX runs_by_end ON runs (scope)",
		"DROP VIEW v_threads", "DROP TRIGGER runs_count_delete",
		"CREATE VIEW my_view AS SELECT 1 AS x")
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // what was written is looked at
	done, err := maintenance.Repair(t.Context(), d)
	slices.Sort(done)
	if want := []string{"index runs_by_end", "trigger runs_count_delete", "view v_threads"}; err != nil ||
		!slices.Equal(done, want) {
		t.Errorf("%q, %v", done, err)
	}
	if problems, err := d.Check(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if done, err := maintenance.Repair(t.Context(), d); err != nil || len(done) > 0 {
		t.Errorf("a second time: %q, %v", done, err)
	}
}

// A value of another type than its column's is damage, whoever reads it; a reader who wants another
// type than the column's is not told so.
func TestAValueThatATableCannotHoldIsCorrupt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.db")
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	putRun(t, d, true)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	foreign(t, path, "PRAGMA writable_schema = ON",
		"UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')') WHERE name = 'run_records'")
	foreign(t, path, "PRAGMA ignore_check_constraints = ON", "UPDATE run_records SET recorded_at = 'never'")
	foreign(t, path, "PRAGMA writable_schema = ON",
		"UPDATE sqlite_schema SET sql = sql || ' STRICT' WHERE name = 'run_records'",
		"PRAGMA wal_checkpoint(TRUNCATE)")
	if d, err = db.Open(t.Context(), path, db.Options{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // opened for reading only
	const query = "SELECT id, recorded_at FROM run_records"
	type record struct {
		ID         int64 `db:"id"`
		RecordedAt int64 `db:"recorded_at"`
	}
	for how, read := range map[string]func(*db.Rx) error{
		"Get":    func(rx *db.Rx) error { return rx.Get(&record{}, query) },
		"Select": func(rx *db.Rx) error { return rx.Select(&[]record{}, query) },
		"ScanStruct": func(rx *db.Rx) error {
			return first(rx, query, func(r *db.Row) error { return r.ScanStruct(&record{}) })
		},
		"Scan": func(rx *db.Rx) error {
			return first(rx, query, func(r *db.Row) error { var id, at int64; return r.Scan(&id, &at) })
		},
	} {
		err := d.Read(t.Context(), "read", read)
		if !errors.Is(err, db.ErrCorrupt) ||
			!strings.Contains(err.Error(), "run_records.recorded_at is a TEXT and must be INTEGER, in the row in "+
				"which id is 16777217") {
			t.Errorf("%s: %v", how, err)
		}
	}
	for how, read := range map[string]func(*db.Rx) error{
		"a text as a number": func(rx *db.Rx) error {
			var n int64
			return rx.Get(&n,
				"SELECT kind FROM run_records")
		},
		"NULL where it may be": func(rx *db.Rx) error {
			var n int64
			return rx.Get(&n,
				"SELECT batch FROM run_records")
		},
		"an expression": func(rx *db.Rx) error {
			var n int64
			return rx.Get(&n,
				"SELECT 'x' || kind FROM run_records")
		},
	} {
		if err := d.Read(t.Context(), "read", read); err == nil || errors.Is(err, db.ErrCorrupt) {
			t.Errorf("%s: %v", how, err)
		}
	}
}

func first(rx *db.Rx, query string, take func(*db.Row) error) error {
	for row, err := range rx.Query(query) {
		if err != nil {
			return err
		}
		return take(row)
	}
	return nil
}
