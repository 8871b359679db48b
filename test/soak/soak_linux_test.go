package soak_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"selvedge"
	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
	"selvedge/test/plot"
	"selvedge/workers"
)

func TestMain(m *testing.M) { dbtest.Main(m, map[string]dbtest.Program{}) }

const (
	callers = 16
	turns   = 8         // of each run
	records = turns + 2 // with its start and its end
	samples = 240
)

// What the operator does beside the callers.
const (
	nothing int32 = iota
	gc
	backup
	check
)

var besides = [...]string{nothing: "nothing", gc: "gc", backup: "backup", check: "check"}

// A soak is one database in use.
type soak struct {
	t       *testing.T
	d       *db.DB
	front   *selvedge.Store
	traces  *runs.Store
	lives   *live.Store
	threads *agents.Registry
	paused  *checkpoints.Store
	crews   *workers.Runtimes
	crew    *workers.Runtime
	pace    time.Duration // between the turns of a caller

	beside  atomic.Int32
	appends [len(besides)]times // by what ran beside the append
	written atomic.Int64        // records of traces
	heard   atomic.Int64        // of these, the follower had so many, or was told that their run is gone
	unread  atomic.Int64        // of these, gone before the follower read them
	events  atomic.Int64        // that the other followers had
	work    [len(besides)]int
}

// TestSoak_NothingGrows uses a database for SELVEDGE_SOAK, which is a duration, and judges that every
// figure is flat. Without it the soak lasts 3 s, which is too short for that: only what is left at
// its end is judged.
func TestSoak_NothingGrows(t *testing.T) {
	length, long := 3*time.Second, os.Getenv("SELVEDGE_SOAK")
	if long != "" {
		var err error
		if length, err = time.ParseDuration(long); err != nil || length < time.Second {
			t.Fatalf("SELVEDGE_SOAK is %q, not a duration of a second or more: %v", long, err)
		}
	}
	keep := max(3, int(50*length/(20*time.Minute))) // reached in the first quarter
	path := dbtest.Path(t)
	if err := dbtest.OpenAt(t, path, db.Options{}).Close(); err != nil { // what is opened once stays
		t.Fatal(err)
	}
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors(t)
	d := dbtest.OpenAt(t, path, db.Options{})
	s := &soak{
		t: t, d: d, front: selvedge.On(d, selvedge.Options{Lease: db.LeaseTerms{TTL: time.Minute}}),
		traces: runs.NewStore(d, runs.Options{}), lives: live.NewStore(d, live.Options{}),
		threads: agents.NewRegistry(d, agents.Options{}), paused: checkpoints.NewStore(d, checkpoints.Options{}),
		crews: workers.NewRuntimes(d, ""), pace: min(length/100, 100*time.Millisecond),
	}
	ctx := t.Context()
	var err error
	s.crew, err = workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: "crew"})
	s.ok(err)
	for store, count := range map[string]int{
		maintenance.StoreRuns: 2 * keep, maintenance.StoreLive: keep, maintenance.StoreAgents: keep,
		maintenance.StoreCheckpoints: keep, maintenance.StoreWorkers: callers * keep,
	} {
		s.ok(maintenance.SetRetention(ctx, d, "", store, db.Policy{Count: count}))
	}

	following, unfollow := context.WithCancel(ctx)
	followers := s.follow(following)
	end := time.Now().Add(length)
	var busy sync.WaitGroup
	for n := range callers {
		busy.Go(func() { s.call(ctx, n, end) })
	}
	for n := range 4 {
		busy.Go(func() { s.read(ctx, n, end) })
	}
	busy.Go(func() { s.operate(ctx, length, end) })
	figures := s.measure(ctx, length)
	busy.Wait()
	dbtest.Await(t, "the follower has everything", func() bool { return s.heard.Load() == s.written.Load() })
	unfollow()
	followers.Wait()
	s.examine(ctx)
	s.report(length, figures, long != "")
	s.ok(d.Close())
	dbtest.Await(t, "goroutines and descriptors are as before", func() bool {
		return runtime.NumGoroutine() <= goroutines && openDescriptors(t) <= descriptors
	})
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Error(err)
	}
	return len(list)
}

// ok fails the test, from any goroutine.
func (s *soak) ok(err error) {
	if err != nil {
		s.t.Helper()
		s.t.Error(err)
	}
}

// call runs one agent after another: a run of the front door, whose question a person answers, beside
// a trace of its own; its thread, its worker, and a checkpoint that is claimed and completed.
func (s *soak) call(ctx context.Context, n int, end time.Time) {
	agent := fmt.Sprint("agent-", n)
	pace := time.NewTicker(s.pace)
	defer pace.Stop()
	for number := 0; time.Now().Before(end) && !s.t.Failed(); number++ {
		if err := s.job(ctx, agent, fmt.Sprint(agent, "-run-", number), pace.C); err != nil {
			s.t.Errorf("%s: %v", agent, err)
		}
	}
}

var text = strings.Repeat("It builds, and most of its tests pass. ", 20)

func model(context.Context) (selvedge.Reply, error) {
	provider, name, used := "acme", "large", uint64(1000)
	return selvedge.Reply{
		Text: text, Tool: "shell", Args: json.RawMessage(`{"command":"make test"}`),
		Usage: selvedge.Usage{Provider: &provider, ResponseModel: &name, InputTokens: &used, OutputTokens: &used},
	}, nil
}

func (s *soak) job(ctx context.Context, agent, id string, pace <-chan time.Time) error {
	front, trace := s.front.For(agent), id+"-trace"
	run, err := front.Take(ctx, id, selvedge.Start{Intent: "mend the build"})
	if err != nil {
		return err
	}
	s.written.Add(1)
	lease, _, err := s.threads.TryLeaseThread(ctx, agent, db.LeaseTerms{TTL: time.Minute},
		func(id string) (agents.Entry, error) {
			return agents.Entry{
				SessionID: id, Thread: agent, BaseState: "none", StartedAt: time.Now(), Status: agents.Active,
			}, nil
		})
	if err != nil {
		return err
	}
	worker, err := s.crew.CreateWorker(ctx, workers.CreateWorkerRequest{Intent: workers.TaskIntent("mend")})
	if err != nil {
		return err
	}
	err = s.traces.WriteStarted(ctx, runs.Started{AgentID: agent, RunID: trace, Intent: "mend the build"})
	if err != nil {
		return err
	}
	s.written.Add(1)
	for turn := range turns {
		<-pace
		if turn == turns/2 {
			if run, err = s.ask(ctx, front, run); err != nil {
				return err
			}
		}
		if err := s.turn(ctx, run, turn); err != nil {
			return err
		}
		if err := s.append(ctx, agent, trace, turn); err != nil {
			return err
		}
		_, err := lease.Update(ctx, func(e *agents.Entry) { e.LastProgressAt = new(time.Now()) })
		if err := errors.Join(err, lease.Renew(ctx)); err != nil {
			return err
		}
		if _, err := s.crew.SendInput(ctx, worker.WorkerRef, workers.UserInput(text)); err != nil {
			return err
		}
	}
	if err := s.pause(ctx, agent); err != nil {
		return err
	}
	if err := run.End(selvedge.Succeeded("it builds")); err != nil {
		return err
	}
	if err := s.traces.WriteEnded(ctx, runs.Ended{AgentID: agent, RunID: trace}); err != nil {
		return err
	}
	s.written.Add(2)
	_, err = s.crew.StopWorker(ctx, worker.WorkerRef, nil)
	// It ended so long ago that it leaves the registry.
	_, updated := lease.Update(ctx, func(e *agents.Entry) {
		e.Status, e.CompletedAt = agents.Complete, new(time.Now().AddDate(0, 0, -8))
	})
	return errors.Join(err, updated)
}

// turn has the model answer, and does what it says.
func (s *soak) turn(ctx context.Context, run *selvedge.Run, n int) error {
	reply, err := run.Reply(fmt.Sprint("reply-", n), model)
	if err != nil {
		return err
	}
	if err := run.Say(reply.Text); err != nil {
		return err
	}
	effect := selvedge.Effect{Tool: reply.Tool, Args: reply.Args}
	_, err = run.DoTurn(fmt.Sprint("effect-", n), effect, selvedge.Turn{Prompt: text, Reply: reply},
		func(context.Context, string) (json.RawMessage, error) { return json.Marshal(text) })
	if err == nil {
		s.written.Add(1)
	}
	return err
}

// append appends a turn of 2 KB to a trace, and measures that.
func (s *soak) append(ctx context.Context, agent, id string, n int) error {
	prompt := text + text + text
	list := []runs.Turn{{Index: uint64(n), Prompt: &prompt}}
	beside, began := s.beside.Load(), time.Now()
	if err := s.traces.AppendTurns(ctx, agent, id, list); err != nil {
		return err
	}
	took := time.Since(began)
	s.appends[max(beside, s.beside.Load())].add(took)
	s.written.Add(1)
	return nil
}

// ask has the run wait for a person, who answers at once.
func (s *soak) ask(ctx context.Context, front *selvedge.Store, run *selvedge.Run) (*selvedge.Run, error) {
	question := selvedge.Question{Prompt: "Deploy it?"}
	if _, err := run.Ask("gate", question); !errors.Is(err, selvedge.ErrWaiting) {
		return nil, fmt.Errorf("the run does not wait: %w", err)
	}
	if err := front.Answer(ctx, run.Ref(), "gate", selvedge.Answer{Decision: "approved"}); err != nil {
		return nil, err
	}
	run, err := front.Take(ctx, run.Ref().RunID, selvedge.Start{})
	if err == nil {
		_, err = run.Ask("gate", question)
	}
	return run, err
}

// pause saves a checkpoint, claims it and completes the claim.
func (s *soak) pause(ctx context.Context, id string) error {
	state, err := json.Marshal(strings.Repeat(text, 10))
	if err != nil {
		return err
	}
	err = s.paused.Save(ctx, &checkpoints.PausedWorkflow{
		RunID: id, Workflow: checkpoints.Workflow{ID: "deploy", Name: "Deploy", Start: "gate", MaxIterations: 100},
		PausedStageID: "gate", Prompt: "Deploy this build?", OutputKey: "approval", CreatedAt: time.Now(),
		WFState: map[string]json.RawMessage{"log": state},
	})
	if err != nil {
		return err
	}
	claim, ok, err := s.paused.Claim(ctx, id)
	if err == nil && !ok {
		err = errors.New("the checkpoint can't be claimed")
	}
	if err == nil {
		err = claim.Complete(ctx)
	}
	return err
}

// read lists everything, and reads the run that began last.
func (s *soak) read(ctx context.Context, n int, end time.Time) {
	pace := time.NewTicker(5 * s.pace)
	defer pace.Stop()
	for time.Now().Before(end) && !s.t.Failed() {
		<-pace.C
		err := s.readOnce(ctx, n)
		if !errors.Is(err, db.ErrNotFound) && !errors.Is(err, db.ErrCursorExpired) { // it is gone
			s.ok(err)
		}
	}
}

func (s *soak) readOnce(ctx context.Context, n int) error {
	switch n {
	case 0:
		for _, err := range s.traces.All(ctx, runs.Filter{}) {
			if err != nil {
				return err
			}
		}
		for _, err := range s.paused.History(ctx, checkpoints.HistoryFilter{}) {
			if err != nil {
				return err
			}
		}
	case 1:
		page, err := s.lives.Page(ctx, live.Filter{Newest: true}, db.At{Limit: 1000})
		for _, run := range page.Items {
			if _, err := s.lives.EventsPage(ctx, run.ID, db.At{}); err != nil {
				return err
			}
		}
		return err
	case 2:
		page, err := s.traces.Page(ctx, runs.Filter{}, db.At{Limit: 1})
		for _, run := range page.Items {
			for _, err := range s.traces.Lines(ctx, runs.RunRef{AgentID: run.AgentID, RunID: run.RunID}) {
				if err != nil {
					return err
				}
			}
		}
		_, failed := s.front.Failed(ctx, time.Time{}, db.At{})
		_, needs := s.front.NeedsMe(ctx, selvedge.Filter{}, db.At{})
		return errors.Join(err, failed, needs)
	case 3:
		_, listed := s.threads.List(ctx)
		page, err := s.crew.Page(ctx, workers.WorkerFilter{}, db.At{})
		for _, worker := range page.Items {
			if _, err := s.crew.TranscriptPage(ctx, worker.WorkerRef, db.At{}); err != nil {
				return err
			}
		}
		return errors.Join(err, listed)
	}
	return nil
}

// follow follows all stores from now on until ctx ends.
func (s *soak) follow(ctx context.Context) *sync.WaitGroup {
	var followers sync.WaitGroup
	read := map[runs.RunRef]int64{}
	follows(ctx, s, &followers, s.traces.FollowAll(ctx, runs.Filter{}), func(item runs.Followed) {
		s.trace(item, read)
	})
	follows(ctx, s, &followers, s.lives.FollowAll(ctx, live.Filter{}), count[live.Followed](s))
	follows(ctx, s, &followers, s.threads.FollowAll(ctx, agents.Filter{}), count[agents.Followed](s))
	follows(ctx, s, &followers, s.paused.FollowAll(ctx, checkpoints.Filter{}), count[checkpoints.Followed](s))
	follows(ctx, s, &followers, s.crews.FollowAll(ctx, workers.RuntimeFilter{}), count[workers.Followed](s))
	return &followers
}

func follows[T any](ctx context.Context, s *soak, all *sync.WaitGroup, items iter.Seq2[T, error],
	fn func(T),
) {
	all.Go(func() {
		for item, err := range items {
			switch {
			case err == nil:
				fn(item)
			case ctx.Err() == nil:
				s.ok(err)
			}
		}
	})
}

func count[T any](s *soak) func(T) { return func(T) { s.events.Add(1) } }

// trace judges that each record comes once and in its place, or the run is gone.
func (s *soak) trace(item runs.Followed, read map[runs.RunRef]int64) {
	switch had := read[item.Of]; {
	case item.What == db.Written && item.Item.Sequence == had+1:
		read[item.Of]++
		s.heard.Add(1)
	case item.What == db.Gap && item.Gone:
		s.unread.Add(records - had)
		s.heard.Add(records - had)
		delete(read, item.Of)
	case item.What != db.StatusChanged:
		s.t.Errorf("behind record %d of %v came %v %d %s", had, item.Of, item.What, item.Item.Sequence, item.Reason)
	}
}

// operate removes what retention doesn't keep, and sometimes makes a backup or a check.
func (s *soak) operate(ctx context.Context, length time.Duration, end time.Time) {
	pace := time.NewTicker(length / 600)
	defer pace.Stop()
	for n := 1; time.Now().Before(end) && !s.t.Failed(); n++ {
		<-pace.C
		what := gc
		switch {
		case n%20 == 10:
			what = backup
		case n%20 == 0:
			what = check
		}
		s.beside.Store(what)
		s.operation(ctx, what)
		s.beside.Store(nothing)
		s.work[what]++
	}
	s.operation(ctx, gc)
}

func (s *soak) operation(ctx context.Context, what int32) {
	switch what {
	case gc:
		_, err := maintenance.Prune(ctx, s.d, maintenance.PruneOptions{})
		s.ok(err)
		_, err = maintenance.Recover(ctx, s.d)
		s.ok(err)
		cursor, err := s.crew.EventCursorNow(ctx)
		s.ok(err)
		if cursor.NextEventID > 5000 {
			cursor.NextEventID -= 5000
			_, err = s.crew.PruneEvents(ctx, cursor)
			s.ok(err)
		}
	case backup:
		dest := filepath.Join(filepath.Dir(s.d.Path()), "backup.db")
		s.ok(s.d.Backup(ctx, dest))
		s.ok(os.Remove(dest))
	case check:
		s.examine(ctx)
	}
}

// examine looks for damage: SQLite's integrity check, foreign keys, checksums, and everything as the
// stores read it.
func (s *soak) examine(ctx context.Context) {
	x, err := maintenance.Check(ctx, s.d)
	s.ok(err)
	for _, p := range x.Problems {
		s.t.Errorf("%s: %s", p.Check, p.Detail)
	}
}

// measure measures until the soak is over.
func (s *soak) measure(ctx context.Context, length time.Duration) []*figure {
	const mib = 1 << 20
	// What has a bound and still fills: 4,096 keys of runs for each of two stores (0.5 MiB), and 20,000
	// changes for each of five followers (0.2 MiB).
	const caches = 2 * mib
	list := []*figure{
		{name: "file, MiB", unit: mib},
		{name: "WAL, MiB", unit: mib, swings: true},
		{name: "live heap, MiB", unit: mib, slack: caches},
		{name: "anonymous memory, MiB", unit: mib, slack: caches},
		{name: "goroutines", unit: 1},
		{name: "descriptors", unit: 1},
	}
	pace := time.NewTicker(length / samples)
	defer pace.Stop()
	for range samples {
		<-pace.C
		h, err := s.d.Health(ctx)
		s.ok(err)
		heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(heap)
		for i, n := range []float64{
			float64(h.FileBytes), float64(h.WALBytes), float64(heap[0].Value.Uint64()), s.anonymous(),
			float64(runtime.NumGoroutine()), float64(openDescriptors(s.t)),
		} {
			list[i].samples = append(list[i].samples, n)
		}
	}
	return list
}

// anonymous is the memory of the process that is not part of a file, in bytes. Go's heap is in it,
// and that of SQLite.
func (s *soak) anonymous() float64 {
	status, err := os.ReadFile("/proc/self/status")
	s.ok(err)
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	line, _, _ := strings.Cut(rest, "kB")
	kib, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
	s.ok(err)
	return kib * 1024
}

// report logs the figures and judges them. A long soak draws docs/soak.svg.
func (s *soak) report(length time.Duration, figures []*figure, long bool) {
	work := s.d.Work()
	title := fmt.Sprintf("%d callers for %v, %s. Figures: the second quarter, then the last.", callers, length,
		time.Now().Format(time.DateOnly))
	s.t.Logf("%d transactions; %d records followed, %d removed unread, %d other events followed", work.Writes,
		s.heard.Load()-s.unread.Load(), s.unread.Load(), s.events.Load())
	s.t.Logf("%d prunes, %d backups, %d checks", s.work[gc], s.work[backup], s.work[check])
	for what, name := range besides {
		if all := &s.appends[what]; all.count() > 0 {
			s.t.Logf("an append beside %s: p50 %v, p99 %v, p99.9 %v (%d)", name, all.percentile(0.5),
				all.percentile(0.99), all.percentile(0.999), all.count())
		}
	}
	var curves []plot.Curve
	for _, f := range figures {
		s.t.Log(f.words())
		if long && !f.flat() {
			s.t.Errorf("grows: %s", f.words())
		}
		curves = append(curves, plot.Curve{Words: f.words(), Points: f.samples})
	}
	svg, err := plot.Draw(title, 4, curves)
	s.ok(err)
	s.ok(xml.Unmarshal(svg, new(struct{})))
	if long {
		s.ok(os.WriteFile("../../docs/soak.svg", svg, 0o644))
	}
}
