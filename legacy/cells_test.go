package legacy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/tree"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/test/replay"
)

// unseen are the columns that may be changed, with the checksum of their row set to NULL, without
// verify or check knowing. The page on damage lists them with the reasons.
var unseen = map[string]string{
	"selvedge_file.views_version": "nobody reads it",
	"selvedge_file.created_at":    "a time of this file",
	"selvedge_file.views":         "what the next open with another digest drops",
	"selvedge_file.views_digest":  "the next open makes the views anew",
	"selvedge_file.generation":    "drawn: cursors end with another one",
	"owners.*":                    "the processes that hold something, for as long as they do",
	"import_sources.first_at":     "the books: when",
	"import_sources.last_at":      "the books: when",
	"import_files.imported_at":    "the books: when",
	"import_files.state": "the books: whether the file that holds a thing, or another one, " +
		"brought it",
	"imports.*":                      "the journal: who, when, and what came of it then",
	"quarantine.found_at":            "the books: when",
	"checkpoints.saved_at":           "when the document came into this file",
	"checkpoints.claimed_at":         "when the claim came into this file",
	"worker_diagnostics.recorded_at": "when the import noted it",
	"retention.set_at":               "when the limits came into this file",
	"usage_records.id":               "nothing refers to it",
	"live_scopes.removed":            "how many live runs went: nothing else says it",
}

// treesOfAll makes a tree of each kind, with things that can't be read, and gives what the old
// programs were given.
func treesOfAll(t *testing.T) map[Kind]string {
	t.Helper()
	dirs := map[Kind]string{}
	for kind, below := range map[Kind]string{
		Runs: "", Agents: "heddle", Checkpoints: "", Workers: "store",
		Live: "small",
	} {
		trees, err := replay.Trees(string(kind))
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(trees, func(tree replay.Tree) bool { return tree.Name == string(kind)+"/small" })
		dirs[kind] = filepath.Join(unpackTree(t, trees[i]), below)
	}
	for kind, files := range damaged() {
		files.below(t, dirs[kind])
	}
	folder{"config.toml": "[runs]\nmax_per_agent = 7\n"}.below(t, dirs[Runs])
	one, err := os.ReadFile(filepath.Join(dirs[Live], "runs/session-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	folder{"runs/copy of session-1.json": string(one)}.below(t, dirs[Live])
	return dirs
}

// TestEveryChangedCellIsNoticed changes one cell at a time of what imports made, in every column of
// every table, as somebody does who sets the checksum of the row aside.
func TestEveryChangedCellIsNoticed(t *testing.T) {
	ctx, d := context.Background(), emptyFile(t)
	dirs := treesOfAll(t)
	c := &cells{t: t, d: d, derived: map[Kind]*tree.Derived{}, needed: map[string]bool{}, missed: unseen}
	for _, kind := range Kinds() {
		dir := dirs[kind]
		if _, err := Import(ctx, d, kind, dir, Options{}); err != nil {
			t.Fatal(err)
		}
		l, err := kind.layout()
		if err != nil {
			t.Fatal(err)
		}
		if c.derived[kind], err = tree.Derive(ctx, l, dir, Options{}, d.Path()); err != nil {
			t.Fatal(err)
		}
		defer c.derived[kind].Close() //nolint:errcheck // a writer to memory
	}
	if c.noticed("") {
		t.Fatal("something is noticed before anything is changed")
	}
	c.all()
	if c.changed < 233 {
		t.Errorf("only %d cells could be changed", c.changed)
	}
	c.onPage("verify or check")
}

// unchecked are the columns that check alone does not cover, though the checksum of the row stays. The
// page on damage says what they hold.
var unchecked = onPageOnly(
	"agents.changes",
	"agents.id",
	"agents.put_aside_at",
	"checkpoint_history.id",
	"checkpoints.changes",
	"checkpoints.claimed_at",
	"checkpoints.epoch",
	"checkpoints.lease_time_ns",
	"checkpoints.lease_wall_until",
	"checkpoints.owner_id",
	"imports.id",
	"leases.epoch",
	"live_imports.position",
	"live_imports.source",
	"live_runs.epoch",
	"live_runs.owner_id",
	"live_scopes.removed",
	"run_append_keys.run",
	"runs.epoch",
	"runs.owner_id",
	"runs.parent",
	"runs.ready_at",
	"selvedge_file.created_at",
	"selvedge_file.generation",
	"selvedge_file.views",
	"selvedge_file.views_digest",
	"selvedge_file.views_version",
	"usage_records.id",
)

func onPageOnly(columns ...string) map[string]string {
	list := map[string]string{}
	for _, column := range columns {
		list[column] = "the page says it"
	}
	return list
}

// TestCheck_CellsItMissesAreOnThePage changes a cell at a time of rows that keep their checksums, as a
// fault of the disk does.
func TestCheck_CellsItMissesAreOnThePage(t *testing.T) {
	ctx, d := context.Background(), emptyFile(t)
	for kind, dir := range treesOfAll(t) {
		if _, err := Import(ctx, d, kind, dir, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	hold(t, d)
	c := &cells{t: t, d: d, needed: map[string]bool{}, alone: true, missed: unchecked}
	if c.noticed("") {
		t.Fatal("something is noticed before anything is changed")
	}
	c.all()
	c.onPage("check")
}

// hold writes what imports don't: a reservation, a hold and a claim.
func hold(t *testing.T, d *db.DB) {
	t.Helper()
	ctx := context.Background()
	var failed []error
	_, err := d.Reserve(ctx, "kind", "name", db.ReserveOptions{
		LeaseTerms: db.LeaseTerms{TTL: time.Hour}, Note: "note",
	})
	failed = append(failed, err)
	store := runs.NewStore(d, runs.Options{})
	_, err = store.Begin(ctx, runs.Started{RunID: "held", AgentID: "a", Intent: "i"}, runs.BeginOptions{})
	failed = append(failed, err)
	paused := checkpoints.NewStore(d, checkpoints.Options{})
	for _, id := range []string{"claimed", "waits"} {
		failed = append(failed, paused.Save(ctx, &checkpoints.PausedWorkflow{RunID: id, PausedStageID: "s"}))
	}
	_, _, err = paused.Claim(ctx, "claimed")
	failed = append(failed, err)
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
}

type cells struct {
	t       *testing.T
	d       *db.DB
	derived map[Kind]*tree.Derived
	changed int
	needed  map[string]bool
	alone   bool              // check alone is asked, and checksums stay
	missed  map[string]string // the columns that may be changed unnoticed
}

// all changes every table.
func (c *cells) all() {
	for _, table := range selected[string](c.t, c.d,
		`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT LIKE 'goose%'
			ORDER BY name`) {
		c.table(table)
	}
}

// onPage compares what was missed with the tables of the page.
func (c *cells) onPage(what string) {
	page, err := os.ReadFile("../docs/damage.md")
	if err != nil {
		c.t.Fatal(err)
	}
	for column := range c.missed {
		if !strings.Contains(string(page), "`"+column+"`") {
			c.t.Errorf("docs/damage.md does not name `%s`", column)
		}
		if !c.needed[column] {
			c.t.Errorf("%s notices a change of %s: it needs no reason", what, column)
		}
	}
	c.t.Logf("%d cells changed", c.changed)
}

func selected[T any](t *testing.T, d *db.DB, query string, args ...any) (list []T) {
	t.Helper()
	err := d.Read(context.Background(), "look", func(rx *db.Rx) error {
		list = nil
		return rx.Select(&list, query, args...)
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

type columnInfo struct {
	Name string `db:"name"`
	Type string `db:"type"`
	PK   int    `db:"pk"`
}

func (c *cells) table(table string) {
	columns := selected[columnInfo](c.t, c.d, `SELECT name, type, pk FROM pragma_table_info(?)`, table)
	words := literal.FindAllStringSubmatch(selected[string](c.t, c.d,
		`SELECT sql FROM sqlite_schema WHERE name = ?`, table)[0], -1)
	rows := c.rows(table, columns)
	// What an import keeps of its sources means something else in each kind of tree.
	of := slices.IndexFunc(columns, func(c columnInfo) bool { return c.Name == "source" })
	kinds := map[any][][]any{}
	for _, row := range rows {
		var source any
		if of >= 0 {
			source = row[of]
		}
		kinds[source] = append(kinds[source], row)
	}
	for i, column := range columns {
		for _, rows := range kinds {
			row := slices.IndexFunc(rows, func(row []any) bool { return row[i] != nil })
			c.cell(table, columns, rows[max(row, 0)], i, others(rows[max(row, 0)][i], column.Type, words))
		}
	}
}

var literal = regexp.MustCompile(`'([a-z_]+)'`)

// others are values that a column may take in place of one, the likeliest first.
func others(was any, kind string, words [][]string) (list []any) {
	switch was := was.(type) {
	case int64:
		return []any{was + 1, was - 1, nil, was + 1000}
	case float64:
		return []any{was + 1}
	case []byte:
		other := slices.Clone(was)
		if len(other) > 0 {
			other[len(other)-1] ^= 1
		}
		return []any{other, append(other, 'x'), nil}
	case string:
		list = append(list, was+"x")
		for _, word := range words {
			if word[1] != was {
				list = append(list, word[1])
			}
		}
		return append(list, nil)
	}
	switch kind {
	case "TEXT":
		return []any{"zz", "{}"}
	case "BLOB":
		return []any{[]byte("zz")}
	}
	return []any{int64(1), int64(0), 1.5}
}

func (c *cells) rows(table string, columns []columnInfo) (rows [][]any) {
	err := c.d.Read(context.Background(), "look", func(rx *db.Rx) error {
		rows = nil
		for r, err := range rx.Query(`SELECT * FROM "` + table + `"`) {
			if err != nil {
				return err
			}
			row, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range row {
				into[i] = &row[i]
			}
			if err := r.Scan(into...); err != nil {
				return err
			}
			rows = append(rows, row)
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return rows
}

// cell changes a cell to the first of the values that its table takes, and puts it back.
func (c *cells) cell(table string, columns []columnInfo, row []any, at int, values []any) {
	c.t.Helper()
	name := table + "." + columns[at].Name
	for _, value := range values {
		set := map[int]any{at: value}
		for i, column := range columns {
			if !c.alone && strings.HasSuffix(column.Name, "checksum") && i != at &&
				(table != "checkpoints" || column.Name == "row_checksum") {
				set[i] = nil
			}
		}
		if c.update(table, columns, row, set) != nil {
			continue
		}
		c.changed++
		if !c.noticed(table) {
			why := c.missed[name]
			if why == "" && c.missed[table+".*"] != "" {
				name = table + ".*"
				why = c.missed[name]
			}
			c.needed[name] = true
			if why == "" {
				c.t.Errorf("nobody noticed that %s.%s is %.80q in place of %.80q", table, columns[at].Name,
					fmt.Sprint(value), fmt.Sprint(row[at]))
			}
		}
		back, now := map[int]any{}, slices.Clone(row)
		for i, v := range set {
			back[i], now[i] = row[i], v
		}
		if err := c.update(table, columns, now, back); err != nil {
			c.t.Fatalf("%s can't be put back: %v", name, err)
		}
		return
	}
}

// update sets columns of the row that the key of row names.
func (c *cells) update(table string, columns []columnInfo, row []any, set map[int]any) error {
	var assign, where []string
	var args, key []any
	for _, i := range slices.Sorted(maps.Keys(set)) {
		assign, args = append(assign, `"`+columns[i].Name+`" = ?`), append(args, set[i])
	}
	for i, column := range columns {
		if column.PK > 0 {
			where, key = append(where, `"`+column.Name+`" IS ?`), append(key, row[i])
		}
	}
	return c.d.Write(context.Background(), "change a cell", func(tx *db.Tx) error {
		n, err := tx.Exec(fmt.Sprintf(`UPDATE "%s" SET %s WHERE %s`, table, strings.Join(assign, ", "),
			strings.Join(where, " AND ")), append(args, key...)...)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d rows", n)
		}
		return err
	})
}

// noticed asks first the kinds that the table is likely to belong to.
func (c *cells) noticed(table string) bool {
	kinds := Kinds()
	for kind, prefix := range map[Kind]string{
		Runs: "run", Agents: "agent", Checkpoints: "checkpoint",
		Workers: "worker", Live: "live",
	} {
		if strings.HasPrefix(table, prefix) {
			kinds = []Kind{kind}
		}
	}
	if c.alone {
		kinds = nil
	}
	for _, kind := range kinds {
		report, err := c.derived[kind].Compare(context.Background(), c.d)
		if errors.Is(err, db.ErrCorrupt) || err == nil && len(report.Differs) > 0 {
			if table == "" {
				c.t.Errorf("%s: %+v, %v", kind, report.Differs, err)
			}
			return true
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
	x, err := maintenance.Examine(context.Background(), c.d)
	if err != nil {
		c.t.Fatal(err)
	}
	return len(x.Problems) > 0
}
