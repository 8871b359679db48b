//go:build postgres

package legacy

import (
	"fmt"
	"testing"

	"selvedge/db"
	"selvedge/internal/dbtest"
)

// What an import of one folder costs, first and again, in messages to the server that are waited for.
func importTrips(t *testing.T, kind Kind, dir string) (first, again int64) {
	t.Helper()
	address, trips := dbtest.PostgresTrips(t, dbtest.Postgres(t))
	d, err := db.Open(t.Context(), address, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	count := func() int64 {
		before := trips()
		report, err := Import(t.Context(), d, kind, dir, Options{})
		if err != nil || report.Files.Found == 0 {
			t.Fatal(report, err)
		}
		return trips() - before
	}
	return count(), count()
}

// TestPostgresAnImportTakesTripsByTheBatch imports folders of one batch, one of them with ten times as much as the other.
func TestPostgresAnImportTakesTripsByTheBatch(t *testing.T) {
	for kind, grow := range map[Kind]func(n int) folder{
		Runs: func(n int) folder {
			f := folder{}
			for i := range n {
				agent, run := fmt.Sprint("agent-", i%3), fmt.Sprint("r", i)
				f["runs/"+agent+"/"+run+".jsonl"] = startedLine(agent, run) + turnLine(1) + "bad\n" + turnLine(2) + endedLine(agent, run)
			}
			return f
		},
		Live: func(n int) folder {
			f := folder{}
			for i := range n {
				f[fmt.Sprintf("runs/session-%d.json", i)] = "[" + liveRecord(fmt.Sprint("a", i), fmt.Sprint("session-", i), "one") + "," + liveRecord(fmt.Sprint("b", i), fmt.Sprint("session-", i), "two") + "]"
			}
			return f
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			few, fewAgain := importTrips(t, kind, madeBelow(t, grow(20)))
			many, manyAgain := importTrips(t, kind, madeBelow(t, grow(200)))
			t.Logf("20 files: %d trips, again %d; 200 files: %d, again %d", few, fewAgain, many, manyAgain)
		})
	}
}

func madeBelow(t *testing.T, files folder) string {
	t.Helper()
	dir := t.TempDir()
	files.below(t, dir)
	return dir
}
