// Package migrations holds the schema: numbered goose SQL, in one folder per dialect, and the views
// and invariants, which are recreated whenever they change.
//
// Plain goose works on a folder (goose -dir migrations/sqlite sqlite3 FILE up), but the program
// does more: see package db.
package migrations

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

//go:embed sqlite postgres
var files embed.FS

// What each open needs is a string, which is not copied when it is read.
var (
	//go:embed sqlite/whole/schema.sql
	whole string
	//go:embed sqlite/whole/views.sha256
	viewsDigest string
	//go:embed postgres/objects.txt
	objects string
)

// A Step is a schema version: the lowest versions of programs that may read, and write, a file that
// has it, and what it does to existing rows. A program whose own version is lower leaves the file
// alone.
type Step struct {
	Version   int64
	MinReader int64
	MinWriter int64

	// Removes names the existing tables that the step drops, or from which it deletes rows.
	// Rewrites names those whose rows it changes or copies into a new table, and Adds those into
	// which it inserts rows. The rows of all other tables are counted before and after, and a step
	// that does more than it declares is undone. If a table that is removed or rewritten has rows,
	// the file is backed up before.
	Removes  []string
	Rewrites []string
	Adds     []string
}

// Steps is the ladder of schema versions, lowest first. A migration that changes what rows mean
// raises MinReader; one that adds something that a writer must maintain raises MinWriter. A
// migration that is not listed here is taken to leave older programs able to read the file, unable
// to write it, and with all of their rows unchanged. The rows are counted when it runs.
var Steps = withRest([]Step{
	{Version: 2, MinReader: 1, MinWriter: 1},
	{Version: 3, MinReader: 1, MinWriter: 1},
	{Version: 4, MinReader: 1, MinWriter: 1},
	{Version: 5, MinReader: 1, MinWriter: 1},
	{Version: 6, MinReader: 1, MinWriter: 1},
	{Version: 7, MinReader: 1, MinWriter: 1},
	{Version: 8, MinReader: 1, MinWriter: 1},
	{Version: 11, MinReader: 1, MinWriter: 11, Rewrites: []string{"live_runs"}},
	{Version: 12, MinReader: 1, MinWriter: 12, Rewrites: []string{"agents"}},
	{Version: 16, MinReader: 1, MinWriter: 16, Removes: []string{"run_limits"}},
	{Version: 17, MinReader: 1, MinWriter: 16},
	{Version: 19, MinReader: 1, MinWriter: 18, Rewrites: []string{"import_sources", "import_conflicts"}},
	{Version: 20, MinReader: 1, MinWriter: 18},
	{Version: 25, MinReader: 1, MinWriter: 25, Rewrites: []string{"checkpoints"}},
	{Version: 26, MinReader: 1, MinWriter: 25},
	{Version: 27, MinReader: 1, MinWriter: 25},
})

func withRest(named []Step) []Step {
	reader := named[len(named)-1].MinReader
	for _, name := range names("sqlite") {
		number, _, _ := strings.Cut(path.Base(name), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			panic(fmt.Sprintf("migrations: %s has no version: %v", name, err))
		}
		if !slices.ContainsFunc(named, func(s Step) bool { return s.Version == version }) {
			named = append(named, Step{Version: version, MinReader: reader, MinWriter: version})
		}
	}
	slices.SortFunc(named, func(a, b Step) int { return cmp.Compare(a.Version, b.Version) })
	return named
}

// ViewsBefore8 are the views of programs with a schema version below 8, which did not record the
// views that they created.
var ViewsBefore8 = columns(`v_agents v_agents_runs v_checkpoint_documents v_checkpoints v_imports
	v_live_events v_live_runs v_quarantine v_runs v_threads v_turns v_worker_diagnostics v_worker_events
	v_worker_runtimes v_worker_transcripts v_workers`)

// SQLite returns the folder of numbered migrations for SQLite.
func SQLite() fs.FS { return mustSub("sqlite") }

// Postgres returns the folder of numbered migrations for PostgreSQL. The first one is the schema of
// the version in its name. Each later one has the number and the name of the same step for SQLite.
func Postgres() fs.FS { return mustSub("postgres") }

// PostgresViews returns the script that creates all views on PostgreSQL, and the functions that
// they use. The views must be dropped before. The words for sums of usage are written out as in Views.
func PostgresViews() string {
	return concat("postgres/functions") + writtenOut(concat("postgres/views"), usageWords)
}

// PostgresChecks returns the invariants of the schema for PostgreSQL, by name.
func PostgresChecks() []Check { return checksIn("postgres/checks") }

// PostgresObjects returns the names of the indexes, triggers and foreign keys that the schema of the last
// step has on PostgreSQL.
func PostgresObjects() []string { return strings.Split(strings.TrimSpace(objects), "\n") }

// Whole returns the script that creates the schema of the last step, except its views, in an empty
// file. make generate creates it from the steps. It takes a tenth of their time, since SQLite reads
// the schema again for each ALTER TABLE.
func Whole() string { return whole }

// Views returns the script that creates all views, which must be dropped before. Some words in the
// files are not functions of SQLite: utc(x) stands for a time in Unix nanoseconds as text, doc(x)
// for a BLOB that should be JSON, and shown(x) for a text with U+FFFD for each NUL. counts_of(j) is
// the path of the object with the counts of record j. use_of_model() are columns of what record j, with
// that path as u, holds about the use of a model, and input_tokens_of(t) reads those of t. usageWords are
// those of v_usage.
func Views() string { return writtenOut(concat("sqlite/views"), sqliteWords()) }

// ViewsDigest returns the SHA-256 of Views, in hexadecimal. make generate writes it down: to write the
// views out takes longer than anything else in an open but SQLite's own work.
func ViewsDigest() string { return strings.TrimSpace(viewsDigest) }

// A Check is an invariant: a query that returns no row while the file is intact. Its first column
// describes the violation.
type Check struct {
	Name  string
	Query string
}

// Checks returns the invariants of the schema, by name.
func Checks() []Check { return checksIn("sqlite/checks") }

func checksIn(dir string) (list []Check) {
	for _, name := range names(dir) {
		list = append(list, Check{
			Name:  strings.TrimSuffix(path.Base(name), ".sql"),
			Query: read(name),
		})
	}
	return list
}

func mustSub(dir string) fs.FS {
	sub, err := fs.Sub(files, dir)
	if err != nil {
		panic(fmt.Sprintf("migrations: %s is not embedded: %v", dir, err))
	}
	return sub
}

func concat(dir string) string {
	var b strings.Builder
	for _, name := range names(dir) {
		b.WriteString(read(name))
		b.WriteByte('\n')
	}
	return b.String()
}

func names(dir string) []string {
	list, err := fs.Glob(files, dir+"/*.sql")
	if err != nil {
		panic(fmt.Sprintf("migrations: %v", err))
	}
	slices.Sort(list)
	return list
}

func read(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("migrations: %v", err))
	}
	return string(text)
}
