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
// they use. The views must be dropped before.
func PostgresViews() string { return concat("postgres/functions") + concat("postgres/views") }

// PostgresChecks returns the invariants of the schema for PostgreSQL, by name.
func PostgresChecks() []Check { return checksIn("postgres/checks") }

// Whole returns the script that creates the schema of the last step, except its views, in an empty
// file. make generate creates it from the steps. It takes a tenth of their time, since SQLite reads
// the schema again for each ALTER TABLE.
func Whole() string { return concat("sqlite/whole") }

// Views returns the script that creates all views, which must be dropped before. Some words in the
// files are not functions of SQLite: utc(x) stands for a time in Unix nanoseconds as text, doc(x)
// for a BLOB that should be JSON, and shown(x) for a text with U+FFFD for each NUL. counts_of(j) is
// the path of the object with the counts of record j. The other words in _of take a row with the
// record as j and that path as u, and read what the record holds about the use of a model.
func Views() string { return writtenOut(concat("sqlite/views")) }

// viewWords maps each of these words to its SQL; ? is what stands in the parentheses.
var viewWords = map[string]string{
	// RFC 3339 in UTC, always with nine digits of fraction, so that times sort as text. In SQL the
	// remainder of a negative number is negative.
	"utc(": `strftime('%Y-%m-%dT%H:%M:%S', ? / 1000000000 - (? % 1000000000 < 0), 'unixepoch') || ` +
		`printf('.%09dZ', (? % 1000000000 + 1000000000) % 1000000000)`,
	// Programs that read a text as C does end it at a NUL, and replace() finds none. In JSON a NUL
	// is \u0000, which no other text is once backslashes are replaced by another character.
	"shown(": `CASE WHEN instr(?, char(0)) THEN replace(json_extract(replace(json_quote(replace(?, '\', ` +
		`char(65534))), '\u0000', char(65533)), '$'), char(65534), '\') ELSE ? END`,
	// A text that is not JSON, as damage leaves some, must not end a query over all rows.
	"doc(": `CASE WHEN json_valid(CAST(? AS TEXT)) THEN CAST(? AS TEXT) END`,

	// Versions and providers name the counts in several ways. Package usage reads the same in Go.
	"counts_of(": `CASE WHEN json_type(?, '$.token_usage') = 'object' THEN '$.token_usage' ` +
		`WHEN json_type(?, '$.usage') = 'object' THEN '$.usage' ELSE '$.usageMetadata' END`,
	"provider_of(": `coalesce(json_extract(?.j, '$.provider'), json_extract(?.j, '$.meta.provider'))`,
	"request_model_of(": `coalesce(json_extract(?.j, '$.request_model'), ` +
		`json_extract(?.j, '$.meta.request_model'))`,
	"response_model_of(": `coalesce(json_extract(?.j, '$.response_model'), json_extract(?.j, '$.model_id'), ` +
		`json_extract(?.j, '$.meta.response_model'), json_extract(?.j, '$.model'))`,
	// Some records count cached tokens apart from the input tokens, and some among them. The total
	// shows which. Anthropic's counts have no total, and are apart.
	"input_tokens_of(": `CASE WHEN json_extract(?.j, ?.u || '.total_tokens') - output_tokens_of(?) - ` +
		`prompt_tokens_of(?) = coalesce(cache_read_of(?), 0) + coalesce(cache_write_of(?), 0) THEN ` +
		`json_extract(?.j, ?.u || '.total_tokens') - output_tokens_of(?) ` +
		`WHEN json_extract(?.j, ?.u || '.total_tokens') IS NULL AND json_extract(?.j, ?.u || '.input_tokens') ` +
		`+ json_extract(?.j, ?.u || '.cache_creation_input_tokens') IS NOT NULL THEN ` +
		`prompt_tokens_of(?) + coalesce(cache_read_of(?), 0) + coalesce(cache_write_of(?), 0) ` +
		`ELSE prompt_tokens_of(?) END`,
	"prompt_tokens_of(": `coalesce(json_extract(?.j, ?.u || '.input_tokens'), ` +
		`json_extract(?.j, ?.u || '.prompt_tokens'), json_extract(?.j, ?.u || '.promptTokenCount') + ` +
		`coalesce(json_extract(?.j, ?.u || '.toolUsePromptTokenCount'), 0))`,
	"cache_read_of(": `coalesce(json_extract(?.j, ?.u || '.cache_read_input_tokens'), ` +
		`json_extract(?.j, ?.u || '.cache_read_tokens'), ` +
		`json_extract(?.j, ?.u || '.prompt_tokens_details.cached_tokens'), ` +
		`json_extract(?.j, ?.u || '.input_tokens_details.cached_tokens'), ` +
		`json_extract(?.j, ?.u || '.cachedContentTokenCount'))`,
	"cache_write_of(": `coalesce(json_extract(?.j, ?.u || '.cache_write_input_tokens'), ` +
		`json_extract(?.j, ?.u || '.cache_creation_input_tokens'), ` +
		`json_extract(?.j, ?.u || '.cache_write_tokens'))`,
	"output_tokens_of(": `coalesce(json_extract(?.j, ?.u || '.output_tokens'), ` +
		`json_extract(?.j, ?.u || '.completion_tokens'), json_extract(?.j, ?.u || '.candidatesTokenCount') + ` +
		`coalesce(json_extract(?.j, ?.u || '.thoughtsTokenCount'), 0), ` +
		`json_extract(?.j, ?.u || '.thoughtsTokenCount'))`,
	"reasoning_of(": `coalesce(json_extract(?.j, ?.u || '.reasoning_output_tokens'), ` +
		`json_extract(?.j, ?.u || '.reasoning_tokens'), ` +
		`json_extract(?.j, ?.u || '.completion_tokens_details.reasoning_tokens'), ` +
		`json_extract(?.j, ?.u || '.output_tokens_details.reasoning_tokens'), ` +
		`json_extract(?.j, ?.u || '.thoughtsTokenCount'))`,
	"cost_of(": `coalesce(json_extract(?.j, '$.cost_usd'), json_extract(?.j, ?.u || '.cost_usd'))`,
}

func writtenOut(script string) string {
	var out strings.Builder
	for {
		paren := strings.IndexByte(script, '(')
		if paren < 0 {
			out.WriteString(script)
			return out.String()
		}
		inside := paren + 1
		word := 1 + strings.LastIndexFunc(script[:paren], func(c rune) bool {
			return c != '_' && (c < 'a' || c > 'z')
		})
		sql, known := viewWords[script[word:inside]]
		if !known {
			out.WriteString(script[:inside])
			script = script[inside:]
			continue
		}
		out.WriteString(script[:word])
		end := inside
		for depth := 1; depth > 0; end++ {
			switch script[end] {
			case '(':
				depth++
			case ')':
				depth--
			}
		}
		out.WriteString(writtenOut(strings.ReplaceAll(sql, "?", script[inside:end-1])))
		script = script[end:]
	}
}

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
