package maintenance_test

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

// A place is what SQLite's dbstat says of a page of a table.
type place struct {
	table    string
	page     int
	kind     string
	cells    int64
	overflow bool
}

func places(t *testing.T, path string) (list []place) {
	t.Helper()
	c, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // opened for reading only
	rows, err := c.QueryContext(t.Context(), `SELECT d.name, d.pageno, d.pagetype, d.ncell, d.path LIKE '%+%',
	coalesce(l.wr, 0) FROM dbstat AS d
JOIN pragma_table_list AS l ON l.name = d.name AND l.schema = 'main'
WHERE d.name NOT LIKE 'sqlite\_%' ESCAPE '\' AND d.name NOT IN ('selvedge_file', 'goose_db_version')`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close() //nolint:errcheck // Err returns the error
	for rows.Next() {
		var p place
		var rowless bool
		if err := rows.Scan(&p.table, &p.page, &p.kind, &p.cells, &p.overflow, &rowless); err != nil {
			t.Fatal(err)
		}
		if p.kind == "internal" && !rowless {
			p.cells = 0 // it holds no rows
		}
		list = append(list, p)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// atLeast is how many rows of each table lie on pages that are whole. One whose overflow page is
// damaged does not.
func atLeast(list []place, damaged map[int]bool) map[string]int64 {
	rows := map[string]int64{}
	for _, p := range list {
		switch {
		case p.overflow && damaged[p.page]:
			rows[p.table]--
		case !p.overflow && !damaged[p.page]:
			rows[p.table] += p.cells
		}
	}
	return rows
}

// seedOf is drawn, or what SELVEDGE_SEED says.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("SELVEDGE_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano()) //nolint:gosec // any number does
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

func TestSalvageBringsEveryRowOnWholePages(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.db")
	filled(t, whole, 2)
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	list := places(t, whole)
	free := freePages(t, content, pageSize)
	seed := seedOf(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 8 {
		t.Run(fmt.Sprintf("round %d of seed %d", round, seed), func(t *testing.T) {
			spoiled, damaged := slices.Clone(content), map[int]bool{}
			for range 1 + r.IntN(12) {
				n := 2 + r.IntN(len(content)/pageSize-1)
				if free[n] {
					continue
				}
				damaged[n] = true
				page := spoiled[(n-1)*pageSize : n*pageSize]
				switch r.IntN(3) {
				case 0:
					clear(page)
				case 1:
					for i := range page {
						page[i] = byte(r.Uint32())
					}
				default:
					for range 20 {
						page[r.IntN(pageSize)] ^= 1 << r.IntN(8)
					}
				}
			}
			from, to := filepath.Join(t.TempDir(), "damaged.db"), filepath.Join(t.TempDir(), "salvaged.db")
			if err := os.WriteFile(from, spoiled, 0o600); err != nil {
				t.Fatal(err)
			}
			report, err := maintenance.Salvage(t.Context(), from, to, maintenance.SalvageOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range report.Problems {
				t.Errorf("the new file: %s: %s", p.Check, p.Detail)
			}
			got := map[string]int64{}
			for _, table := range report.Tables {
				got[table.Table] = table.Taken + table.Aside
			}
			for table, want := range atLeast(list, damaged) {
				if got[table] < want {
					t.Errorf("%s has %d rows on whole pages, and %d were brought", table, want, got[table])
				}
			}
			if t.Failed() {
				t.Logf("damaged %v: %+v\n%s", damaged, report.Tables, strings.Join(report.Notes, "\n"))
			}
			if _, err := answers(t.Context(), to); err != nil {
				t.Errorf("the stores of the new file: %v", err)
			}
			if after, err := os.ReadFile(from); err != nil || !slices.Equal(after, spoiled) {
				t.Errorf("the damaged file was changed (%v)", err)
			}
		})
	}
}

func TestSalvageOfAWholeFileChangesNoAnswer(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "whole.db"), filepath.Join(dir, "salvaged.db")
	filled(t, from, 1)
	report, err := maintenance.Salvage(t.Context(), from, to, maintenance.SalvageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Damaged > 0 || len(report.Problems) > 0 || len(report.Notes) > 0 {
		t.Errorf("%+v", report)
	}
	for _, s := range report.Stores {
		if s.Aside > 0 || s.Lost == nil || *s.Lost > 0 || s.Taken == 0 {
			t.Errorf("%+v, %v lost", s, s.Lost)
		}
	}
	before, err := answers(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	after, err := answers(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(before, after) {
		t.Error(difference(before, after))
	}
	if _, err := maintenance.Salvage(t.Context(), from, to, maintenance.SalvageOptions{}); !errors.Is(err,
		db.ErrConflict) {
		t.Errorf("a second time: %v", err)
	}
}

func TestSalvage_LeavesNothingButTheNewFile(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "whole.db"), filepath.Join(t.TempDir(), "salvaged.db")
	filled(t, from, 1)
	d := dbtest.OpenAt(t, from, db.Options{})
	err := d.Write(t.Context(), "grow", func(tx *db.Tx) error { // so large that the new file gets a reserve
		_, err := tx.Exec("CREATE TABLE junk AS SELECT zeroblob(?) AS h", 8<<20)
		return err
	})
	if err := errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := maintenance.Salvage(t.Context(), from, to, maintenance.SalvageOptions{}); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Dir(to)); err != nil || len(left) != 1 {
		t.Errorf("there are %v (%v)", left, err)
	}
	dbtest.Check(t, to)
}

func TestSalvage_CheckpointOfAnotherDocumentIsAside(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "damaged.db"), filepath.Join(dir, "salvaged.db")
	d, err := db.Open(t.Context(), from, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := checkpoints.NewStore(d, checkpoints.Options{})
	for _, name := range []string{"one", "two"} {
		err := s.Save(t.Context(), &checkpoints.PausedWorkflow{
			RunID: name, Workflow: checkpoints.Workflow{ID: "flow", Name: name, Start: "gate", MaxIterations: 1},
			PausedStageID: "gate", Prompt: name + "?", OutputKey: "approval", CreatedAt: theTime,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := sql.Open("sqlite", "file:"+from)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ExecContext(t.Context(),
		`UPDATE checkpoints SET id = 3 - id + 100; UPDATE checkpoints SET id = id - 100`); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := maintenance.Salvage(t.Context(), from, to, maintenance.SalvageOptions{})
	if err != nil || len(report.Problems) > 0 {
		t.Fatal(report.Problems, err)
	}
	for _, table := range report.Tables {
		if table.Table == "checkpoints" && (table.Taken != 0 || table.Aside != 2) {
			t.Errorf("%d taken and %d aside", table.Taken, table.Aside)
		}
	}
}
