package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"
)

var tableNow = time.Date(2026, 5, 8, 12, 0, 0, 0, time.UTC)

func runsGrid() *grid {
	g := &grid{
		header: []string{"run", "agent", "started", "took", "status", "turns", "intent"}, right: []int{3, 5},
		times: []int{2}, ids: []int{0, 1}, least: []int{5, 3, 1, 6},
	}
	for i := range 3 {
		g.add(fmt.Sprintf("6f1c9a7e-21d3-4c55-9d1%d-8a1f2b3c4d5e", i), "name:repo-triage", "2026-05-05T12:00:00Z",
			"1h2m3s", "completed: partial_success",
			"12", "Find out why the nightly build of the parser fails on the second machine")
	}
	return g
}

func TestAtEightyColumnsAListShowsItsStatus(t *testing.T) {
	for width, want := range map[int]string{
		200: "run                                   agent             started    took  status                   " +
			"   turns  intent\n" +
			"6f1c9a7e-21d3-4c55-9d10-8a1f2b3c4d5e  name:repo-triage  3d ago   1h2m3s  completed: partial_success   " +
			"  12  Find out why the nightly build of the parser fails on the second machine\n",
		120: "run                      agent             started    took  status                      turns " +
			" intent\n" +
			"6f1c9a7e-21d3-4c55-9d10  name:repo-triage  3d ago   1h2m3s  completed: partial_success     12  Find " +
			"out why the nightly…\n",
		80: "run                      started  status                      intent\n" +
			"6f1c9a7e-21d3-4c55-9d10  3d ago   completed: partial_success  Find out why the …\n",
	} {
		text, _ := runsGrid().draw(width, false, tableNow)
		if got := strings.Join(strings.SplitAfter(text, "\n")[:2], ""); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
		for line := range strings.Lines(text) {
			if n := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns: a line has %d", width, n)
			}
		}
	}
}

func TestColumnsThatGoAreNamed(t *testing.T) {
	_, gone := runsGrid().draw(40, false, tableNow)
	if strings.Join(gone, " ") != "turns took agent intent" {
		t.Errorf("gone are %v", gone)
	}
	g := runsGrid()
	g.whole = true
	if _, gone := g.draw(40, false, tableNow); gone != nil {
		t.Errorf("of a grid that is to be whole %v went", gone)
	}
}

func TestNoWidthBreaksATable(t *testing.T) {
	g := &grid{header: []string{"a\x1b[31m", "b\u009b\u202e"}}
	g.add("写作写作写作", "👩‍👩‍👧 e\u0301")
	g.add("", "\x1b[31m")
	for width := range 60 {
		text, gone := g.draw(width, true, tableNow)
		if text += strings.Join(gone, " "); strings.Count(text, "\n") != 3 || strings.Contains(text, "\x1b[31m") ||
			strings.ContainsAny(text, "\u009b\u202e") {
			t.Errorf("%d columns: %q", width, text)
		}
	}
}

func TestTimes_RelativeForPeopleExactForScripts(t *testing.T) {
	for text, want := range map[string]string{
		"2026-05-08T12:00:00Z": "0s ago", "2026-05-08T11:59:01Z": "59s ago", "2026-05-08T11:00:00Z": "1h ago",
		"2026-05-08T11:00:01Z": "59m ago",
		"2026-05-05T12:00:00Z": "3d ago", "2026-01-01T12:00:00Z": "2026-01-01", "2026-05-08T12:05:00Z": "in 5m",
		"2028-01-01T00:00:00Z": "2028-01-01",
		"":                     "", "17 ms": "17 ms",
	} {
		if got := ago(text, tableNow); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := instant(tableNow.In(time.FixedZone("", 3600))); got != "2026-05-08T12:00:00Z" {
		t.Errorf("an instant is %q", got)
	}
}

func TestJSONHasEscapesForWhatATerminalShouldNotGet(t *testing.T) {
	in := "{\"a\":\r\"\u009b31m \u202e \u2028 \u061c \x7f ünï 写 \xff\"}\n"
	want := "{\"a\": \"\\u009b31m \\u202e \\u2028 \\u061c \\u007f ünï 写 \xff\"}\n"
	for size := 1; size <= len(in); size++ {
		var out bytes.Buffer
		w := &jsonEscaper{to: &out}
		for rest := []byte(in); len(rest) > 0; {
			n := min(size, len(rest))
			if _, err := w.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if out.String() != want {
			t.Errorf("in pieces of %d: %q", size, out.String())
		}
	}
}

func TestAHintIsALineToPaste(t *testing.T) {
	a := &app{path: "my file.db", scope: "s"}
	for hint, want := range map[string]string{
		"run: migrate check": "run: migrate --db 'my file.db' --scope s check",
		"see what there is: migrate live list": "see what there is: migrate --db 'my file.db' --scope s " +
			"live list",
		"open it (migrate up does)":               "open it (migrate --db 'my file.db' --scope s up does)",
		"rename what you made, and migrate again": "rename what you made, and migrate again",
		"make it with: migrate --db x up":         "make it with: migrate --db x up",
		"see: migrate gc --apply --scope ''":      "see: migrate --db 'my file.db' gc --apply --scope ''",
	} {
		if got := a.pasteable(hint); got != want {
			t.Errorf("%q: %q, want %q", hint, got, want)
		}
	}
	if got := (&app{path: defaultPath}).pasteable("run: migrate check"); got != "run: migrate check" {
		t.Errorf("on the default file: %q", got)
	}
}

// An error prints each line of a hint for itself, and what no terminal shows as an escape.
func TestHint_WordsStayOnOneLine(t *testing.T) {
	for _, word := range []string{
		"", "plain", "two words", "it's", `it's "$x"`, "a\nb.db", "SELECT *\n\tFROM v_runs\r\nWHERE a = '\\'",
		"\x1b[31m7", "not\xffutf8", "\u202eabc", "größe\n", "100%\n",
	} {
		quoted := shellWord(word)
		if strings.Contains(quoted, "\n") || printable(quoted) != quoted {
			t.Errorf("%q is %q", word, quoted)
		}
		if out, err := exec.Command("bash", "-c", "printf '%s.' "+quoted).Output(); err != nil ||
			string(out) != word+"." {
			t.Errorf("%q as %s comes back as %q: %v", word, quoted, out, err)
		}
	}
}

func TestGrid_TooWideShowsOneCellPerLine(t *testing.T) {
	g := grid{header: []string{"scope", "waiting_since_ns", "question"}, whole: true, texts: []int{0, 2}}
	g.add("", "1795364751474303152", "Ship it?")
	g.add("b", "7", "a question that is longer than the line")
	if g.tooWide(60) || !g.tooWide(30) {
		t.Error("it is wider than 30, and not than 60")
	}
	if got, want := g.records(30, false),
		"scope\nwaiting_since_ns  17953647514…\nquestion          Ship it?\n\n"+
			"scope             b\nwaiting_since_ns  7\nquestion          a question …\n"; got != want {
		t.Errorf("it is\n%s", got)
	}
}

// An id that is shortened still means one thing, also where the others are on another page.
func TestGrid_ShortIdsAreUniqueInTheFile(t *testing.T) {
	g := runsGrid()
	g.unique = func(prefix string) bool { return len(prefix) >= 28 }
	text, _ := g.draw(80, false, tableNow)
	if !strings.Contains(text, "\n6f1c9a7e-21d3-4c55-9d10-8a1f  3d ago") {
		t.Errorf("the id is too short:\n%s", text)
	}
	if err := g.pick([]string{"agent", "run"}); err != nil || g.own != 1 {
		t.Errorf("its column is %d, %v", g.own, err)
	}
}
