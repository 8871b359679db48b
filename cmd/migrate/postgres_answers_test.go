//go:build postgres

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/internal/engine"
	"selvedge/legacy"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
)

// moving is what differs between two imports of one folder, and between a file and a server: times
// of the import, where the database is, and cursors.
var moving = regexp.MustCompile(`"(next|found_at|began_at|ended_at|imported_at|retried_at|` +
	`set_at|saved_at|claimed_at|since|path|program)":("([^"\\]|\\.)*"|null)|` +
	`"(before|after)":\{"file_bytes[^}]*\}`)

// Columns of views that differ so: how long something takes until now, and of imports their own times.
var (
	passing   = regexp.MustCompile(`^(silent|held|paused|claimed|waiting)_seconds$`)
	ofImports = regexp.MustCompile(`^v_(imports|quarantine|import_conflicts|` +
		`checkpoints|waiting|approvals|worker_diagnostics)$`)
	importTimes = regexp.MustCompile(`^(saved|answered|claimed|found|began|` +
		`ended|imported|retried|decided|recorded)_at|` +
		`^(took|seconds|pid|program|waiting_since|waited)`)
)

// shownOfEach is how many things of a list are shown one by one, evenly over it; the exports have all.
const shownOfEach = 4

// TestPostgresAnswersWhatTheFileAnswers imports every recorded tree into a file and into a server,
// and compares all that the program says of them, byte for byte: lists, shows, verify, what an
// import says the second time, exports as folders, and the views.
func TestPostgresAnswersWhatTheFileAnswers(t *testing.T) {
	server := dbtest.Postgres(t)
	for _, kind := range legacy.Kinds() {
		trees, err := replay.Trees(string(kind))
		if err != nil || len(trees) == 0 {
			t.Fatalf("no trees: %v", err)
		}
		for _, tree := range trees {
			t.Run(tree.Name, func(t *testing.T) {
				dir := t.TempDir()
				if err := tree.Unpack(dir); err != nil {
					t.Fatal(err)
				}
				found, err := legacy.Recognise(dir, legacy.Options{})
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range found {
					if f.Kind == kind {
						dir = f.Dir
					}
				}
				p := &pair{
					t: t, file: dbtest.Path(t),
					server: server + "&search_path=" + strings.NewReplacer("/", "_", "-", "_", ".", "_").Replace(tree.Name),
				}
				p.compare(kind, dir)
			})
		}
	}
}

// A pair is a file and a schema of a server in which the same should be.
type pair struct {
	t            *testing.T
	file, server string
}

// same runs a command on both and gives the answer of the file.
func (p *pair) same(args ...string) string {
	p.t.Helper()
	exit, stdout, stderr := call(p.t, append([]string{"--db", p.file}, args...)...)
	onServer, answered, said := call(p.t, append([]string{"--db", p.server}, args...)...)
	if exit != onServer {
		p.t.Errorf("%v: exit %d, and %d on the server: %s%s", args, exit, onServer, stderr, said)
	}
	if want, got := p.still(stdout), p.still(answered); got != want {
		i := 0
		for i < min(len(want), len(got)) && want[i] == got[i] {
			i++
		}
		p.t.Errorf("%v: byte %d of the answer is another:\n%.400s\n%.400s", args, i, want[max(0, i-100):],
			got[max(0, i-100):])
	}
	return stdout
}

func (p *pair) still(text string) string {
	text = strings.ReplaceAll(text, p.file, "DB")
	text = regexp.MustCompile(`postgres://[^ ;"]*`).ReplaceAllString(text, "DB")
	return moving.ReplaceAllString(text, `"$1$4":MOVING`)
}

func (p *pair) compare(kind legacy.Kind, dir string) {
	word := string(kind)
	for _, path := range []string{p.file, p.server} {
		if exit, _, stderr := call(p.t, "--db", path, "up"); exit != 0 {
			p.t.Fatal(stderr)
		}
	}
	p.same("import", word, dir, "--json")
	p.same("import", word, dir, "--json") // it adds nothing
	p.same("verify", word, dir, "--json")
	p.same("quarantine", "list", "--all", "--json")
	p.same("imports", "conflicts", "--all", "--json")
	p.same("retention", "show", "--json")
	p.same("gc", "--json")
	p.same("check", "--deep", "--json")
	for _, filter := range [][]string{{"--all"}, {"--limit", "3", "--page", "2"}} {
		p.same(append([]string{word, "list", "--json"}, filter...)...)
	}
	if kind == "checkpoints" {
		p.same(word, "list", "--json", "--all", "--status", "claimed")
	}
	p.show(word)
	p.export(word)
	p.views()
}

// show compares some things of the list.
func (p *pair) show(word string) {
	args := []string{word, "list", "--json", "--all"}
	if word == "workers" {
		args = append(args, "--columns", "worker,runtime")
	}
	_, stdout, stderr := call(p.t, append([]string{"--db", p.file}, args[:4]...)...)
	var list struct {
		Items []map[string]any `json:"items"`
	}
	if err := json.Unmarshal([]byte(stdout), &list); err != nil {
		p.t.Fatalf("%v\n%s", err, stderr)
	}
	step := max(1, len(list.Items)/shownOfEach)
	for i := 0; i < len(list.Items); i += step {
		item := list.Items[i]
		text := func(name string) string { s, _ := item[name].(string); return s }
		switch word {
		case "runs":
			p.same("runs", "show", text("run_id"), "--agent", text("agent_id"), "--json")
		case "agents":
			p.same("agents", "show", text("session_id"), "--json")
		case "checkpoints", "live":
			p.same(word, "show", text("run_id"), "--json")
		case "workers":
			id := text("worker_id")
			if ref, ok := item["worker_ref"].(map[string]any); ok {
				id, _ = ref["worker_id"].(string)
			}
			p.same("workers", "show", id, "--json")
		}
	}
}

// export compares what both leave behind, file by file.
func (p *pair) export(word string) {
	files := map[string]map[string]string{}
	at := p.t.TempDir()
	for _, path := range []string{p.file, p.server} {
		out := filepath.Join(at, "out")
		exit, _, stderr := call(p.t, "--db", path, "export", word, out, "--json")
		if exit != 0 && exit != 3 {
			p.t.Fatalf("export: exit %d: %s", exit, stderr)
		}
		files[path] = map[string]string{}
		err := filepath.WalkDir(out, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			content, err := os.ReadFile(name)
			files[path][name] = string(content)
			return err
		})
		if err != nil {
			p.t.Fatal(err)
		}
		if err := os.RemoveAll(out); err != nil {
			p.t.Fatal(err)
		}
	}
	if !maps.Equal(files[p.file], files[p.server]) {
		for _, name := range slices.Sorted(maps.Keys(files[p.file])) {
			if files[p.file][name] != files[p.server][name] {
				p.t.Errorf("the exported file %s is another", name)
			}
		}
		p.t.Errorf("%d files were exported, and from the server %d", len(files[p.file]), len(files[p.server]))
	}
}

// views compares all rows of all views.
func (p *pair) views() {
	answers := map[string]map[string][]string{}
	for _, path := range []string{p.file, p.server} {
		answers[path] = map[string][]string{}
		d, err := db.Open(p.t.Context(), path, db.Options{ReadOnly: true})
		if err != nil {
			p.t.Fatal(err)
		}
		err = d.Read(p.t.Context(), "views", func(rx *db.Rx) error {
			all, err := rx.Store().Relations()
			for _, r := range all {
				if r.View && err == nil {
					answers[path][r.Name], err = rowsOf(rx, r)
				}
			}
			return err
		})
		if err := errors.Join(err, d.Close()); err != nil {
			p.t.Fatal(err)
		}
	}
	if len(answers[p.file]) == 0 {
		p.t.Error("no view was compared")
	}
	for view, want := range answers[p.file] {
		got, there := answers[p.server][view]
		if !there || len(got) != len(want) {
			p.t.Errorf("%s has %d rows, and %d on the server", view, len(want), len(got))
			continue
		}
		for i := range want {
			if want[i] != got[i] {
				p.t.Errorf("%s:\n%.600s\n%.600s", view, want[i], got[i])
				break
			}
		}
	}
}

// rowsOf are the rows of a view as text, sorted.
func rowsOf(rx *db.Rx, r engine.Relation) (rows []string, err error) {
	var columns []string
	for _, c := range r.Columns {
		if !passing.MatchString(c) && (!ofImports.MatchString(r.Name) || !importTimes.MatchString(c)) {
			columns = append(columns, `"`+c+`"`)
		}
	}
	values, cells := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		cells[i] = &values[i]
	}
	for row, err := range rx.Query("SELECT " + strings.Join(columns, ", ") + " FROM " + r.Name) {
		if err != nil {
			return nil, err
		}
		if err := row.Scan(cells...); err != nil {
			return nil, err
		}
		var text strings.Builder
		for i, value := range values {
			if b, ok := value.([]byte); ok {
				value = string(b)
			}
			if s, ok := value.(string); ok {
				value = strings.Map(func(r rune) rune { // as a server shows it: each byte that is no UTF-8, and NUL
					if r == 0 {
						return utf8.RuneError
					}
					return r
				}, s)
			}
			fmt.Fprintf(&text, "%s=%v ", columns[i], value)
		}
		rows = append(rows, text.String())
	}
	slices.Sort(rows)
	return rows, nil
}
