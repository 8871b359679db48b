package db_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/maintenance"
)

// salvaged brings what is whole of the file at path into a new one, and opens that. The damaged one
// must stay as it is.
func salvaged(t *testing.T, path string, o maintenance.SalvageOptions) (maintenance.Salvaged, *db.DB) {
	t.Helper()
	before := filesBeside(t, path)
	to := filepath.Join(t.TempDir(), "new.db")
	s, err := maintenance.Salvage(t.Context(), path, to, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Problems) > 0 {
		t.Errorf("the new file has %v", s.Problems)
	}
	after := filesBeside(t, path)
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s was changed", name)
		}
	}
	d, err := db.Open(t.Context(), to, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return s, d
}

func filesBeside(t *testing.T, path string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range []string{path, path + "-wal"} {
		text, err := os.ReadFile(name)
		if err == nil {
			files[name] = string(text)
		} else if !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return files
}

func tableOf(s maintenance.Salvaged, name string) maintenance.SalvagedTable {
	for _, t := range s.Tables {
		if t.Table == name {
			return t
		}
	}
	return maintenance.SalvagedTable{}
}

func TestSalvageTakesTheCommitsInTheWALToo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "live.db")
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	putRun(t, d, true)
	if err := d.Close(); err != nil { // which moves that into the file
		t.Fatal(err)
	}
	if d, err = db.Open(t.Context(), path, db.Options{}); err != nil {
		t.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // opened for reading only
	write(t, d, "INSERT INTO scopes (name, checksum) VALUES ('committed', ?)", txn.Checksum("committed"))
	write(t, d, "UPDATE runs SET intent = 'end', checksum = NULL")
	write(t, d, "UPDATE run_records SET checksum = NULL, raw = "+
		"CAST(replace(CAST(raw AS TEXT), 'mend', 'end') AS BLOB)")
	// As after a power cut: the WAL ends with a torn frame.
	crashed := filepath.Join(t.TempDir(), "crashed.db")
	for name, text := range filesBeside(t, path) {
		if strings.HasSuffix(name, "-wal") {
			text += text[32 : 32+2000]
		}
		if err := os.WriteFile(crashed+strings.TrimPrefix(name, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, got := salvaged(t, crashed, maintenance.SalvageOptions{})
	if name := one[string](t, got, "SELECT max(name) FROM scopes"); name != "committed" {
		t.Errorf("the scopes end with %q", name)
	}
	if intent := one[string](t, got, "SELECT intent FROM runs"); intent != "end" {
		t.Errorf("the run wants to %q", intent)
	}
	if n := tableOf(s, "run_records").Taken; n != 1 {
		t.Errorf("%d records", n)
	}
}

func TestSalvageTakesAFileOfAnOlderSchema(t *testing.T) {
	for _, version := range []int64{1, 7, 10} {
		path := filepath.Join(t.TempDir(), "old.db")
		if _, err := maintenance.Migrate(t.Context(), path, db.Options{SchemaVersion: version}); err != nil {
			t.Fatal(err)
		}
		statements := []string{"INSERT INTO scopes (name) VALUES ('two')", "PRAGMA wal_checkpoint(TRUNCATE)"}
		if version >= 7 {
			statements = append([]string{
				"INSERT INTO runs (key, scope, agent_id, run_id, intent, started_at, status, others) VALUES (1, 2, " +
					"'a', 'r', 'mend', 5, 'in_progress', 1)",
				"INSERT INTO run_records (id, kind, raw, exact) VALUES ((1 << 24) + 1, 'started', CAST('" +
					startedRecord + "' AS BLOB), 1)",
			}, statements...)
		}
		foreign(t, path, statements...)
		s, got := salvaged(t, path, maintenance.SalvageOptions{})
		if s.Schema != version {
			t.Errorf("it says schema %d of a file with %d", s.Schema, version)
		}
		if names := one[string](t, got, "SELECT group_concat(name, ' ') FROM (SELECT name FROM scopes "+
			"ORDER BY id)"); names != " two" {
			t.Errorf("schema %d: the scopes are %q", version, names)
		}
		if version >= 7 {
			if n := one[int](t, got, "SELECT count(*) FROM v_runs WHERE intent = 'mend' AND scope = 'two'"); n != 1 {
				t.Errorf("schema %d: %d runs", version, n)
			}
		}
	}
}

func TestSalvage_SuspectRowsOnlyIfAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "suspect.db")
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, d, "INSERT INTO scopes (name, checksum) VALUES ('kept', ?)", txn.Checksum("kept"))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	foreign(t, path, "UPDATE scopes SET name = 'bent' WHERE name = 'kept'")

	s, got := salvaged(t, path, maintenance.SalvageOptions{})
	if n := tableOf(s, "scopes").Suspect; n != 1 {
		t.Errorf("%d rows are suspect", n)
	}
	if n := one[int](t, got, "SELECT count(*) FROM scopes WHERE name = 'bent'"); n != 0 {
		t.Errorf("%d suspect rows were brought", n)
	}
	if kept := one[string](t, got, `SELECT statement FROM salvage_leftovers
		WHERE of_table = 'scopes'`); !strings.Contains(kept, "bent") {
		t.Errorf("what is kept of it is %s", kept)
	}

	s, got = salvaged(t, path, maintenance.SalvageOptions{KeepSuspect: true})
	if n := tableOf(s, "scopes").Suspect; n != 1 {
		t.Errorf("%d rows are suspect", n)
	}
	if n := one[int](t, got, "SELECT count(*) FROM scopes WHERE name = 'bent' AND checksum IS NULL"); n != 1 {
		t.Errorf("%d rows came without a checksum", n)
	}
}

func TestSalvageRefusesWhatIsNoFile(t *testing.T) {
	folder := t.TempDir()
	pipe := filepath.Join(folder, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{pipe, folder} {
		if _, err := maintenance.Salvage(t.Context(), from, filepath.Join(folder, "new.db"),
			maintenance.SalvageOptions{}); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%s: %v", from, err)
		}
	}
}
