package docs_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

var (
	liveRow    = regexp.MustCompile("(?m)^\\| `?([a-z_]+)`? \\| (.*) \\|$")
	liveMember = regexp.MustCompile("^`([a-z_]+)` (\\([^)]*\\)|[^ :]+)(?:: .+)?$")
	liveMaker  = regexp.MustCompile("`([A-Z]\\w+)(?:\\(…\\)|\\{…\\}\\.Event\\(\\))`")
	eventMaker = regexp.MustCompile(`(?m)^func (?:\(e (\w+)\) Event\(\)|([A-Z]\w+)\([^)]*\)) Event \{`)
)

func liveEventsPage(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("live-events.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, m := range liveRow.FindAllStringSubmatch(string(page), -1) {
		rows[m[1]] = m[2]
	}
	delete(rows, "type")
	delete(rows, "part")
	return rows
}

// The members and their types are those that the package reads, in their order.
func TestLiveEvents_PageHasEveryMember(t *testing.T) {
	source, err := os.ReadFile("../runs/live/event_types.go")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for _, text := range strings.Split(string(source), "parseTypes(")[1:] {
		_, text, _ = strings.Cut(text, "`\n")
		text, _, _ = strings.Cut(text, "`")
		for line := range strings.Lines(strings.ReplaceAll(text, "\n\t", " ")) {
			words := strings.Fields(line)
			if len(words) == 2 && words[1][0] == '(' {
				known[words[0]] = strings.ReplaceAll(strings.Trim(words[1], "()"), "|", ", ")
				continue
			}
			var members []string
			for _, word := range words[1:] {
				at := strings.IndexAny(word, ":~")
				for name := range strings.SplitSeq(word[:at], ",") {
					members = append(members, name+" "+strings.ReplaceAll(word[at+1:], "|", " or "))
				}
			}
			known[words[0]] = strings.Join(members, "; ")
		}
	}
	for _, ofRuns := range []string{"snapshot", "event_record", "record"} {
		delete(known, ofRuns)
	}
	rows := liveEventsPage(t)
	for name, row := range rows {
		if cells := strings.Split(row, " | "); len(cells) == 3 {
			row = cells[1]
		}
		members := strings.Split(row, "; ")
		for i, member := range members {
			members[i] = liveMember.ReplaceAllString(member, "$1 $2")
		}
		if got := strings.Join(members, "; "); got != known[name] {
			t.Errorf("%s on the page: %s\nin the code: %s", name, got, known[name])
		}
	}
	for name := range known {
		if _, ok := rows[name]; !ok {
			t.Errorf("%s is not on the page", name)
		}
	}
	if len(rows) < 49 {
		t.Errorf("only %d rows", len(rows))
	}
}

func TestLiveEvents_PageHasEveryConstructor(t *testing.T) {
	var made []string
	for _, name := range []string{"event_functions.go", "event_structs.go"} {
		source, err := os.ReadFile("../runs/live/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range eventMaker.FindAllStringSubmatch(string(source), -1) {
			made = append(made, m[1]+m[2])
		}
	}
	var named []string
	for _, row := range liveEventsPage(t) {
		for _, m := range liveMaker.FindAllStringSubmatch(row, -1) {
			named = append(named, m[1])
		}
	}
	slices.Sort(made)
	slices.Sort(named)
	if !slices.Equal(made, named) {
		t.Errorf("on the page:  %v\nin the package: %v", named, made)
	}
}

func TestLiveEvents_GoIsFromAnExample(t *testing.T) {
	page, err := os.ReadFile("live-events.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../runs/live/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(page), "```go\n")
	code, _, _ = strings.Cut(code, "```")
	if code == "" || !strings.Contains(strings.ReplaceAll(string(example), "\n\t", "\n"), "\n"+code) {
		t.Errorf("runs/live/example_test.go does not have\n%s", code)
	}
}

func TestLiveEvents_PageHasEveryStatus(t *testing.T) {
	ctx := context.Background()
	store := live.NewStore(dbtest.Open(t, db.Options{Synchronous: db.SyncNormal}), live.Options{})
	events, err := os.ReadFile("../testdata/legacy/live/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	rows, n := liveEventsPage(t), 0
	seen := map[string]bool{}
	for text := range strings.Lines(string(events)) {
		event, err := live.NewEvent([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		cells := strings.Split(rows[event.Type()], " | ")
		said := strings.TrimSpace(cells[len(cells)-1])
		seen[event.Type()] = true
		for _, from := range []live.RunStatus{live.Created, live.Planning} {
			want := from
			if status, unless, _ := strings.Cut(said, ", unless "); status != "" && unless != string(from) {
				want = live.RunStatus(status)
			}
			n++
			id := fmt.Sprint("run-", n)
			if _, err := store.ReserveRunWithID(ctx, id, "s", ""); err != nil {
				t.Fatal(err)
			}
			var batch live.Batch
			if from == live.Planning {
				batch.Events = append(batch.Events, live.PlanningStart("p"))
			}
			batch.Events = append(batch.Events, event)
			if a, err := store.Append(ctx, id, batch); err != nil || a.Status != want {
				t.Errorf("%s makes a %s run %s, not %s: %v", event.Type(), from, a.Status, want, err)
			}
		}
	}
	if len(seen) != 41 {
		t.Errorf("only %v", slices.Sorted(maps.Keys(seen)))
	}
}
