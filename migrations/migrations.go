// Package migrations holds the schema: numbered goose SQL, one folder a dialect, and what is remade
// whenever it changes: the views and the invariants.
//
// Plain goose works on a folder (goose -dir migrations/sqlite sqlite3 FILE up), but the program
// does more: see package db.
package migrations

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed sqlite postgres
var files embed.FS

// A Step is a schema version, the lowest versions of programs that may read, and write, a file
// which has it, and what it does to rows that are there. A program whose own version is lower
// leaves the file alone.
type Step struct {
	Version   int64
	MinReader int64
	MinWriter int64

	// Removes names the tables from before that it drops, or takes rows out of. Rewrites names those
	// whose rows it changes or copies into a new table, and Adds those that it puts rows into. The
	// rows of all other tables are counted before and after, and a step that does more than it says is
	// undone. Where a table that is removed or rewritten has rows, the file is backed up before.
	Removes  []string
	Rewrites []string
	Adds     []string
}

// Steps is the ladder of schema versions, lowest first. A migration that changes what rows mean
// raises MinReader; one that adds what a writer must keep up raises MinWriter. Of a file that is
// not named here it is taken that programs from before can read what it makes, can't write it, and
// find all of their rows as they were: that is counted when it runs.
var Steps = withRest([]Step{
	{Version: 1, MinReader: 1, MinWriter: 1},
	{Version: 2, MinReader: 1, MinWriter: 1},
	{Version: 3, MinReader: 1, MinWriter: 1},
	{Version: 4, MinReader: 1, MinWriter: 1},
	{Version: 5, MinReader: 1, MinWriter: 1},
	{Version: 6, MinReader: 1, MinWriter: 1},
	{Version: 7, MinReader: 1, MinWriter: 1},
	{Version: 8, MinReader: 1, MinWriter: 1},
	{Version: 9, MinReader: 1, MinWriter: 9},
	{Version: 10, MinReader: 1, MinWriter: 10},
	{Version: 11, MinReader: 1, MinWriter: 11, Rewrites: []string{"live_runs"}},
	{Version: 12, MinReader: 1, MinWriter: 12, Rewrites: []string{"agents"}},
	{Version: 13, MinReader: 1, MinWriter: 13},
	{Version: 14, MinReader: 1, MinWriter: 14},
	{Version: 15, MinReader: 1, MinWriter: 15},
	{Version: 16, MinReader: 1, MinWriter: 16, Removes: []string{"run_limits"}},
	{Version: 17, MinReader: 1, MinWriter: 16},
	{Version: 19, MinReader: 1, MinWriter: 18, Rewrites: []string{"import_sources", "import_conflicts"}},
	{Version: 20, MinReader: 1, MinWriter: 18},
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

// ViewsBefore8 are the views of programs with a schema version below 8, which did not write down
// what they had made.
var ViewsBefore8 = columns(`v_agents v_agents_runs v_checkpoint_documents v_checkpoints v_imports
	v_live_events v_live_runs v_quarantine v_runs v_threads v_turns v_worker_diagnostics v_worker_events
	v_worker_runtimes v_worker_transcripts v_workers`)

// SQLite is the folder of numbered migrations for SQLite.
func SQLite() fs.FS { return mustSub("sqlite") }

// Postgres is the folder of numbered migrations for PostgreSQL. Its first one is the schema of the
// version it is named by, and each step since has the number and the name that it has for SQLite.
func Postgres() fs.FS { return mustSub("postgres") }

// PostgresViews is the script that makes all views on PostgreSQL, which must be dropped before, and
// the functions that they use.
func PostgresViews() string { return concat("postgres/functions") + concat("postgres/views") }

// PostgresChecks are Checks for PostgreSQL.
func PostgresChecks() []Check { return checksIn("postgres/checks") }

// Whole is the script that makes the schema of the last step, but for its views, in an empty file.
// make generate makes it from the steps, and it takes a tenth of their time: SQLite reads the
// schema again for each ALTER TABLE.
func Whole() string { return concat("sqlite/whole") }

// Views is the script that makes all views, which must be dropped before. Some words in the files
// are no functions of SQLite: utc(x) stands for the text of a time in Unix nanoseconds, doc(x) for
// a BLOB that should be JSON, and shown(x) for a text with U+FFFD for each NUL. counts_of(j) is the
// path of the object with the counts of record j. The other words in _of take a row with the record
// as j and that path as u, and read what the record says of the use of a model.
func Views() string { return writtenOut(concat("sqlite/views")) }

// viewWords are the texts behind those words; ? is what stands in the parentheses.
var viewWords = map[string]string{
	// RFC 3339 in UTC, always with nine digits of fraction, so that times sort as text. What remains
	// of a negative number is negative in SQL.
	"utc(": `strftime('%Y-%m-%dT%H:%M:%S', ? / 1000000000 - (? % 1000000000 < 0), 'unixepoch') || ` +
		`printf('.%09dZ', (? % 1000000000 + 1000000000) % 1000000000)`,
	// A text up to its end: what reads a text as C does ends at NUL, and replace() finds none. As JSON
	// it is \u0000, which no other text is while backslashes are something else.
	"shown(": `CASE WHEN instr(?, char(0)) THEN replace(json_extract(replace(json_quote(replace(?, '\', ` +
		`char(65534))), '\u0000', char(65533)), '$'), char(65534), '\') ELSE ? END`,
	// One text that is no JSON, as damage makes them, must not be the end of a query over all.
	"doc(": `CASE WHEN json_valid(CAST(? AS TEXT)) THEN CAST(? AS TEXT) END`,

	// Versions spell what they count in several ways. Package usage reads the same in Go.
	"counts_of(": `CASE WHEN json_type(?, '$.token_usage') = 'object' THEN '$.token_usage' ` +
		`ELSE '$.usage' END`,
	"provider_of(": `coalesce(json_extract(?.j, '$.provider'), json_extract(?.j, '$.meta.provider'))`,
	"request_model_of(": `coalesce(json_extract(?.j, '$.request_model'), ` +
		`json_extract(?.j, '$.meta.request_model'))`,
	"response_model_of(": `coalesce(json_extract(?.j, '$.response_model'), json_extract(?.j, '$.model_id'), ` +
		`json_extract(?.j, '$.meta.response_model'))`,
	// Some records count cached tokens apart from the rest, and some within: the total tells.
	"input_tokens_of(": `CASE WHEN json_extract(?.j, ?.u || '.total_tokens') - output_tokens_of(?) - ` +
		`prompt_tokens_of(?) = coalesce(cache_read_of(?), 0) + coalesce(cache_write_of(?), 0) THEN ` +
		`json_extract(?.j, ?.u || '.total_tokens') - output_tokens_of(?) ELSE prompt_tokens_of(?) END`,
	"prompt_tokens_of(": `coalesce(json_extract(?.j, ?.u || '.input_tokens'), json_extract(?.j, ?.u || ` +
		`'.prompt_tokens'))`,
	"cache_read_of(": `coalesce(json_extract(?.j, ?.u || '.cache_read_input_tokens'), ` +
		`json_extract(?.j, ?.u || '.cache_read_tokens'))`,
	"cache_write_of(": `coalesce(json_extract(?.j, ?.u || '.cache_write_input_tokens'), ` +
		`json_extract(?.j, ?.u || '.cache_creation_input_tokens'), ` +
		`json_extract(?.j, ?.u || '.cache_write_tokens'))`,
	"output_tokens_of(": `coalesce(json_extract(?.j, ?.u || '.output_tokens'), json_extract(?.j, ?.u || ` +
		`'.completion_tokens'))`,
	"reasoning_of(": `coalesce(json_extract(?.j, ?.u || '.reasoning_output_tokens'), json_extract(?.j, ?.u || ` +
		`'.reasoning_tokens'))`,
	"cost_of(": `coalesce(json_extract(?.j, '$.cost_usd'), json_extract(?.j, ?.u || '.cost_usd'))`,
}

var viewWord = regexp.MustCompile(`\b(?:` +
	strings.ReplaceAll(strings.Join(slices.Collect(maps.Keys(viewWords)), "|"), "(", `\(`) + `)`)

func writtenOut(script string) string {
	var out strings.Builder
	for {
		at := viewWord.FindStringIndex(script)
		if at == nil {
			out.WriteString(script)
			return out.String()
		}
		out.WriteString(script[:at[0]])
		inside, depth := at[1], 1
		end := inside
		for ; depth > 0; end++ {
			switch script[end] {
			case '(':
				depth++
			case ')':
				depth--
			}
		}
		out.WriteString(writtenOut(strings.ReplaceAll(viewWords[script[at[0]:inside]], "?", script[inside:end-1])))
		script = script[end:]
	}
}

// A Check is an invariant: a query that gives no row while the file is whole. Its first column
// describes the violation.
type Check struct {
	Name  string
	Query string
}

// Checks are the invariants of the schema, by name.
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
