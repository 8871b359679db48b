package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"selvedge/db"
	"selvedge/internal/engine"
	"selvedge/internal/stores"
)

// nearest returns the name most like a mistyped word; "" if none is close.
func nearest(word string, names []string) (found string) {
	most := max(1, len(word)/3)
	for _, name := range names {
		if n := edits(word, name); n <= most {
			found, most = name, n-1
		}
	}
	if found != "" {
		return found
	}
	for _, name := range names { // the word is the beginning of one name
		if len(word) > 2 && strings.HasPrefix(name, word) {
			if found != "" {
				return ""
			}
			found = name
		}
	}
	return found
}

// edits returns the Damerau-Levenshtein distance of two words, ignoring case.
func edits(a, b string) int {
	x, y := []rune(strings.ToLower(a)), []rune(strings.ToLower(b))
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := range x {
		for j := range y {
			same := 1
			if x[i] == y[j] {
				same = 0
			}
			rows[i+1][j+1] = min(rows[i][j+1]+1, rows[i+1][j]+1, rows[i][j]+same)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				rows[i+1][j+1] = min(rows[i+1][j+1], rows[i-1][j-1]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}

// shellLine returns a command line with these words, without secrets.
func (a *app) shellLine(words []string) string {
	return strings.Join(append([]string{"migrate"},
		each(words, func(word string) string { return shellWord(a.withoutSecrets(word)) })...), " ")
}

// typed returns the command line as it was given, with more words.
func (a *app) typed(more ...string) string { return a.shellLine(slices.Concat(a.args, more)) }

// longer returns the command line as it was given, with ten times the duration of a flag.
func (a *app) longer(flag string, than time.Duration) string {
	var words []string
	for i := 0; i < len(a.args); i++ {
		if a.args[i] == flag {
			i++ // its value
		} else if !strings.HasPrefix(a.args[i], flag+"=") {
			words = append(words, a.args[i])
		}
	}
	return a.shellLine(append(words, flag, (10 * than).String()))
}

// retyped returns the command line as it was given with one word replaced; "" if the word is not in
// it. word=value keeps its value.
func (a *app) retyped(word, other string) string {
	is := func(arg string) bool { return arg == word || strings.HasPrefix(arg, word+"=") }
	at := slices.IndexFunc(a.args, is)
	if at < 0 {
		return ""
	}
	words := slices.Clone(a.args)
	words[at] = other + strings.TrimPrefix(words[at], word)
	return a.shellLine(words)
}

// flagHint returns the hint for a flag that can't be parsed.
func (a *app) flagHint(c *cobra.Command, err *pflag.NotExistError) string {
	help := "see: " + c.CommandPath() + " --help"
	if err != nil && err.GetSpecifiedName() == "yes" && c.Flags().Lookup("apply") != nil {
		return "leave --yes out: --apply is a yes"
	}
	if err == nil || err.GetSpecifiedShortnames() != "" {
		return help
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	near := nearest(err.GetSpecifiedName(), names)
	if near == "" {
		return help
	}
	if line := a.retyped("--"+err.GetSpecifiedName(), "--"+near); line != "" {
		return "did you mean: " + line
	}
	return help
}

// nameHint returns the hint for SQL that names a missing table or column: the statement with the
// nearest existing name.
func (a *app) nameHint(ctx context.Context, d *db.DB, sql string, err error) string {
	wrong, _ := engine.BlamesStatement(err)
	word := cmp.Or(wrong.Table, wrong.Column)
	if word == "" {
		return ""
	}
	relations, readErr := stores.Get(ctx, d.Read, "names",
		func(rx *db.Rx) ([]engine.Relation, error) { return rx.Store().Relations() })
	if readErr != nil {
		return ""
	}
	var names []string
	all := d.Store().Engine.Catalog("")
	for _, r := range relations {
		switch {
		case wrong.Table != "":
			names = append(names, r.Name)
		case slices.ContainsFunc(words(sql), func(w string) bool { return strings.EqualFold(w, r.Name) }):
			if names == nil {
				all = d.Store().Engine.Catalog(r.Name)
			}
			names = append(names, r.Columns...)
		}
	}
	if near := nearest(word, names); near != "" {
		better := regexp.MustCompile(`\b`+word+`\b`).ReplaceAllLiteralString(sql, near)
		if line := a.retyped(sql, better); line != "" {
			return "did you mean: " + line
		}
	}
	return "see what there is: migrate query " + shellWord(all)
}

var sqlWord = regexp.MustCompile(`\w+`)

func words(sql string) []string { return sqlWord.FindAllString(sql, -1) }

// nothingListed adds a note to an empty list: on a terminal, and anywhere if nothing was ever
// written to the scope.
func (a *app) nothingListed(ctx context.Context, d *db.DB) {
	note := ""
	if a.screen.terminal {
		note = "note: nothing is there, or passes"
	}
	if a.scope != "" {
		scopes, err := scopeNames(ctx, d, "name")
		if err == nil && !slices.Contains(scopes, a.scope) {
			note = fmt.Sprintf("note: nothing was written to the scope %q; see: %s", a.scope,
				(&app{path: a.path}).commandLine("scopes", "list"))
			if near := nearest(a.scope, scopes); near != "" {
				line := a.retyped("--scope="+a.scope, "--scope="+near)
				// The name may stand elsewhere in the line too.
				if i := slices.Index(a.args, "--scope"); i >= 0 && i+1 < len(a.args) {
					words := slices.Clone(a.args)
					words[i+1] = near
					line = a.shellLine(words)
				}
				if line == "" {
					line = (&app{path: a.path, scope: near}).commandLine(strings.Fields(a.op())...)
				}
				note = fmt.Sprintf("note: nothing was written to the scope %q; did you mean: %s", a.scope, line)
			}
		}
	}
	if note != "" {
		a.noteBelow("%s", note)
	}
}

// scopeNames returns the scopes of a file, ordered by id or by name.
func scopeNames(ctx context.Context, d *db.DB, order string) (names []string, err error) {
	err = d.Read(ctx, "scopes", func(rx *db.Rx) error {
		return rx.Select(&names, `SELECT name FROM scopes ORDER BY `+order)
	})
	return names, err
}
