package maintenance_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/maintenance"
)

const pageSize = 4096

// A form of damage changes a copy of a file's content. round picks where.
type form struct {
	name   string
	rounds func(pages int) int // how many rounds go over the whole file
	damage func(r *rand.Rand, content []byte, round int) []byte
}

var forms = []form{
	{
		name:   "a page zeroed",
		rounds: func(pages int) int { return pages },
		damage: func(_ *rand.Rand, content []byte, round int) []byte {
			clear(pageOf(content, 1+round))
			return content
		},
	},
	{
		name:   "60 pages zeroed",
		rounds: func(pages int) int { return pages / 15 },
		damage: func(_ *rand.Rand, content []byte, round int) []byte {
			first := 2 + 15*round
			clear(content[(first-1)*pageSize : min(len(content), (first+59)*pageSize)])
			return content
		},
	},
	{
		name:   "60 pages zeroed here and there",
		rounds: func(pages int) int { return pages / 10 },
		damage: func(r *rand.Rand, content []byte, _ int) []byte {
			for range 60 {
				clear(pageOf(content, anyPage(r, content)))
			}
			return content
		},
	},
	{
		name:   "20 bits flipped",
		rounds: func(pages int) int { return pages },
		damage: func(r *rand.Rand, content []byte, _ int) []byte {
			for range 20 {
				content[pageSize+r.IntN(len(content)-pageSize)] ^= 1 << r.IntN(8)
			}
			return content
		},
	},
	{
		name:   "the end cut off",
		rounds: func(pages int) int { return pages / 4 },
		damage: func(r *rand.Rand, content []byte, _ int) []byte {
			return content[:20*pageSize+r.IntN(len(content)-20*pageSize)]
		},
	},
	{
		name:   "two pages exchanged",
		rounds: func(pages int) int { return pages },
		damage: func(r *rand.Rand, content []byte, _ int) []byte {
			a, b := pageOf(content, anyPage(r, content)), pageOf(content, anyPage(r, content))
			kept := slices.Clone(a)
			copy(a, b)
			copy(b, kept)
			return content
		},
	},
}

func pageOf(content []byte, n int) []byte { return content[(n-1)*pageSize : n*pageSize] }

// anyPage is a page but the first, without which a file is none of ours.
func anyPage(r *rand.Rand, content []byte) int { return 2 + r.IntN(len(content)/pageSize-1) }

// TestSalvage_ResultIsWhole judges the salvaged file and a salvage of that. SELVEDGE_SALVAGES=all
// goes over every page.
func TestSalvage_ResultIsWhole(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole.db")
	filled(t, whole, 1)
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	had := contentOf(t, whole)
	seed := seedOf(t)
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			all := f.rounds(len(content) / pageSize)
			rounds := rand.New(rand.NewPCG(seed, 1)).Perm(all)
			if os.Getenv("SELVEDGE_SALVAGES") != "all" {
				rounds = rounds[:2]
			}
			failed := 0
			for _, round := range rounds {
				r := rand.New(rand.NewPCG(seed, uint64(round)))
				ok := t.Run(fmt.Sprintf("round %d of seed %d", round, seed), func(t *testing.T) {
					judgeSalvage(t, f.damage(r, slices.Clone(content), round), had)
				})
				if !ok {
					failed++
				}
			}
			t.Logf("%d of %d rounds failed", failed, len(rounds))
		})
	}
}

func judgeSalvage(t *testing.T, damaged []byte, had map[string][]string) {
	dir := t.TempDir()
	from, first, second := filepath.Join(dir, "damaged.db"), filepath.Join(dir, "first.db"),
		filepath.Join(dir, "second.db")
	if err := os.WriteFile(from, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := maintenance.Salvage(t.Context(), from, first, maintenance.SalvageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range report.Problems {
		t.Errorf("the report: %s: %s", p.Check, p.Detail)
	}
	d, err := db.Open(t.Context(), first, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := maintenance.Check(t.Context(), d)
	if err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	for _, p := range x.Problems {
		t.Errorf("the check: %s: %s", p.Check, p.Detail)
	}
	for table, rows := range had {
		said := maintenance.SalvagedTable{Lost: new(int64)}
		for _, s := range report.Tables {
			if s.Table == table {
				said = s
			}
		}
		if table == "sqlite_sequence" || said.Lost == nil {
			continue
		}
		// What is aside may have been another table's.
		if most := int64(len(rows)) - *said.Lost; said.Taken > most || said.Taken+said.Aside < most {
			t.Errorf("%s had %d rows: %d were taken, %d are aside, and %d are said to be lost", table, len(rows),
				said.Taken, said.Aside, *said.Lost)
		}
	}
	again, err := maintenance.Salvage(t.Context(), first, second, maintenance.SalvageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if again.Damaged > 0 || len(again.Notes) > 0 || len(again.Problems) > 0 {
		t.Errorf("the second salvage: %+v", again)
	}
	for _, s := range again.Tables {
		if s.Lost == nil || *s.Lost > 0 || s.Aside > 0 || s.Suspect > 0 {
			t.Errorf("the second salvage: %+v", s)
		}
	}
	before, after := contentOf(t, first), contentOf(t, second)
	for table := range before {
		if !slices.Equal(before[table], after[table]) {
			t.Errorf("the second salvage changed %s: %s", table, difference(before[table], after[table]))
		}
	}
}

// contentOf gives the rows of every table as text.
func contentOf(t *testing.T, path string) map[string][]string {
	t.Helper()
	c, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // opened for reading only
	texts := func(query string) (list []string) {
		rows, err := c.QueryContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close() //nolint:errcheck // Err returns the error
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				t.Fatal(err)
			}
			list = append(list, text)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return list
	}
	content := map[string][]string{}
	for _, table := range texts(`SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
AND name NOT IN ('sqlite_schema', 'selvedge_file', 'goose_db_version')`) {
		var columns []string
		for _, name := range texts(`SELECT name FROM pragma_table_info('` + table + `')`) {
			columns = append(columns, `quote("`+name+`")`)
		}
		row := strings.Join(columns, " || ',' || ")
		content[table] = texts(`SELECT ` + row + ` FROM "` + table + `" ORDER BY 1`)
	}
	return content
}
