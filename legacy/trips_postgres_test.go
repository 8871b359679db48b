//go:build postgres

package legacy

import (
	"fmt"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
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

// manyFiles is a tree of a kind with about n files, some of which have something that goes into quarantine.
func manyFiles(kind Kind, n int) folder {
	f := folder{}
	for i := range n {
		id, bad := fmt.Sprint("r-", i), i%4 == 0
		switch kind {
		case Runs:
			agent, line := fmt.Sprint("agent-", i%3), ""
			if bad {
				line = "bad\n"
			}
			f["runs/"+agent+"/"+id+".jsonl"] = startedLine(agent, id) + turnLine(1) + line + turnLine(2) +
				endedLine(agent, id)
		case Live:
			records := liveRecord("a"+id, "s"+id, "one") + "," + liveRecord("b"+id, "s"+id, "two")
			if bad {
				records += `,{"snapshot":7}`
			}
			f["runs/s"+id+".json"] = "[" + records + "]"
		case Agents:
			f["agents/"+id+".toml"] = agentEntry(id, "active", i)
			if bad {
				f["agents/"+id+".toml"] = "no = entry"
			}
		case Checkpoints:
			f[id+".json"] = strings.ReplaceAll(wholeCheckpoint, "whole", id)
			if bad {
				f[id+".json"] = "{torn"
			}
		case Workers:
			at, events := "runtimes/"+idName(id)+"/", startedEvent
			if bad {
				events += "{no event\n"
			}
			f[at+"runtime.json"], f[at+"events.jsonl"] = strings.ReplaceAll(wholeRuntime(""), `"r"`, `"`+id+`"`),
				events
			for _, worker := range []string{"worker-00000001", "worker-00000002"} {
				f[at+"workers/"+idName(worker)+"/worker.json"] = laterWorker(
					fmt.Sprintf(`{"runtime_id":%q,"worker_id":%q}`, id, worker), `"`+worker+`"`, "")
			}
		}
	}
	return f
}

// TestPostgresAnImportTakesTripsByTheBatch imports folders of one batch, one of them with ten times
// as much as the other.
func TestPostgresAnImportTakesTripsByTheBatch(t *testing.T) {
	const few, many, spare = 12, 120, 30 // what the handle itself asks in the background, too
	for _, kind := range Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			first, again := importTrips(t, kind, madeBelow(t, manyFiles(kind, few)))
			firstOfMany, againOfMany := importTrips(t, kind, madeBelow(t, manyFiles(kind, many)))
			t.Logf("%d files: %d trips, again %d; %d files: %d, again %d", few, first, again, many, firstOfMany,
				againOfMany)
			if firstOfMany > first+spare || againOfMany > again+spare {
				t.Error("there are trips for each file")
			}
		})
	}
}

func madeBelow(t *testing.T, files folder) string {
	t.Helper()
	dir := t.TempDir()
	files.below(t, dir)
	return dir
}
