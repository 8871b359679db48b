package selvedge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"selvedge"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

var ctx = context.Background()

// open returns a store on a database of its own.
func open(t testing.TB) *selvedge.Store {
	t.Helper()
	return selvedge.On(dbtest.Open(t, db.Options{Synchronous: db.SyncNormal}), selvedge.Options{Agent: "a"})
}

// take takes a run that must be free.
func take(t testing.TB, s *selvedge.Store, id string) *selvedge.Run {
	t.Helper()
	r, err := s.Take(ctx, id, selvedge.Start{Intent: "deploy"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Leave() })
	return r
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t testing.TB, err error, wants ...error) {
	t.Helper()
	for _, want := range wants {
		if !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
	}
}

func count(n uint64) *uint64 { return &n }

func TestTake_GoesOnWhereTheRunStopped(t *testing.T) {
	s := open(t)
	r := take(t, s, "r")
	calls := 0
	model := func(context.Context) (selvedge.Reply, error) {
		calls++
		return selvedge.Reply{
			Text: fmt.Sprint("words ", calls), Tool: "shell", Args: json.RawMessage(`{"n": 1}`),
			Usage: selvedge.Usage{InputTokens: count(7)},
		}, nil
	}
	first, err := r.Reply("turn-0", model)
	ok(t, err)
	ok(t, r.Say("some "))
	ok(t, r.Say("words"))
	ok(t, r.Turn(selvedge.Turn{Reply: first, Output: json.RawMessage(`"out"`)}))
	ok(t, r.Leave())
	is(t, r.Turn(selvedge.Turn{}), context.Canceled)

	r = take(t, s, "r")
	if r.TurnNumber() != 1 {
		t.Fatalf("the run goes on at turn %d", r.TurnNumber())
	}
	again, err := r.Reply("turn-0", model)
	ok(t, err)
	if calls != 1 || again.Text != first.Text || string(again.Args) != `{"n":1}` ||
		*again.Usage.InputTokens != 7 {
		t.Fatalf("the model was called %d times, and its answer is %+v", calls, again)
	}
	ok(t, r.End(selvedge.Succeeded("deployed")))
	_, err = s.Take(ctx, "r", selvedge.Start{})
	is(t, err, selvedge.ErrEnded, db.ErrConflict)

	summary, err := runs.NewStore(s.DB(), runs.Options{}).Get(ctx, r.Ref())
	ok(t, err)
	if summary.Outcome != runs.OutcomeSuccess || summary.Summary != "deployed" || summary.TurnCount != 1 {
		t.Fatalf("the run is %+v", summary)
	}
	var said []string
	for e, err := range s.Follow(ctx, r.Ref(), "") {
		ok(t, err)
		if e.What == db.Written {
			said = append(said, e.Item.Event.Type())
		}
		if e.What == db.Written && e.Item.Event.Type() == "text_delta" {
			turn, attempt, ok := e.Item.Event.Turn()
			if turn != 0 || attempt == 0 || !ok || !strings.Contains(string(e.Item.Event.JSON()), "some words") {
				t.Errorf("words are %s", e.Item.Event.JSON())
			}
		}
		if e.Status == string(live.Completed) {
			break
		}
	}
	if want := "agent_start text_delta turn_end agent_start agent_end"; strings.Join(said, " ") != want {
		t.Errorf("the events are %v", said)
	}
}

func TestSay_WordsAreShownBesideARecordedEffect(t *testing.T) {
	s := selvedge.On(dbtest.Open(t, db.Options{}), selvedge.Options{Agent: "a"})
	r := take(t, s, "r")
	do := func() {
		_, err := r.Do("key", selvedge.Effect{Tool: "http"},
			func(context.Context, string) (json.RawMessage, error) { return json.RawMessage("1"), nil })
		ok(t, err)
	}
	do()
	ok(t, r.Say("words"))
	do() // it is recorded
	watched := live.NewStore(s.DB(), live.Options{})
	dbtest.Await(t, "the words", func() bool {
		events, err := watched.Events(ctx, "r")
		ok(t, err)
		return slices.ContainsFunc(events, func(e live.RunEventRecord) bool {
			return e.Event.Type() == "text_delta"
		})
	})
	ok(t, r.Leave())
}

func TestSay_RepeatAfterErrorIsSaidOnce(t *testing.T) {
	var renewed, broken, failed atomic.Bool
	s := selvedge.On(dbtest.Open(t, db.Options{
		Synchronous: db.SyncNormal,
		Now: func() time.Time {
			if broken.Load() {
				panic("no clock")
			}
			return time.Now()
		},
		Observe: func(o db.Observation) {
			switch {
			case o.Why == "renew reservation":
				renewed.Store(true)
			case o.Why == "say" && o.Err != nil:
				failed.Store(true)
			}
		},
	}), selvedge.Options{Agent: "a"})
	r, text := take(t, s, "r"), strings.Repeat("word ", 1000)
	dbtest.Await(t, "the first renewal", renewed.Load)
	broken.Store(true)
	func() {
		defer func() { _ = recover() }()
		t.Errorf("without a clock: %v", r.Say(text))
	}()
	ok(t, r.Say("few"))
	dbtest.Await(t, "the error of the write", func() bool { return r.Say("") != nil })
	broken.Store(false)
	ok(t, r.Say(text))

	broken.Store(true)
	failed.Store(false)
	ok(t, r.Say("more"))
	dbtest.Await(t, "the failing write", failed.Load)
	broken.Store(false)
	ok(t, r.Turn(selvedge.Turn{})) // writes them
	ok(t, r.Say("last"))
	ok(t, r.Leave())
	events, err := live.NewStore(s.DB(), live.Options{}).Events(ctx, "r")
	ok(t, err)
	said := 0
	for _, e := range events {
		said += strings.Count(string(e.Event.JSON()), "few"+text)
	}
	if said != 1 || len(events) != 5 {
		t.Errorf("it was said %d times in %d events", said, len(events))
	}
}

func TestTake_HasOneHolder(t *testing.T) {
	s := open(t)
	r := take(t, s, "r")
	_, err := s.Take(ctx, "r", selvedge.Start{})
	is(t, err, selvedge.ErrHeld, db.ErrConflict)
	_, err = s.For("b").Take(ctx, "r", selvedge.Start{})
	is(t, err, db.ErrConflict)
	if !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("%v does not name the agent", err)
	}
	// Nobody else writes to it, through whatever call.
	traces, lives := runs.NewStore(s.DB(), runs.Options{}), live.NewStore(s.DB(), live.Options{})
	is(t, traces.AppendTurns(ctx, "a", "r", []runs.Turn{{}}), db.ErrConflict)
	is(t, traces.WriteEnded(ctx, runs.Ended{AgentID: "a", RunID: "r"}), db.ErrConflict)
	_, _, err = lives.RecordEvent(ctx, "r", live.TextDelta("x"))
	is(t, err, db.ErrConflict)
	ok(t, r.Turn(selvedge.Turn{}))
}

// An effect is what a test attempts, with the keys of its attempts.
type effect struct {
	policy selvedge.Policy
	keys   []string
	fails  error
}

func (e *effect) do(r *selvedge.Run, key string) (string, error) {
	args := json.RawMessage(`{"b":1,"a":2}`)
	out, err := r.Do(key, selvedge.Effect{Tool: "http", Args: args, Unknown: e.policy},
		func(_ context.Context, key string) (json.RawMessage, error) {
			e.keys = append(e.keys, key)
			return json.RawMessage(`"sent"`), e.fails
		})
	return string(out), err
}

func TestDo_AttemptsOnceAndReturnsTheResult(t *testing.T) {
	s := open(t)
	r := take(t, s, "r")
	var e effect
	for range 2 {
		if out, err := e.do(r, "k"); out != `"sent"` || err != nil {
			t.Fatal(out, err)
		}
	}
	ok(t, r.Leave())
	r = take(t, s, "r")
	if out, err := e.do(r, "k"); out != `"sent"` || err != nil || len(e.keys) != 1 {
		t.Fatal(out, err, e.keys)
	}
	_, err := r.Do("k", selvedge.Effect{Tool: "http", Args: json.RawMessage(`{"a":3}`)}, nil)
	is(t, err, db.ErrConflict)
	_, err = r.Reply("k", nil)
	is(t, err, db.ErrConflict)

	// The same value in another spelling is the same argument.
	out, err := r.Do("k", selvedge.Effect{Tool: "http", Args: json.RawMessage(`{ "a": 2, "b": 1 }`)}, nil)
	if string(out) != `"sent"` || err != nil {
		t.Fatal(string(out), err)
	}
	number, err := selvedge.Do(r, "typed", selvedge.Effect{Tool: "sum"},
		func(context.Context, string) (int, error) { return 42, nil })
	if number != 42 || err != nil {
		t.Fatal(number, err)
	}
	_, err = selvedge.Do(r, "typed", selvedge.Effect{Tool: "sum"},
		func(context.Context, string) (string, error) { return "", nil })
	if is(t, err, db.ErrInvalid); !strings.Contains(err.Error(), `"typed"`) || db.Hint(err) == "" {
		t.Fatal(err)
	}
}

func TestDo_TriesAgainWhatDidNotHappen(t *testing.T) {
	s := open(t)
	r := take(t, s, "r")
	e := effect{fails: selvedge.NotDone(errors.New("refused"))}
	_, err := e.do(r, "k")
	is(t, err, e.fails)
	ok(t, r.Turn(selvedge.Turn{})) // the run is still held
	e.fails = nil
	out, err := e.do(r, "k")
	if out != `"sent"` || err != nil || len(e.keys) != 2 || e.keys[0] != e.keys[1] {
		t.Fatal(out, err, e.keys)
	}
}

func TestDo_AsksAboutAnUnknownOutcome(t *testing.T) {
	for _, decision := range []string{"done", "retry", "give_up"} {
		t.Run(decision, func(t *testing.T) {
			s := open(t)
			r := take(t, s, "r")
			e := effect{fails: errors.New("timed out")}
			_, err := e.do(r, "k")
			is(t, err, selvedge.ErrUnknown, e.fails)
			if r.Context().Err() == nil {
				t.Error("the run is still held")
			}
			_, err = s.Take(ctx, "r", selvedge.Start{})
			is(t, err, selvedge.ErrUnknown)
			needs, err := s.NeedsMe(ctx, selvedge.Filter{}, db.At{})
			ok(t, err)
			if len(needs.Items) != 1 || needs.Items[0].Key != "k" || needs.Items[0].Error != "timed out" ||
				needs.Items[0].IdempotencyKey != e.keys[0] {
				t.Fatalf("needs are %+v", needs.Items)
			}
			is(t, s.Answer(ctx, r.Ref(), "k", selvedge.Answer{Decision: "perhaps"}), db.ErrInvalid)
			answer := selvedge.Answer{Decision: decision, By: "ann", Fields: json.RawMessage(`"by hand"`)}
			ok(t, s.Answer(ctx, r.Ref(), "k", answer))
			if decision == "done" {
				ok(t, s.Answer(ctx, r.Ref(), "k", answer))
			}

			r = take(t, s, "r")
			e.fails = nil
			out, err := e.do(r, "k")
			switch decision {
			case "done":
				if out != `"by hand"` || err != nil || len(e.keys) != 1 {
					t.Fatal(out, err, e.keys)
				}
			case "retry":
				if out != `"sent"` || err != nil || len(e.keys) != 2 || e.keys[1] != e.keys[0] {
					t.Fatal(out, err, e.keys)
				}
			default:
				is(t, err, selvedge.ErrGivenUp)
			}
		})
	}
}

func TestDo_GivesUpOrRetriesByPolicy(t *testing.T) {
	s := open(t)
	r := take(t, s, "r")
	e := effect{policy: selvedge.GiveUp, fails: errors.New("timed out")}
	for range 2 {
		_, err := e.do(r, "given")
		is(t, err, selvedge.ErrGivenUp)
	}
	if len(e.keys) != 1 {
		t.Fatalf("%d attempts", len(e.keys))
	}
	e = effect{policy: selvedge.Retry, fails: errors.New("timed out")}
	_, err := e.do(r, "retried")
	is(t, err, e.fails)
	e.fails = nil
	if out, err := e.do(r, "retried"); out != `"sent"` || err != nil || e.keys[0] != e.keys[1] {
		t.Fatal(out, err, e.keys)
	}

	// The policy of the last call counts.
	e = effect{policy: selvedge.Retry, fails: errors.New("timed out")}
	_, err = e.do(r, "changed")
	is(t, err, e.fails)
	e.policy = selvedge.GiveUp
	_, err = e.do(r, "changed")
	is(t, err, selvedge.ErrGivenUp)
	steps, err := s.Steps(ctx, r.Ref(), db.At{Limit: 1})
	if err != nil || steps.Items[0].Unknown != selvedge.GiveUp || len(e.keys) != 1 {
		t.Errorf("%+v, %v, %d attempts", steps.Items, err, len(e.keys))
	}
}

func TestDo_APanicLeavesTheOutcomeUnknown(t *testing.T) {
	s := open(t)
	r := take(t, s, "r")
	func() {
		defer func() { _ = recover() }()
		_, _ = r.Do("k", selvedge.Effect{Tool: "http"},
			func(context.Context, string) (json.RawMessage, error) { panic("no") })
	}()
	_, err := s.Take(ctx, "r", selvedge.Start{})
	is(t, err, selvedge.ErrUnknown)
}

// The first call has read that the effect is new when the second one does it.
func TestDo_ConcurrentCallsAttemptOnce(t *testing.T) {
	var meanwhile atomic.Pointer[func()]
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal, Observe: func(o db.Observation) {
		if o.Why == "do" && !o.Write {
			if call := meanwhile.Swap(nil); call != nil {
				(*call)()
			}
		}
	}})
	r := take(t, selvedge.On(d, selvedge.Options{Agent: "a"}), "r")
	var attempts atomic.Int64
	do := func() error {
		_, err := r.Do("k", selvedge.Effect{Tool: "http"}, func(context.Context, string) (json.RawMessage, error) {
			attempts.Add(1)
			return nil, nil
		})
		return err
	}
	second := make(chan error, 1)
	meanwhile.Store(new(func() {
		go func() { second <- do() }()
		is(t, dbtest.Receive(t, "the second call", second), db.ErrConflict)
	}))
	ok(t, do())
	if attempts.Load() != 1 {
		t.Errorf("%d attempts", attempts.Load())
	}
}

func TestDoTurn_UnrecordableTurnAttemptsNothing(t *testing.T) {
	s := open(t)
	for name, turn := range map[string]selvedge.Turn{
		"half a pair":    {Reply: selvedge.Reply{Args: json.RawMessage(`"\ud800"`)}},
		"huge number":    {Reply: selvedge.Reply{Args: json.RawMessage(`1e999`)}},
		"tool":           {Reply: selvedge.Reply{Tool: "\xff"}},
		"infinite costs": {Reply: selvedge.Reply{Usage: selvedge.Usage{CostUSD: new(math.Inf(1))}}},
	} {
		var e effect
		r := take(t, s, name)
		_, err := r.DoTurn("k", selvedge.Effect{Tool: "http"}, turn,
			func(context.Context, string) (json.RawMessage, error) {
				e.keys = append(e.keys, "")
				return nil, nil
			})
		is(t, err, db.ErrInvalid)
		if len(e.keys) != 0 || r.Context().Err() != nil {
			t.Errorf("%s: %d attempts", name, len(e.keys))
		}
	}
	_, err := take(t, s, "output").DoTurn("k", selvedge.Effect{Tool: "http"}, selvedge.Turn{},
		func(context.Context, string) (json.RawMessage, error) { return json.RawMessage(`1e999`), nil })
	is(t, err, selvedge.ErrUnknown, db.ErrInvalid)
}

func TestDo_UnaskableArgumentsAreInvalid(t *testing.T) {
	r := take(t, open(t), "r")
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	_, err := r.Do("k", selvedge.Effect{Tool: "http", Args: json.RawMessage(deep)},
		func(context.Context, string) (json.RawMessage, error) { return nil, errors.New("timed out") })
	is(t, err, db.ErrInvalid)
	if r.Context().Err() != nil || strings.Contains(err.Error(), "timed out") {
		t.Error(err)
	}
}

func TestDoTurn_RecordsTheTurnWithItsEffect(t *testing.T) {
	s := open(t)
	r := take(t, s, "r")
	out, err := r.DoTurn("k", selvedge.Effect{Tool: "http"}, selvedge.Turn{Prompt: "send"},
		func(context.Context, string) (json.RawMessage, error) { return json.RawMessage(`1`), nil })
	if string(out) != "1" || err != nil || r.TurnNumber() != 1 {
		t.Fatal(string(out), err, r.TurnNumber())
	}
	records, _, err := runs.NewStore(s.DB(), runs.Options{}).GetRunTrace(ctx, "r")
	ok(t, err)
	if turn := records[1].(runs.Turn); *turn.Prompt != "send" || string(turn.Output) != "1" {
		t.Errorf("the turn is %+v", turn)
	}
}

func TestDoTurn_SideBySideDoneByPerson(t *testing.T) {
	s := open(t)
	r := take(t, s, "r")
	attempt := func(r *selvedge.Run, key string, fn func() error) {
		t.Helper()
		out, err := r.DoTurn(key, selvedge.Effect{Tool: "http"}, selvedge.Turn{Prompt: key},
			func(context.Context, string) (json.RawMessage, error) { return nil, fn() })
		if fn == nil && (err != nil || string(out) != `"`+key+`"`) {
			t.Fatalf("%s: %s, %v", key, out, err)
		}
	}
	timeout := errors.New("timeout")
	attempt(r, "x", func() error {
		attempt(r, "y", func() error { return timeout })
		return timeout
	})
	for _, key := range []string{"y", "x"} {
		done := selvedge.Answer{Decision: "done", Fields: json.RawMessage(`"` + key + `"`)}
		ok(t, s.Answer(ctx, r.Ref(), key, done))
	}
	for range 2 { // the second time they are recorded
		r = take(t, s, "r")
		attempt(r, "x", nil)
		attempt(r, "y", nil)
		if r.TurnNumber() != 2 {
			t.Fatalf("the run has %d turns, want 2", r.TurnNumber())
		}
		ok(t, r.Leave())
	}
	_, err := s.Fork(ctx, r.Ref(), 2, "fork")
	ok(t, err)
	fork := take(t, s, "fork")
	attempt(fork, "y", nil)
	if fork.TurnNumber() != 2 {
		t.Errorf("the fork has %d turns, want 2", fork.TurnNumber())
	}
}

func TestAsk_WaitsForAnAnswer(t *testing.T) {
	s := open(t)
	r := take(t, s, "r")
	q := selvedge.Question{Prompt: "Deploy?", Fields: json.RawMessage(`["build"]`)}
	_, err := r.Ask("gate", q)
	is(t, err, selvedge.ErrWaiting)
	ready, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if _, err := s.Next(ready); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a run that waits is ready: %v", err)
	}
	is(t, s.Answer(ctx, r.Ref(), "other", selvedge.Answer{Decision: "approved"}), db.ErrNotFound)
	answer := selvedge.Answer{Decision: "approved", By: "ann", Fields: json.RawMessage(`{"build":7}`)}

	taken := make(chan *selvedge.Run)
	go func() {
		r, err := s.Next(ctx)
		if err != nil {
			t.Error(err)
		}
		taken <- r
	}()
	ok(t, s.Answer(ctx, r.Ref(), "gate", answer))
	r = dbtest.Receive(t, "the run", taken)
	got, err := r.Ask("gate", q)
	ok(t, err)
	if got.Decision != "approved" || got.By != "ann" || string(got.Fields) != `{"build":7}` {
		t.Errorf("the answer is %+v", got)
	}
	ok(t, s.Answer(ctx, r.Ref(), "gate", answer))
	answer.Decision = "rejected"
	is(t, s.Answer(ctx, r.Ref(), "gate", answer), db.ErrConflict)
	_, err = r.Ask("gate", selvedge.Question{Prompt: "Really?"})
	is(t, err, db.ErrConflict)
	ok(t, r.End(selvedge.GaveUp("no")))
}

func TestAsk_LiveListsSayWaiting(t *testing.T) {
	s := open(t)
	_, err := take(t, s, "r").Ask("gate", selvedge.Question{Prompt: "Deploy?"})
	is(t, err, selvedge.ErrWaiting)
	take(t, s, "other")
	watched := live.NewStore(s.DB(), live.Options{})
	listed := func(want string, statuses ...live.RunStatus) {
		t.Helper()
		var got string
		for r, err := range watched.All(ctx, live.Filter{Statuses: statuses}) {
			ok(t, err)
			got += r.ID + ":" + string(r.Status) + " "
		}
		if got != want {
			t.Errorf("%v: %s, want %s", statuses, got, want)
		}
	}
	shown := func(want live.RunStatus) {
		t.Helper()
		r, err := watched.Get(ctx, "r")
		ok(t, err)
		var viewed string
		ok(t, s.DB().Read(ctx, "see", func(rx *db.Rx) error {
			return rx.Get(&viewed, `SELECT status FROM v_live_runs WHERE run_id = 'r'`)
		}))
		if r.Status != want || viewed != string(want) {
			t.Errorf("it is %s, and %s in the view, want %s", r.Status, viewed, want)
		}
	}
	shown(live.Waiting)
	listed("r:waiting other:executing ")
	listed("r:waiting ", live.Waiting)
	listed("other:executing ", live.Executing)
	listed("r:waiting other:executing ", live.Executing, live.Waiting)
	old, _, err := watched.Snapshot(ctx, "r")
	ok(t, err)
	if old.Status != live.Executing {
		t.Errorf("the old call says %s", old.Status)
	}

	ok(t, s.Answer(ctx, selvedge.Ref{RunID: "r"}, "gate", selvedge.Answer{Decision: "approved"}))
	shown(live.Executing)
	listed("r:executing other:executing ")
	listed("", live.Waiting)
}

func TestBudget_MakesTheRunWait(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	s := selvedge.On(d, selvedge.Options{Agent: "a", Budget: selvedge.Budget{Tokens: 10, CostUSD: 1}})
	calls := 0
	// goes has the model answer until it may not, and returns why.
	goes := func(r *selvedge.Run, answer selvedge.Reply) error {
		for {
			_, err := r.Reply(fmt.Sprint("turn-", calls), func(context.Context) (selvedge.Reply, error) {
				calls++
				return answer, nil
			})
			if err != nil {
				return err
			}
		}
	}
	cents := 0.25
	answer := selvedge.Reply{
		Usage: selvedge.Usage{InputTokens: count(1), OutputTokens: count(2), CostUSD: &cents},
	}
	r := take(t, s, "r")
	is(t, goes(r, answer), selvedge.ErrWaiting)
	if calls != 4 { // 12 tokens and $1
		t.Fatalf("%d calls", calls)
	}
	ok(t, s.Answer(ctx, r.Ref(), "budget-1", selvedge.Answer{Decision: "approved"}))
	r = take(t, s, "r")
	is(t, goes(r, answer), selvedge.ErrWaiting)
	if calls != 7 { // 21 tokens
		t.Fatalf("%d calls", calls)
	}
	ok(t, s.Answer(ctx, r.Ref(), "budget-2", selvedge.Answer{Decision: "no"}))
	r = take(t, s, "r")
	is(t, goes(r, answer), selvedge.ErrOverBudget)
	ok(t, r.End(selvedge.GaveUp("over its budget")))

	answer.Usage = selvedge.Usage{InputTokens: count(1)}
	r, calls = take(t, s, "unpriced"), 0
	is(t, goes(r, answer), selvedge.ErrWaiting)
	if calls != 1 {
		t.Fatalf("%d calls without a price", calls)
	}
	ok(t, s.Answer(ctx, r.Ref(), "budget-unknown", selvedge.Answer{Decision: "approved"}))
	r = take(t, s, "unpriced")
	is(t, goes(r, answer), selvedge.ErrWaiting)
	if calls != 10 {
		t.Fatalf("%d calls without a price", calls)
	}
}

func TestBudget_ChangedBudgetKeepsTheAnswers(t *testing.T) {
	s := open(t)
	of := func(tokens uint64) *selvedge.Run {
		s := selvedge.On(s.DB(), selvedge.Options{Agent: "a", Budget: selvedge.Budget{Tokens: tokens}})
		return take(t, s, "r")
	}
	goes := func(r *selvedge.Run, key string) error {
		return second(r.Reply(key, func(context.Context) (selvedge.Reply, error) {
			return selvedge.Reply{Usage: in(12)}, nil
		}))
	}
	r := of(10)
	ok(t, goes(r, "1"))
	is(t, goes(r, "2"), selvedge.ErrWaiting)
	ok(t, s.Answer(ctx, r.Ref(), "budget-1", selvedge.Answer{Decision: "approved"}))
	r = of(12)
	ok(t, goes(r, "2"))
	is(t, goes(r, "3"), selvedge.ErrWaiting) // budget-2
}

func TestBudget_ReplyWithoutUsageHasUnknownCost(t *testing.T) {
	s := selvedge.On(open(t).DB(), selvedge.Options{Agent: "a", Budget: selvedge.Budget{CostUSD: 1}})
	model := func(context.Context) (selvedge.Reply, error) { return selvedge.Reply{}, nil }
	r := take(t, s, "r")
	ok(t, second(r.Reply("1", model)))
	ok(t, r.Turn(selvedge.Turn{}))
	ref, err := s.Fork(ctx, r.Ref(), 1, "f")
	ok(t, err)
	is(t, second(r.Reply("2", model)), selvedge.ErrWaiting)
	f := take(t, s, ref.RunID) // it used nothing yet
	ok(t, second(f.Reply("2", model)))
	is(t, second(f.Reply("3", model)), selvedge.ErrWaiting)
}

func TestAnswer_WorksForAnIncompleteRun(t *testing.T) {
	s := open(t)
	r := take(t, s, "r")
	q := selvedge.Question{Prompt: "Deploy?"}
	_, err := r.Ask("gate", q)
	is(t, err, selvedge.ErrWaiting)
	need, found := errors.AsType[*selvedge.NeedError](err)
	if !found || need.Step.Prompt != "Deploy?" || time.Since(need.Step.CreatedAt) > time.Hour {
		t.Errorf("the error is %+v", need)
	}
	is(t, r.Say("too late"), context.Canceled)
	ok(t, runs.NewStore(s.DB(), runs.Options{}).WriteEnded(ctx, runs.Ended{AgentID: "a", RunID: "r"}))
	needs, err := s.NeedsMe(ctx, selvedge.Filter{}, db.At{})
	if err != nil || len(needs.Items) != 1 {
		t.Errorf("%+v waits, %v", needs.Items, err)
	}
	ok(t, s.Answer(ctx, r.Ref(), "gate", selvedge.Answer{Decision: "approved"}))
	answer, err := take(t, s, "r").Ask("gate", q)
	if err != nil || answer.Decision != "approved" {
		t.Errorf("%+v, %v", answer, err)
	}
}

func TestAnswer_SettledStepIsAConflict(t *testing.T) {
	s := open(t)
	r := take(t, s, "r")
	done, given := effect{}, effect{policy: selvedge.GiveUp, fails: errors.New("timed out")}
	_, err := done.do(r, "done")
	ok(t, err)
	_, err = given.do(r, "given")
	is(t, err, selvedge.ErrGivenUp)
	ok(t, r.Leave())
	for _, key := range []string{"done", "given"} {
		for _, decision := range []string{"done", "retry", "give_up"} {
			is(t, s.Answer(ctx, r.Ref(), key, selvedge.Answer{Decision: decision}), db.ErrConflict)
		}
	}
	r = take(t, s, "r")
	if out, err := done.do(r, "done"); out != `"sent"` || err != nil || len(done.keys) != 1 {
		t.Error(out, err, done.keys)
	}
}

func TestAnswer_WorksWithoutLiveRun(t *testing.T) {
	s := open(t)
	q := selvedge.Question{Prompt: "Deploy?"}
	r := take(t, s, "r")
	_, err := r.Ask("gate", q)
	is(t, err, selvedge.ErrWaiting)
	ok(t, live.NewStore(s.DB(), live.Options{}).Delete(ctx, "r"))
	ok(t, s.Answer(ctx, r.Ref(), "gate", selvedge.Answer{Decision: "approved"}))
	answer, err := take(t, s, "r").Ask("gate", q)
	if answer.Decision != "approved" || err != nil {
		t.Errorf("%+v, %v", answer, err)
	}
}

func TestPrune_KeepsIncompleteRunThatWaits(t *testing.T) {
	s := open(t)
	traces := runs.NewStore(s.DB(), runs.Options{})
	_, err := traces.Append(ctx, runs.Batch{AgentID: "a", RunID: "r", Records: []runs.Record{
		runs.Started{AgentID: "a", RunID: "r"}, runs.Ended{AgentID: "a", RunID: "r"},
	}})
	ok(t, err)
	_, err = take(t, s, "r").Ask("gate", selvedge.Question{Prompt: "Deploy?"})
	is(t, err, selvedge.ErrWaiting)
	none := db.Policy{Count: db.KeepNone}
	if done, err := traces.Prune(ctx, none); done.Removed != 0 || err != nil {
		t.Fatalf("%+v, %v", done, err)
	}
	ok(t, s.Cancel(ctx, selvedge.Ref{RunID: "r"}, ""))
	if done, err := traces.Prune(ctx, none); done.Removed != 1 || err != nil {
		t.Errorf("cancelled: %+v, %v", done, err)
	}
}

func TestSubmit_ParentIsOfStoresAgent(t *testing.T) {
	s := open(t)
	parent, err := s.Submit(ctx, "parent", selvedge.Start{})
	ok(t, err)
	_, err = s.Submit(ctx, "child", selvedge.Start{Parent: selvedge.Ref{RunID: "parent"}})
	ok(t, err)
	if cost, err := s.Cost(ctx, parent); cost.Runs != 2 || err != nil {
		t.Errorf("%d runs in the tree, %v", cost.Runs, err)
	}
}

func TestNext_RecreatesNoRemovedRun(t *testing.T) {
	var remove func()
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal, Observe: func(o db.Observation) {
		if o.Why == "find ready run" {
			remove()
		}
	}})
	other := dbtest.OpenAt(t, d.Path(), db.Options{Synchronous: db.SyncNormal})
	s := selvedge.On(d, selvedge.Options{Agent: "a"})
	ref, err := s.Submit(ctx, "r", selvedge.Start{Intent: "deploy"})
	ok(t, err)
	remove = func() {
		ok(t, runs.NewStore(other, runs.Options{}).Delete(ctx, ref))
		ok(t, live.NewStore(other, live.Options{}).Delete(ctx, "r"))
	}
	if r, found, err := s.TryNext(ctx); found || err != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestNext_StuckRunKeepsNoOther(t *testing.T) {
	s := open(t)
	for _, id := range []string{"full", "next"} {
		_, err := s.Submit(ctx, id, selvedge.Start{})
		ok(t, err)
	}
	lives := live.NewStore(s.DB(), live.Options{})
	records, err := lives.Records(ctx)
	ok(t, err)
	records[0].Snapshot.EventCount = math.MaxUint64 // no event can follow
	ok(t, lives.ReplaceRecords(ctx, records))
	r, err := s.Next(ctx)
	ok(t, err)
	if r.Ref().RunID != "next" {
		t.Errorf("it is %s", r.Ref().RunID)
	}
	ok(t, r.End(selvedge.Succeeded("done")))
	_, _, err = s.TryNext(ctx)
	is(t, err, db.ErrInvalid)
}

func TestNext_ClockSetBack(t *testing.T) {
	clock := dbtest.NewClock(time.Date(2026, 5, 4, 1, 0, 0, 0, time.UTC))
	s := selvedge.On(dbtest.Open(t, db.Options{Synchronous: db.SyncNormal, Now: clock.Now}),
		selvedge.Options{Agent: "a"})
	_, err := s.Submit(ctx, "r", selvedge.Start{})
	ok(t, err)
	clock.Advance(-time.Hour)
	r, found, err := s.TryNext(ctx)
	if !found || err != nil {
		t.Fatalf("it is not ready, %v", err)
	}
	ok(t, r.Leave())
	if _, found, err := s.TryNext(ctx); found || err != nil {
		t.Errorf("it is ready in the second after it was left, %v", err)
	}
}

func TestSteps_LongErrorsFillThePage(t *testing.T) {
	s := open(t)
	r := take(t, s, "r")
	e := effect{policy: selvedge.Retry, fails: errors.New(strings.Repeat("x", 1<<20))}
	for _, key := range []string{"a", "b"} {
		_, err := e.do(r, key)
		is(t, err, e.fails)
	}
	page, err := s.Steps(ctx, r.Ref(), db.At{})
	if len(page.Items) != 1 || page.Next == "" || err != nil {
		t.Errorf("%d steps on a page, %v", len(page.Items), err)
	}
}

func TestLists_OfScopeWithoutData(t *testing.T) {
	s := selvedge.On(open(t).DB(), selvedge.Options{Agent: "a", Scope: "empty"})
	if needs, err := s.NeedsMe(ctx, selvedge.Filter{}, db.At{}); len(needs.Items) != 0 || err != nil {
		t.Errorf("%+v, %v", needs, err)
	}
	is(t, second(s.NeedsMe(ctx, selvedge.Filter{}, db.At{After: "none"})), db.ErrInvalid)
	is(t, second(s.Failed(ctx, time.Time{}, db.At{After: "none"})), db.ErrInvalid)
	is(t, second(s.Steps(ctx, selvedge.Ref{RunID: "r"}, db.At{})), db.ErrNotFound)
}

func TestNext_TakesRunsInOrder(t *testing.T) {
	s := open(t)
	for i := range 3 {
		_, err := s.Submit(ctx, fmt.Sprint("r", i), selvedge.Start{Intent: "x"})
		ok(t, err)
	}
	_, err := s.Submit(ctx, "r0", selvedge.Start{Intent: "x"}) // the same run
	ok(t, err)
	for i := range 3 {
		r, err := s.Next(ctx)
		ok(t, err)
		if r.Ref().RunID != fmt.Sprint("r", i) {
			t.Fatalf("run %d is %s", i, r.Ref().RunID)
		}
		t.Cleanup(func() { ok(t, r.Leave()) })
	}
}

func TestCancel_EndsTheRunAndItsLease(t *testing.T) {
	s := open(t)
	r := take(t, s, "r")
	ok(t, s.Cancel(ctx, selvedge.Ref{RunID: "r"}, "not needed"))
	ok(t, s.Cancel(ctx, selvedge.Ref{RunID: "r"}, "not needed"))
	is(t, r.Turn(selvedge.Turn{}), db.ErrLeaseLost)
	_, err := s.Take(ctx, "r", selvedge.Start{})
	is(t, err, selvedge.ErrEnded)
	failed, err := s.Failed(ctx, time.Time{}, db.At{})
	ok(t, err)
	if len(failed.Items) != 1 || failed.Items[0].Status != runs.StatusCancelled {
		t.Errorf("failed runs are %+v", failed.Items)
	}
	is(t, s.Cancel(ctx, selvedge.Ref{RunID: "none"}, ""), db.ErrNotFound)
}

func TestMarks_EndTheRunAndItsLease(t *testing.T) {
	s := open(t)
	lives := live.NewStore(s.DB(), live.Options{})
	for id, mark := range map[string]func() error{
		"cancelled": func() error { return third(lives.MarkCancelled(ctx, "cancelled")) },
		"failed":    func() error { return third(lives.MarkFailed(ctx, "failed", "broken")) },
	} {
		r := take(t, s, id)
		ok(t, mark())
		is(t, r.Turn(selvedge.Turn{}), db.ErrLeaseLost)
		dbtest.Await(t, "the end of its context", func() bool { return r.Context().Err() != nil })
		_, err := s.Take(ctx, id, selvedge.Start{})
		is(t, err, selvedge.ErrEnded)
		summary, err := runs.NewStore(s.DB(), runs.Options{}).Get(ctx, r.Ref())
		ok(t, err)
		if string(summary.Status) != id && string(summary.Outcome) != "failure" {
			t.Errorf("the trace of what was marked %s is %+v", id, summary)
		}
	}
}

func TestAnswer_WaitsForHolderOfOpenEffect(t *testing.T) {
	s := open(t)
	r := take(t, s, "r")
	e := effect{policy: selvedge.Retry, fails: errors.New("timed out")}
	_, err := e.do(r, "k")
	is(t, err, e.fails)
	answer := selvedge.Answer{Decision: "done", Fields: json.RawMessage(`"by hand"`)}
	is(t, s.Answer(ctx, r.Ref(), "k", answer), db.ErrConflict)
	ok(t, r.Leave())
	ok(t, s.Answer(ctx, r.Ref(), "k", answer))
	r = take(t, s, "r")
	if out, err := e.do(r, "k"); out != `"by hand"` || err != nil || len(e.keys) != 1 {
		t.Fatal(out, err, e.keys)
	}
	ok(t, r.End(selvedge.FailedWith("no reason")))
	failed, err := s.Failed(ctx, time.Now().Add(-time.Hour), db.At{})
	if err != nil || len(failed.Items) != 1 || failed.Items[0].Summary != "no reason" {
		t.Errorf("%+v, %v", failed, err)
	}
}

func TestNext_TakesTheRunsOfADeadHolder(t *testing.T) {
	s := open(t)
	other := selvedge.On(dbtest.OpenAt(t, s.DB().Path(), db.Options{Synchronous: db.SyncNormal}),
		selvedge.Options{Agent: "a"})
	r := take(t, other, "r")
	ready, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if _, err := s.Next(ready); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a run that is held is ready: %v", err)
	}
	ok(t, other.DB().Close())
	dbtest.Await(t, "the end of its context", func() bool { return r.Context().Err() != nil })
	got, err := s.Next(ctx)
	if err != nil || got.Ref().RunID != "r" {
		t.Fatal(got, err)
	}
	ok(t, got.Leave())
}

func TestNext_TakesIncompleteRunOfDeadHolder(t *testing.T) {
	var hours atomic.Int64
	path := dbtest.Path(t)
	open := func() *selvedge.Store {
		return selvedge.On(dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal, Now: func() time.Time {
			return time.Unix(0, 0).Add(time.Duration(hours.Load()) * time.Hour)
		}}), selvedge.Options{Agent: "a"})
	}
	s, other := open(), open()
	ready := func(want bool) {
		t.Helper()
		hours.Add(1)
		if r, found, err := s.TryNext(ctx); found != want || err != nil {
			t.Fatalf("%+v is ready: %t, %v", r, found, err)
		}
	}
	ok(t, take(t, s, "r").Leave())
	hours.Add(1)
	ended := runs.Ended{AgentID: "a", RunID: "r"} // without an outcome: it is incomplete
	_, err := runs.NewStore(s.DB(), runs.Options{}).Append(ctx,
		runs.Batch{AgentID: "a", RunID: "r", Records: []runs.Record{ended}})
	ok(t, err)
	ready(false) // nobody took it up since

	r := take(t, other, "r")
	ready(false)
	ok(t, other.DB().Close())
	dbtest.Await(t, "the end of its context", func() bool { return r.Context().Err() != nil })
	ready(true)
}

func TestFork_KeepsWhatWasDone(t *testing.T) {
	s := open(t)
	r := take(t, s, "r")
	var e effect
	for n := range 3 {
		_, err := e.do(r, fmt.Sprint("k", n))
		ok(t, err)
		ok(t, r.Turn(selvedge.Turn{Prompt: fmt.Sprint(n)}))
	}
	_, err := s.Fork(ctx, r.Ref(), 4, "f")
	is(t, err, db.ErrInvalid)
	ref, err := s.Fork(ctx, r.Ref(), 2, "f")
	ok(t, err)
	f := take(t, s, ref.RunID)
	if f.TurnNumber() != 2 {
		t.Fatalf("the fork is at turn %d", f.TurnNumber())
	}
	for n := range 3 {
		_, err := e.do(f, fmt.Sprint("k", n))
		ok(t, err)
	}
	if len(e.keys) != 4 {
		t.Errorf("%d attempts, want those of the run and one more", len(e.keys))
	}
}

func TestChild_HasAParent(t *testing.T) {
	s := open(t)
	r := take(t, s, "r")
	child, err := r.Child("b", "c", selvedge.Start{Intent: "help"})
	ok(t, err)
	t.Cleanup(func() { ok(t, child.Leave()) })
	if child.Ref() != (selvedge.Ref{AgentID: "b", RunID: "c"}) {
		t.Errorf("the child is %v", child.Ref())
	}
	if cost, err := s.Cost(ctx, r.Ref()); err != nil || cost.Runs != 2 {
		t.Errorf("%d runs in the tree, %v", cost.Runs, err)
	}
	_, err = r.Child("b", "r", selvedge.Start{})
	is(t, err, db.ErrInvalid)
}

func TestBadInput_IsInvalidAndChangesNothing(t *testing.T) {
	s := open(t)
	r := take(t, s, "r")
	for name, err := range map[string]error{
		"empty id":     second(s.Take(ctx, "", selvedge.Start{})),
		"NUL in an id": second(s.Submit(ctx, "a\x00", selvedge.Start{})),
		"intent":       second(s.Submit(ctx, "a", selvedge.Start{Intent: "\xff"})),
		"empty key":    second(r.Reply("", nil)),
		"words":        r.Say("a\x00"),
		"no tool":      second(r.Do("k", selvedge.Effect{}, nil)),
		"arguments":    second(r.Do("k", selvedge.Effect{Tool: "t", Args: json.RawMessage("{")}, nil)),
		"policy":       second(r.Do("k", selvedge.Effect{Tool: "t", Unknown: "hope"}, nil)),
		"no question":  second(r.Ask("k", selvedge.Question{})),
		"output":       r.Turn(selvedge.Turn{Output: json.RawMessage("{")}),
		"summary":      r.End(selvedge.Succeeded("\xff")),
		"no number": second(r.Reply("k", func(context.Context) (selvedge.Reply, error) {
			return selvedge.Reply{Usage: selvedge.Usage{CostUSD: new(math.NaN())}}, nil
		})),
		"decision": s.Answer(ctx, r.Ref(), "k", selvedge.Answer{}),
	} {
		if !errors.Is(err, db.ErrInvalid) || db.Hint(err) == "" {
			t.Errorf("%s: %v (hint %q)", name, err, db.Hint(err))
		}
	}
	steps, err := s.Steps(ctx, r.Ref(), db.At{})
	if err != nil || len(steps.Items) != 0 {
		t.Errorf("%+v, %v", steps, err)
	}
}

func third[T, U any](_ T, _ U, err error) error { return err }

func second[T any](_ T, err error) error { return err }

// The holder's process is stopped: its clock stands still, and it renews nothing.
func TestNext_TakesFromAHolderThatWasStopped(t *testing.T) {
	path := dbtest.Path(t)
	at := func(since time.Duration) *selvedge.Store {
		d := dbtest.OpenAt(t, path, db.Options{
			Synchronous: db.SyncNormal,
			BootTime:    func() db.BootTime { return db.BootTime{Boot: "b", Since: since} },
		})
		return selvedge.On(d, selvedge.Options{Agent: "a", Lease: db.LeaseTerms{TTL: time.Minute}})
	}
	stopped := take(t, at(time.Hour), "r")
	early, s := at(time.Hour+59*time.Second), at(time.Hour+time.Minute)
	if _, ok, err := early.TryNext(ctx); ok || err != nil {
		t.Fatalf("a run whose lease holds is ready: %v", err)
	}
	r, found, err := s.TryNext(ctx)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	is(t, stopped.Turn(selvedge.Turn{}), db.ErrLeaseLost)
	_, err = stopped.Ask("gate", selvedge.Question{Prompt: "Go on?"})
	is(t, err, db.ErrLeaseLost)
	is(t, stopped.End(selvedge.Succeeded("late")), db.ErrLeaseLost)
	ok(t, r.Turn(selvedge.Turn{}))
	ok(t, r.End(selvedge.Succeeded("in time")))
}
