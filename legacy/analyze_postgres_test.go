//go:build postgres

package legacy

import (
	"fmt"
	"strconv"
	"testing"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// sqlRowsRead is how many rows of runs were read since the server's start, once nobody is connected
// any more: who leaves tells.
const sqlRowsRead = `SELECT seq_tup_read + coalesce(idx_tup_fetch, 0), (SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend')
FROM pg_stat_user_tables WHERE relname = 'runs'`

// TestPostgres_ImportedPageReadsNotAll looks at runs right behind an import that brought very many.
func TestPostgres_ImportedPageReadsNotAll(t *testing.T) {
	const many, shown = 800, 10
	files := folder{}
	for i := range many {
		agent, run := fmt.Sprint("agent-", i%3), fmt.Sprint("r", i)
		files[agent+"/"+run+".jsonl"] = startedLine(agent, run) + endedLine(agent, run)
	}
	dir, address := files.make(t), dbtest.Postgres(t)
	with := func(do func(d *db.DB)) (read int) {
		d, err := db.Open(t.Context(), address, db.Options{})
		if err != nil {
			t.Fatal(err)
		}
		do(d)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		dbtest.Await(t, "nobody is connected", func() bool {
			row := dbtest.PostgresExec(t, address, sqlRowsRead)[0]
			read, _ = strconv.Atoi(string(row[0]))
			return string(row[1]) == "0"
		})
		return read
	}
	before := with(func(d *db.DB) { importInto(t, d, "", dir) })
	after := with(func(d *db.DB) {
		page, err := runs.NewStore(d, runs.Options{}).Page(t.Context(),
			runs.Filter{Statuses: []runs.RunStatus{runs.StatusIncomplete}}, db.At{Limit: shown})
		if err != nil || len(page.Items) != shown {
			t.Fatal(len(page.Items), err)
		}
	})
	if after-before > 10*shown {
		t.Errorf("a page of %d runs read %d of %d", shown, after-before, many)
	}
}
