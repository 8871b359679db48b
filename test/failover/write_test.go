//go:build postgres

package failover_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

func TestMain(m *testing.M) {
	dbtest.Main(m, map[string]dbtest.Program{"write": write, "follow": follow})
}

// The kinds of reports of a process on each of its calls: a line of words between tabs.
const (
	began    = "began"    // it is about to be made
	acked    = "acked"    // it was done
	unknown  = "unknown"  // the outcome can't be known; the call is repeated
	failed   = "failed"   // nothing was changed
	lost     = "lost"     // under an epoch that is over
	won      = "won"      // an epoch
	released = "released" // an epoch
	renewed  = "renewed"  // an epoch that ends with its time
	strange  = "strange"  // an error that no failover explains
)

// The kinds of notes about a process.
const (
	killed     = "killed"
	unfinished = "unfinished" // a call that it had begun, and that may have been the last
)

// between is how long a writer rests after a call: the cluster is to be killed, not measured.
const between = 10 * time.Millisecond

// A teller writes the lines of a process.
type teller struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *teller) say(words ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, word := range words {
		words[i] = strings.NewReplacer("\n", " ", "\t", " ").Replace(word)
	}
	fmt.Fprintln(w.out, strings.Join(words, "\t")) //nolint:errcheck // the reader is gone then
}

// A writer is one process that writes.
type writer struct {
	*teller
	me   string
	d    *db.DB
	over chan struct{}
}

// aheadVariable is by how much a process's clock is ahead, in Go's words for a duration.
const aheadVariable = "SELVEDGE_AHEAD"

// write writes until it reads a line. Its arguments are an address, its name, and the kinds of
// lanes that it has.
func write(args []string) error {
	ctx := context.Background()
	var o db.Options
	if ahead, err := time.ParseDuration(os.Getenv(aheadVariable)); err == nil {
		o.Now = func() time.Time { return time.Now().Add(ahead) }
	}
	d, err := db.Open(ctx, args[0], o)
	if err != nil {
		return err
	}
	w := &writer{teller: &teller{out: os.Stdout}, me: args[1], d: d, over: make(chan struct{})}
	lanes := map[string]func(context.Context) []func(){
		"streams": w.streams, "holds": w.holds,
		"claims": w.claims, "changes": w.changes,
	}
	var all []func()
	for _, kind := range args[2:] {
		all = append(all, lanes[kind](ctx)...)
	}
	w.say("ready")
	var running sync.WaitGroup
	for _, lane := range all {
		running.Go(lane)
	}
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	close(w.over)
	running.Wait()
	return errors.Join(err, d.Close())
}

// rest reports whether the writer goes on.
func (w *writer) rest() bool {
	select {
	case <-w.over:
		return false
	case <-time.After(between):
		return true
	}
}

// told reports the outcome of a call, and returns whether it was done.
func (w *writer) told(lane, text string, err error) bool {
	switch {
	case err == nil:
		w.say(acked, lane, text)
	case errors.Is(err, db.ErrOutcomeUnknown):
		w.say(unknown, lane, text, err.Error())
	case errors.Is(err, db.ErrLeaseLost):
		w.say(lost, lane, text, err.Error())
	case errors.Is(err, db.ErrIO), errors.Is(err, db.ErrBusy):
		w.say(failed, lane, text, err.Error())
	default:
		w.say(strange, lane, text, err.Error())
	}
	return err == nil
}

const (
	session = "session"
	shared  = "shared" // the thing that all processes write to
)

func sharedRun(name string) runs.RunRef { return runs.RunRef{AgentID: "agent", RunID: name} }

func turn(text string) runs.Record { return runs.Turn{Prompt: &text} }

// streams append: each to the streams that all processes share, and to this process's own.
func (w *writer) streams(ctx context.Context) (lanes []func()) {
	rs, ls, rg := runs.NewStore(w.d, runs.Options{}), live.NewStore(w.d, live.Options{}),
		agents.NewRegistry(w.d, agents.Options{})
	appendRun := func(ref runs.RunRef, key string) func(string, int64) error {
		return func(text string, repeat int64) error {
			b := runs.Batch{AgentID: ref.AgentID, RunID: ref.RunID, Records: []runs.Record{turn(text)}, Repeat: repeat}
			if key != "" {
				b.Key = key + text
			}
			return second(rs.Append(ctx, b))
		}
	}
	appendLive := func(id string) func(string, int64) error {
		return func(text string, repeat int64) error {
			_, err := ls.Append(ctx, id, live.Batch{Events: []live.Event{live.TextDelta(text)}, Repeat: repeat})
			return err
		}
	}
	w.insist(func() error { return w.runtime(ctx, shared) })
	runtime, err := workers.Open(ctx, w.d, workers.RuntimeOptions{RuntimeID: shared, MustExist: true})
	if err != nil {
		w.say(strange, "workers", "", err.Error())
		return nil
	}
	var worker workers.WorkerDetail
	w.insist(func() (err error) {
		worker, err = runtime.CreateWorker(ctx,
			workers.ToolsLess(workers.WorkerIntent{}, workers.ProfileSelector{}))
		return err
	})
	w.insist(func() error { return ignore(second(ls.CreateRunWithID(ctx, w.me, session, "")), db.ErrConflict) })
	w.insist(func() error {
		return rg.Save(ctx, agents.Entry{
			SessionID: w.me, Thread: w.me, Status: agents.Active,
			StartedAt: time.Now(),
		})
	})
	for _, s := range []struct {
		lane string
		add  func(text string, repeat int64) error
		key  bool
	}{
		{"runs/" + shared, appendRun(sharedRun(shared), ""), false},
		{"runs/" + w.me, appendRun(sharedRun(w.me), ""), false},
		{"runs/keyed", appendRun(sharedRun("keyed"), "key of "), true},
		{"live/" + shared, appendLive(shared), false},
		{"live/" + w.me, appendLive(w.me), false},
		{"workers/" + string(worker.WorkerRef.WorkerID), func(text string, repeat int64) error {
			input := workers.UserInput(text)
			input.Repeat = repeat
			return second(runtime.SendInput(ctx, worker.WorkerRef, input))
		}, false},
		{"agents/" + w.me, func(text string, _ int64) error { // the last one is there, and so may be done again
			return second2(rg.UpdateEntry(ctx, w.me, func(e *agents.Entry) { e.BaseState = text }))
		}, false},
	} {
		lanes = append(lanes, func() {
			for n := 1; w.rest(); n++ {
				text := fmt.Sprintf("%s-%d", w.me, n)
				w.say(began, s.lane, text)
				err := s.add(text, 0)
				for errors.Is(err, db.ErrOutcomeUnknown) {
					w.told(s.lane, text, err)
					batch, _ := db.BatchOf(err)
					err = s.add(text, batch)
				}
				if w.told(s.lane, text, err) && s.key && n%3 == 0 { // and again, which does nothing
					if err := s.add(text, 0); err != nil && !passes(err) { // nor does one for which no primary was there
						w.told("again", text, err)
					}
				}
			}
		})
	}
	return lanes
}

// passes reports whether a call may be done when it is made again.
func passes(err error) bool {
	return errors.Is(err, db.ErrIO) || errors.Is(err, db.ErrOutcomeUnknown) || errors.Is(err, db.ErrBusy)
}

// insist does what prepares the writing until it is done.
func (w *writer) insist(do func() error) {
	for {
		err := do()
		if err == nil {
			return
		}
		if !passes(err) {
			w.say(strange, "prepare", "", err.Error())
			return
		}
	}
}

func (w *writer) runtime(ctx context.Context, id workers.RuntimeID) error {
	return second(workers.Open(ctx, w.d, workers.RuntimeOptions{RuntimeID: id}))
}

func second[T any](_ T, err error) error          { return err }
func second2[T, U any](_ T, _ U, err error) error { return err }

func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

// A held thing is had by one holder at a time.
type held struct {
	epoch   int64
	hold    func(*db.Tx) error
	release func(context.Context) error
	renew   func(context.Context) error // of what ends with its time; nil: it lasts as long as its process
}

var laneNames = []string{"reservation", "lease", "claim", "run", "live", timedReservation, timedLease}

// What ends with its time, unless it is renewed: so soon that no failover is over before.
const (
	timedReservation = "timed reservation"
	timedLease       = "timed lease"
	shortly          = 3 * time.Second
)

// now is a moment, in nanoseconds: the same for all processes of this machine, whatever clock is set.
func now() string {
	var clock unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &clock); err != nil {
		panic(err)
	}
	return fmt.Sprint(clock.Nano())
}

// logOf returns the run that is written to under the hold of a lane.
func logOf(lane string) runs.RunRef { return sharedRun("held-" + lane) }

// takers acquire exclusive holds, by lane. nil without an error: another holder has it.
func takers(d *db.DB) map[string]func(ctx context.Context) (*held, error) {
	rs, ls, rg, cs := runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{}),
		agents.NewRegistry(d, agents.Options{}), checkpoints.NewStore(d, checkpoints.Options{})
	none := func(err error) (*held, error) { return nil, ignore(err, db.ErrConflict) }
	tries := 0
	reserve := func(name string, terms db.LeaseTerms) func(context.Context) (*held, error) {
		return func(ctx context.Context) (*held, error) {
			l, err := d.Reserve(ctx, "port", name, db.ReserveOptions{LeaseTerms: terms})
			if err != nil {
				return none(err)
			}
			return &held{l.Epoch(), l.HoldTx, l.Release, l.Renew}, nil
		}
	}
	lease := func(thread string, terms db.LeaseTerms) func(context.Context) (*held, error) {
		return func(ctx context.Context) (*held, error) {
			l, _, err := rg.TryLeaseThread(ctx, thread, terms, func(id string) (agents.Entry, error) {
				return agents.Entry{SessionID: id, Thread: thread, Status: agents.Active, StartedAt: time.Now()}, nil
			})
			if err != nil || l == nil {
				return nil, err
			}
			return &held{l.Epoch(), l.HoldTx, func(ctx context.Context) error {
				return l.Release(ctx,
					agents.Complete)
			}, l.Renew}, nil
		}
	}
	return map[string]func(ctx context.Context) (*held, error){
		"reservation":    reserve(shared, db.LeaseTerms{}),
		"lease":          lease(shared, db.LeaseTerms{TTL: time.Hour}),
		timedReservation: reserve("timed", db.LeaseTerms{TTL: shortly}),
		timedLease:       lease("timed", db.LeaseTerms{TTL: shortly, Detached: true}),
		"claim": func(ctx context.Context) (*held, error) {
			c, ok, err := cs.Claim(ctx, shared)
			// of a process that is dead for the server, as after long without a primary
			if tries++; err == nil && !ok && tries%20 == 0 {
				return nil, second(cs.Recover(ctx))
			}
			if err != nil || !ok {
				return nil, err
			}
			return &held{c.Epoch(), c.HoldTx, c.Release, nil}, nil
		},
		"run": func(ctx context.Context) (*held, error) {
			r, err := rs.Resume(ctx, sharedRun("taken"))
			if err != nil {
				return none(err)
			}
			return &held{r.Epoch(), func(tx *db.Tx) error { return r.AppendTx(tx, turn("held")) }, r.Release, nil}, nil
		},
		"live": func(ctx context.Context) (*held, error) {
			r, err := ls.Resume(ctx, "taken")
			if err != nil {
				return none(err)
			}
			return &held{
				r.Epoch(), func(tx *db.Tx) error { return second(r.AppendTx(tx, live.TextDelta("held"))) },
				r.Release, nil,
			}, nil
		},
	}
}

// holds acquire an exclusive hold, write a little under it, and release it.
func (w *writer) holds(ctx context.Context) (lanes []func()) {
	rs := runs.NewStore(w.d, runs.Options{})
	for lane, take := range takers(w.d) {
		lanes = append(lanes, func() {
			name := "held-" + lane
			for n := 1; w.rest(); {
				h, err := take(ctx)
				switch {
				case err != nil:
					w.told("take-"+lane, fmt.Sprint(n), err)
					continue
				case h == nil:
					continue
				}
				timed := lane == timedReservation || lane == timedLease
				w.say(won, name, fmt.Sprint(h.epoch), now())
				for range 5 {
					if timed {
						if err := h.renew(ctx); err != nil {
							w.told("renew-"+lane, fmt.Sprint(h.epoch), err)
						} else {
							w.say(renewed, name, fmt.Sprint(h.epoch), now())
						}
					}
					text := fmt.Sprintf("%d by %s-%d", h.epoch, w.me, n)
					n++
					w.say(began, name, text)
					looked := "" // when it was looked whether it is held, or a moment before
					err := w.d.Write(ctx, "write under it", func(tx *db.Tx) error {
						looked = now()
						if err := h.hold(tx); err != nil {
							return err
						}
						return second(rs.AppendTx(tx, runs.Batch{
							AgentID: "agent", RunID: logOf(lane).RunID,
							Records: []runs.Record{turn(text)},
						}))
					})
					if err == nil {
						w.say(acked, name, text, looked)
					} else if w.told(name, text, err); errors.Is(err, db.ErrLeaseLost) {
						break
					}
				}
				for {
					err := h.release(ctx)
					if err == nil {
						w.say(released, name, fmt.Sprint(h.epoch))
						break
					}
					w.told("release-"+lane, fmt.Sprint(h.epoch), err)
					if !passes(err) {
						break
					}
				}
			}
		})
	}
	return lanes
}

func paused(id string) *checkpoints.PausedWorkflow {
	return &checkpoints.PausedWorkflow{
		RunID:    id,
		Workflow: checkpoints.Workflow{ID: "w", Name: "W", Start: "gate"}, PausedStageID: "gate",
		CreatedAt: time.Now().UTC(),
	}
}

// claims saves checkpoints, and claims and completes those of everybody.
func (w *writer) claims(ctx context.Context) []func() {
	s := checkpoints.NewStore(w.d, checkpoints.Options{})
	save := func() {
		for n := 1; w.rest(); n++ {
			id := fmt.Sprintf("paused-%s-%d", w.me, n)
			w.say(began, "saved", id)
			w.told("saved", id, s.Save(ctx, paused(id)))
		}
	}
	claim := func() {
		for w.rest() {
			ids, err := s.List(ctx)
			if err != nil {
				w.told("list", "", err)
				continue
			}
			ids = slices.DeleteFunc(ids, func(id string) bool { return id == shared })
			for _, id := range ids {
				c, ok, err := s.Claim(ctx, id)
				if err != nil {
					w.told("claim", id, err)
				}
				if err != nil || !ok {
					continue
				}
				w.say(won, id, fmt.Sprint(c.Epoch()))
				w.say(began, "completed", id)
				err = c.Complete(ctx)
				for errors.Is(err, db.ErrIO) && !errors.Is(err, db.ErrOutcomeUnknown) { // nothing was changed
					err = c.Complete(ctx)
				}
				w.told("completed", id, err)
			}
		}
	}
	return []func(){save, claim}
}
