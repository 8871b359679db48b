package search_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/search"
	"selvedge/test/dbtest"
	"selvedge/test/night"
	"selvedge/workers"
)

func TestMain(m *testing.M) { dbtest.Main(m, nil) }

var ctx = context.Background()

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stored is a file with a text in each place that is searched.
func stored(t testing.TB) *db.DB {
	t.Helper()
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	s := runs.NewStore(d, runs.Options{})
	_, err := s.Append(ctx, runs.Batch{AgentID: "a", RunID: "r", Records: []runs.Record{
		runs.Started{RunID: "r", AgentID: "a", Intent: "Fix the Röhre of the parser"},
		runs.Turn{
			Prompt: new("look at the red tests first"), Tool: new("shell"),
			Parameters: json.RawMessage(`{"command": "go test ./lexer", "n": 9007199254740993}`),
			Output:     json.RawMessage(`"panic: runtime error in goroutine"`),
		},
		runs.Unknown{Kind: "note", Raw: []byte(`{"record":"note","text":"the cache is stale"}`)},
		runs.Ended{RunID: "r", AgentID: "a", Termination: runs.Termination{
			Outcome: &runs.AgentOutcome{Status: runs.OutcomeFailure, Summary: "gave up on the grammar"},
		}},
	}})
	ok(t, err)
	l := live.NewStore(d, live.Options{})
	_, err = l.CreateRunWithID(ctx, "l", "session", "watch the furnace")
	ok(t, err)
	_, _, err = l.RecordEvent(ctx, "l", live.TextDelta("the tem"), live.TextDelta("perature rises"),
		live.ErrorEvent("sensor lost"))
	ok(t, err)
	c := checkpoints.NewStore(d, checkpoints.Options{})
	ok(t, c.Save(ctx, &checkpoints.PausedWorkflow{
		RunID: "c", PausedStageID: "gate", Prompt: "Release the balloon?",
		Workflow: checkpoints.Workflow{ID: "w", Name: "w"},
	}))
	w, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: "build"})
	ok(t, err)
	worker, err := w.CreateWorker(ctx,
		workers.CreateWorkerRequest{Intent: workers.TaskIntent("paint the fence")})
	ok(t, err)
	_, err = w.SendInput(ctx, worker.WorkerRef, workers.UserInput("use the green brush"))
	ok(t, err)
	return d
}

func open(t testing.TB, d *db.DB, o search.Options) *search.Index {
	t.Helper()
	x, err := search.Open(ctx, d, o)
	ok(t, err)
	t.Cleanup(func() { _ = x.Close() })
	ok(t, x.Update(ctx))
	return x
}

func find(t testing.TB, x *search.Index, q search.Query) (found []string) {
	t.Helper()
	page, err := x.Search(ctx, q, db.At{})
	ok(t, err)
	for _, h := range page.Items {
		found = append(found, fmt.Sprint(h.Store, " ", h.Name, " ", h.Place))
	}
	return found
}

func TestSearch_FindsEveryKindOfText(t *testing.T) {
	x := open(t, stored(t), search.Options{})
	for words, want := range map[string]string{
		"rohre": "runs r 1", "PARSER": "runs r 1", `"red tests"`: "runs r 2", `"tests red"`: "", "lex*": "runs r 2",
		"lex": "", "9007199254740993": "runs r 2", "stale": "runs r 3", "grammar": "runs r 4", "panic": "",
		"temperature": "live l 0", "furnace": "live l 0", `"sensor lost"`: "live l 0", "balloon": "checkpoints c 0",
		"brush": "workers worker-00000001 1", "red -look": "", "red -grammar": "runs r 2", "command": "",
		"red" + strings.Repeat(" -grammar", 1000): "runs r 2", "red -look" + strings.Repeat(" -grammar", 1000): "",
	} {
		if got := strings.Join(find(t, x, search.Query{Words: words}), ", "); got != want {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
	for _, q := range []search.Query{
		{Words: "red", Owner: new("b")},
		{Words: "red", Store: "live"},
		{Words: "red", Scope: "other"},
		{Words: "red", Since: time.Now().Add(time.Hour)},
		{Words: "red", Until: time.Now().Add(-time.Hour)},
	} {
		if got := find(t, x, q); len(got) > 0 {
			t.Errorf("%+v found %q", q, got)
		}
	}
	page, err := x.Search(ctx, search.Query{Words: "red", Owner: new("a"), Store: "runs"}, db.At{})
	ok(t, err)
	want := "look at the " + search.Mark + "red" + search.Unmark + " tests first"
	if h := page.Items[0]; !strings.HasPrefix(h.Snippet, want) || time.Since(h.At) > time.Minute ||
		h.Kind != "turn" {
		t.Errorf("%+v", h)
	}
}

func TestSearch_OutputOnlyIfAsked(t *testing.T) {
	x := open(t, stored(t), search.Options{Output: true})
	if got := find(t, x, search.Query{Words: "panic goroutine"}); !slices.Equal(got, []string{"runs r 2"}) {
		t.Errorf("%q", got)
	}
}

func TestUpdate_FollowsChangesAndRemovals(t *testing.T) {
	d := stored(t)
	x := open(t, d, search.Options{})
	s := runs.NewStore(d, runs.Options{})
	ok(t, s.AppendTurns(ctx, "a", "r", []runs.Turn{{Prompt: new("an afterthought")}}))
	_, _, err := live.NewStore(d, live.Options{}).RecordEvent(ctx, "l", live.TextDelta(" and falls"))
	ok(t, err)
	ok(t, x.Update(ctx))
	if got := find(t, x, search.Query{Words: "afterthought"}); !slices.Equal(got, []string{"runs r 5"}) {
		t.Errorf("what was added: %q", got)
	}
	if got := find(t, x, search.Query{Words: "temperature"}); len(got) != 1 {
		t.Errorf("what was said twice: %q", got)
	}
	ok(t, s.Delete(ctx, runs.RunRef{AgentID: "a", RunID: "r"}))
	ok(t, x.Update(ctx))
	if got := find(t, x, search.Query{Words: "grammar"}); len(got) > 0 {
		t.Errorf("what was removed: %q", got)
	}
	for _, name := range indexes(t, d.Path()) {
		text, err := os.ReadFile(name)
		ok(t, err)
		for _, word := range []string{"grammar", "afterthought", "Röhre", "rohre"} {
			if bytes.Contains(text, []byte(word)) {
				t.Errorf("%s still has %q", name, word)
			}
		}
	}
}

func indexes(t testing.TB, path string) []string {
	t.Helper()
	names, err := filepath.Glob(path + "-search-*")
	ok(t, err)
	return names
}

func TestUpdate_LooksOnlyAtWhatWasTouched(t *testing.T) {
	var reads atomic.Int64
	d := dbtest.Open(t, db.Options{
		Synchronous: db.SyncNormal,
		Observe: func(o db.Observation) {
			if o.Why == "look for what is new" {
				reads.Add(1)
			}
		},
	})
	x, err := search.Open(ctx, d, search.Options{})
	ok(t, err)
	defer func() { ok(t, x.Close()) }()
	s, l := runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{})
	say := func(run, words string) {
		ok(t, s.AppendTurns(ctx, "a", run, []runs.Turn{{Prompt: new(words)}}))
	}
	found := func(words string, want int) {
		t.Helper()
		ok(t, x.Update(ctx))
		page, err := x.Search(ctx, search.Query{Words: words}, db.At{})
		ok(t, err)
		if len(page.Items) != want {
			t.Errorf("%s is found %d times, not %d", words, len(page.Items), want)
		}
	}
	for i := range 50 {
		say(fmt.Sprint("run-", i), "first")
	}
	found("first", 50)
	say("run-0", "second") // before the feed
	found("second", 1)
	say("run-7", "third")
	_, err = l.CreateRunWithID(ctx, "l", "session", "third too")
	ok(t, err)
	before := reads.Load()
	found("third", 2)
	if n := reads.Load() - before; n > 20 && !txn.OnServer(d.Path()) {
		t.Errorf("an update of two things in 51 read %d times", n)
	}
	before = reads.Load()
	ok(t, x.Update(ctx))
	if n := reads.Load() - before; n > 0 && !txn.OnServer(d.Path()) { // a server has others that commit
		t.Errorf("an update without news read %d times", n)
	}
	ok(t, s.AppendRecords(ctx, "a", "run-7", []runs.Record{runs.Ended{RunID: "run-7", AgentID: "a"}}))
	ok(t, s.Delete(ctx, runs.RunRef{AgentID: "a", RunID: "run-7"}))
	found("third", 1)
	_, _, err = l.RecordEvent(ctx, "l", live.TextDelta("fourth"))
	ok(t, err)
	found("fourth", 1)

	y, err := search.Open(ctx, d, search.Options{Without: []string{"session"}}) // makes it anew
	ok(t, err)
	ok(t, y.Close())
	found("first", 49)

	other, err := db.Open(ctx, d.Path(), db.Options{Synchronous: db.SyncNormal})
	ok(t, err)
	defer func() { ok(t, other.Close()) }()
	fifth := []runs.Turn{{Prompt: new("fifth")}}
	ok(t, runs.NewStore(other, runs.Options{}).AppendTurns(ctx, "a", "run-3", fifth))
	dbtest.Await(t, "a turn of another handle is found", func() bool {
		ok(t, x.Update(ctx))
		page, err := x.Search(ctx, search.Query{Words: "fifth"}, db.At{})
		ok(t, err)
		return len(page.Items) == 1
	})
}

func TestForget_LeavesNothing(t *testing.T) {
	d := stored(t)
	ok(t, open(t, d, search.Options{}).Close())
	ok(t, open(t, d, search.Options{Output: true}).Close())
	if len(indexes(t, d.Path())) != 2 {
		t.Fatalf("%q", indexes(t, d.Path()))
	}
	held := open(t, d, search.Options{})
	notes := d.Path() + "-search-1notes" // somebody else's
	ok(t, os.WriteFile(notes, nil, 0o600))
	ok(t, search.Forget(ctx, d))
	ok(t, os.Remove(notes))
	if left := indexes(t, d.Path()); len(left) > 0 {
		t.Errorf("%q", left)
	}
	if got := find(t, open(t, d, search.Options{}), search.Query{Words: "furnace"}); len(got) != 1 {
		t.Errorf("made again, it finds %q", got)
	}
	ok(t, search.Forget(ctx, d))
	if got := find(t, held, search.Query{Words: "furnace"}); len(got) > 0 {
		t.Errorf("a handle from before finds %q in a file that is gone", got)
	}
	ok(t, held.Update(ctx))
	if got := find(t, held, search.Query{Words: "furnace"}); len(got) != 1 {
		t.Errorf("a handle from before finds %q", got)
	}
}

func TestRedact_LeavesNothingInTheIndex(t *testing.T) {
	d := stored(t)
	ok(t, open(t, d, search.Options{}).Close())
	_, err := maintenance.Redact(ctx, d, maintenance.Redaction{Pattern: regexp.MustCompile("grammar")})
	ok(t, err)
	x := open(t, d, search.Options{})
	if got := find(t, x, search.Query{Words: "grammar"}); len(got) > 0 {
		t.Errorf("%q", got)
	}
	if got := find(t, x, search.Query{Words: "gave up"}); len(got) != 1 {
		t.Errorf("what is left of the text: %q", got)
	}
}

func TestUpdateAll_TakesWhatWasDeleted(t *testing.T) {
	d := stored(t)
	ok(t, search.UpdateAll(ctx, d))
	if names := indexes(t, d.Path()); len(names) > 0 {
		t.Fatalf("it made %q", names)
	}
	x := open(t, d, search.Options{})
	ok(t, runs.NewStore(d, runs.Options{}).Delete(ctx, runs.RunRef{AgentID: "a", RunID: "r"}))
	ok(t, search.UpdateAll(ctx, d))
	if got := find(t, x, search.Query{Words: "grammar"}); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

func TestOpen_SpoiledIndexIsMadeAgain(t *testing.T) {
	d := stored(t)
	ok(t, open(t, d, search.Options{}).Close())
	ok(t, os.WriteFile(d.Path()+"-search-1", bytes.Repeat([]byte("spoiled"), 10_000), 0o600))
	if got := find(t, open(t, d, search.Options{}), search.Query{Words: "furnace"}); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

// The last program to close an SQLite file removes its WAL. Which is the last, SQLite's locks show, and a
// process loses those of a file when it closes any descriptor of it.
func TestOpen_SecondIndexKeepsTheLocks(t *testing.T) {
	d := stored(t)
	open(t, d, search.Options{})
	open(t, d, search.Options{})
	index := d.Path() + "-search-1"
	out, err := exec.Command("sqlite3", index, "SELECT count(*) FROM settings").CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	_, err = os.Stat(index + "-wal")
	ok(t, err)
}

func TestOpen_WithoutAgentsLeavesThemOut(t *testing.T) {
	d := stored(t)
	x := open(t, d, search.Options{})
	ok(t, x.Close())
	x = open(t, d, search.Options{Without: []string{"a"}})
	if got := find(t, x, search.Query{Words: "grammar"}); len(got) > 0 {
		t.Errorf("%q", got)
	}
	if got := find(t, x, search.Query{Words: "furnace"}); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

func TestSearch_PagesHaveEachHitOnce(t *testing.T) {
	d := stored(t)
	ok(t, night.Many(ctx, d, 40, 2))
	x := open(t, d, search.Options{})
	for _, best := range []bool{false, true} {
		q := search.Query{Words: "shop", Best: best}
		whole, err := x.Search(ctx, q, db.At{Limit: db.MaxLimit})
		ok(t, err)
		var got []search.Hit
		for at := (db.At{Limit: 7}); ; {
			page, err := x.Search(ctx, q, at)
			ok(t, err)
			got = append(got, page.Items...)
			if at.After = page.Next; at.After == "" {
				break
			}
		}
		if len(whole.Items) != 40 || !slices.EqualFunc(got, whole.Items, func(a,
			b search.Hit,
		) bool {
			return a.ID == b.ID
		}) {
			t.Errorf("best %v: %d hits, %d on pages", best, len(whole.Items), len(got))
		}
	}
}

// Words that are found are those that LIKE finds.
func TestSearch_AgreesWithLIKE(t *testing.T) {
	d := stored(t)
	ok(t, night.Many(ctx, d, 300, 1))
	x := open(t, d, search.Options{})
	for part := range 97 {
		words := fmt.Sprintf(`"part %d of"`, part)
		page, err := x.Search(ctx, search.Query{Words: words}, db.At{Limit: db.MaxLimit})
		ok(t, err)
		want := 0
		ok(t, d.Read(ctx, "count", func(rx *db.Rx) error {
			_, err := rx.Find(&want, `SELECT count(*) FROM runs WHERE intent LIKE ?`,
				fmt.Sprintf("%%part %d of%%", part))
			return err
		}))
		if len(page.Items) != want {
			t.Errorf("%s: %d, and LIKE finds %d", words, len(page.Items), want)
		}
	}
}

func TestUpdate_FindsErrorOfMarkedLiveRun(t *testing.T) {
	d := stored(t)
	x := open(t, d, search.Options{})
	_, _, err := live.NewStore(d, live.Options{}).MarkFailed(ctx, "l", "the pilot light went out")
	ok(t, err)
	ok(t, x.Update(ctx))
	if got := find(t, x, search.Query{Words: "pilot"}); !slices.Equal(got, []string{"live l 0"}) {
		t.Errorf("%q", got)
	}
}

func TestSearch_ManyWordsInLongTexts(t *testing.T) {
	d := stored(t)
	long := "largo " + strings.Repeat("x ", 500_000)
	for range 3 {
		ok(t, runs.NewStore(d, runs.Options{}).AppendTurns(ctx, "a", "r", []runs.Turn{{Prompt: &long}}))
	}
	x := open(t, d, search.Options{})
	found := make(chan int)
	go func() {
		page, err := x.Search(ctx, search.Query{Words: strings.Repeat("largo ", 40_000)}, db.At{})
		if err != nil {
			t.Error(err)
		}
		found <- len(page.Items)
	}()
	if n := dbtest.Receive(t, "what was found", found); n != 3 {
		t.Errorf("%d texts", n)
	}
}

func FuzzSearch(f *testing.F) {
	x := open(f, stored(f), search.Options{})
	for _, seed := range []string{
		`"`, `a"b`, "-x y*", "NEAR(a b)", "a OR b", "col:x", "\x00", "*",
		"^a", "(", "{a}:b", "a\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, words string) {
		if _, err := x.Search(ctx, search.Query{Words: words}, db.At{}); err != nil &&
			!errors.Is(err, db.ErrInvalid) {
			t.Errorf("%q: %v", words, err)
		}
	})
}

// A server counts places of a word up to 16,383, and 256 of them.
func TestSearch_LongTextsAreFoundWhole(t *testing.T) {
	d := stored(t)
	long := "overture " + strings.Repeat("largo ", 40_000) + "finale"
	ok(t, runs.NewStore(d, runs.Options{}).AppendTurns(ctx, "a", "r", []runs.Turn{{Prompt: &long}}))
	x := open(t, d, search.Options{})
	for _, words := range []string{"overture", "finale", `"largo finale"`} {
		if got := find(t, x, search.Query{Words: words}); !slices.Equal(got, []string{"runs r 5"}) {
			t.Errorf("%s: %q", words, got)
		}
	}
	page, err := x.Search(ctx, search.Query{Words: "finale"}, db.At{})
	ok(t, err)
	if s := page.Items[0].Snippet; !strings.HasPrefix(s, "…largo largo") ||
		!strings.HasSuffix(s, "largo "+search.Mark+"finale"+search.Unmark) {
		t.Errorf("%q", s)
	}
}
