//go:build postgres

package legacy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// sqlImportedRows is all that an import of runs writes, one line a row, without the numbers of rows
// and the times of the import.
const sqlImportedRows = `SET search_path = selvedge; SELECT line FROM (
SELECT 'run ' || (to_jsonb(r) - '{key,scope,checksum}'::text[])::text AS line FROM runs AS r
UNION ALL SELECT 'record ' || r.agent_id || ' ' || r.run_id || ' ' || (c.id & 16777215) || ' ' ||
	(to_jsonb(c) - '{id,checksum}'::text[])::text
    FROM run_records AS c LEFT JOIN runs AS r ON r.key = c.id >> 24
UNION ALL SELECT 'file ' || (to_jsonb(f) - '{source,entity_row,imported_at,checksum,row_id}'::text[])::text
	FROM import_files AS f
UNION ALL SELECT 'aside ' || (to_jsonb(q) - '{id,source,found_at,checksum}'::text[])::text
	FROM quarantine AS q
UNION ALL SELECT 'part ' || encode(q.path,
	'hex') || ' ' || q.byte_offset || ' ' || q.what || ' ' || p.part || ' ' || encode(p.raw, 'hex')
    FROM quarantine_parts AS p LEFT JOIN quarantine AS q ON q.id = p.quarantine
) AS lines ORDER BY line COLLATE "C"`

func importedRows(t *testing.T, address string) (rows []string) {
	t.Helper()
	for _, row := range dbtest.PostgresExec(t, address, sqlImportedRows) {
		rows = append(rows, string(row[0]))
	}
	return rows
}

// TestPostgres_StoppedImportEndsTheSame kills processes that import, in the middle of their work, and has one
// go on whose connections are cut again and again.
func TestPostgres_StoppedImportEndsTheSame(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 9))
	files := folder{"agent-0/long.jsonl": startedLine("agent-0", "long") +
		strings.Repeat(turnLine(1)+"bad\n", 40) + "torn"}
	for i := range 12 {
		agent, run := fmt.Sprint("agent-", i%4), fmt.Sprint("r", i)
		files[agent+"/"+run+".jsonl"] = oddTrace(random, agent, run)
	}
	dir := files.make(t)
	whole, killed, cut := dbtest.Postgres(t), dbtest.Postgres(t), dbtest.Postgres(t)
	dbtest.Start(t, "import", whole, dir).Wait()
	want := importedRows(t, whole)

	for kill := range 6 {
		p := dbtest.Start(t, "import", killed, dir)
		for range 1 + 2*kill {
			p.Line()
		}
		p.Kill()
		dbtest.PostgresExec(t, killed, `UPDATE selvedge.owner_beats SET until = 1`) // as if its time had passed
	}
	dbtest.Start(t, "import", killed, dir).Wait()

	p := dbtest.Start(t, "import", cut, dir)
	for range 4 {
		p.Line()
		p.Line()
		dbtest.PostgresExec(t, cut, sqlCutAll)
	}
	p.Wait()

	for _, address := range []string{killed, cut} {
		if diff := firstDifference(want, importedRows(t, address)); diff != "" {
			t.Error(diff)
		}
		d, err := db.Open(t.Context(), address, db.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if report, err := Verify(t.Context(), d, Runs, dir, Options{}); err != nil || len(report.Differs) > 0 ||
			report.Counts["turn"].Already == 0 {
			t.Errorf("%+v, %+v, %v", report.Counts, report.Differs, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

const (
	sqlLedgerOf = `SET search_path = selvedge;
	SELECT (to_jsonb(f) - '{source,entity_row,imported_at,checksum,row_id}'::text[])::text
FROM import_files AS f JOIN import_sources AS s ON s.id = f.source JOIN scopes AS c ON c.id = s.scope
	WHERE c.name = '%s' ORDER BY f.path`
	sqlCutAll = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
		AND pid <> pg_backend_pid()`
	sqlTimesUp = `UPDATE selvedge.owner_beats SET until = 1
		WHERE owner IN (SELECT id FROM selvedge.owners WHERE pid = %d)`
)

// TestPostgres_StoppedImportOfAnyKindResumes does the same with trees of every other kind, each
// into scopes of its own.
func TestPostgres_StoppedImportOfAnyKindResumes(t *testing.T) {
	address := dbtest.Postgres(t)
	d, err := db.Open(t.Context(), address, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, kind := range []Kind{Agents, Live, Checkpoints, Workers} {
		t.Run(string(kind), func(t *testing.T) {
			dir := madeBelow(t, manyFiles(kind, 10))
			scope := func(name string) string { return name + " " + string(kind) }
			bring := func(name string) {
				if _, err := Import(t.Context(), d, kind, dir, Options{Scope: scope(name)}); err != nil {
					t.Fatal(err)
				}
			}
			bring("whole")
			for lines := 1; lines < 5; lines += 2 {
				p := dbtest.Start(t, "import", address, dir, string(kind), scope("killed"))
				for range lines {
					p.Line()
				}
				p.Kill()
				dbtest.PostgresExec(t, address, fmt.Sprintf(sqlTimesUp, p.Pid()))
			}
			bring("killed")
			p := dbtest.Start(t, "import", address, dir, string(kind), scope("cut"))
			for range 2 {
				p.Line()
				dbtest.PostgresExec(t, address, sqlCutAll)
			}
			p.Wait()

			said := func(name string) (all []string) {
				for _, row := range dbtest.PostgresExec(t, address, fmt.Sprintf(sqlLedgerOf, scope(name))) {
					all = append(all, string(row[0]))
				}
				out := filepath.Join(t.TempDir(), "out")
				if _, err := Export(t.Context(), d, kind, out, Options{Scope: scope(name)}); err != nil {
					t.Fatal(err)
				}
				files := filesBelow(t, out)
				for _, path := range slices.Sorted(maps.Keys(files)) {
					all = append(all, path+" "+files[path])
				}
				return append(all, inQuarantine(t, d, scope(name))...)
			}
			want := said("whole")
			for _, name := range []string{"killed", "cut"} {
				if diff := firstDifference(want, said(name)); diff != "" || len(want) < 20 {
					t.Errorf("%s, of %d: %s", name, len(want), diff)
				}
				if report, err := Verify(t.Context(), d, kind, dir, Options{Scope: scope(name)}); err != nil ||
					len(report.Differs) > 0 {
					t.Errorf("%s: %+v, %v", name, report.Differs, err)
				}
			}
		})
	}
}
