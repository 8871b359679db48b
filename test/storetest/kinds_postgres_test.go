//go:build postgres

package storetest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/state"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

// A contest is a call that locks rows of a kind, beside a serialisable function that has read the same
// thing and changes it: docs/decisions/0020.
type contest struct {
	name    string                                    // the table of the kind, and what the call does
	prepare func(ctx context.Context, d *db.DB) error // nil: nothing
	call    func(d *db.DB, tx *db.Tx) error
	serial  func(d *db.DB, tx *db.Tx) error // nil: the same
	query   string                          // of a number
	adds    bool                            // the call runs again if the function adds the row first
	// want is that number once both have ended, if the call commits first, and if the function does.
	want [2]int64
}

func contests() []contest {
	traces := func(d *db.DB) *runs.Store { return runs.NewStore(d, runs.Options{}) }
	watched := func(d *db.DB) *live.Store { return live.NewStore(d, live.Options{}) }
	paused := func(d *db.DB) *checkpoints.Store { return checkpoints.NewStore(d, checkpoints.Options{}) }
	registry := func(d *db.DB) *agents.Registry { return agents.NewRegistry(d, agents.Options{}) }
	values := func(d *db.DB) *state.Store { return state.NewStore(d, state.Options{}) }
	named := func(id string) runs.RunRef { return runs.RunRef{AgentID: "a", RunID: id} }
	turn := runs.Batch{AgentID: "a", RunID: "r", Records: []runs.Record{runs.Turn{Output: []byte("{}")}}}
	runtime := workers.RuntimeOptions{RuntimeID: "r"}
	var worker workers.WorkerRef
	entry := agents.Entry{
		SessionID: "s", Thread: "t", BaseState: "b", StartedAt: time.Unix(1, 0), Status: agents.Active,
	}
	var thread *agents.Lease
	var lease *db.Lease
	terms := db.ReserveOptions{LeaseTerms: db.LeaseTerms{TTL: time.Hour}}
	begin := func(ctx context.Context, d *db.DB) error {
		started := []runs.Record{runs.Started{AgentID: "a", RunID: "r", StartedAt: time.Unix(1, 0)}}
		return traces(d).AppendRecords(ctx, "a", "r", started)
	}
	end := func(ctx context.Context, d *db.DB) error {
		return traces(d).AppendRecords(ctx, "a", "r", []runs.Record{runs.Ended{}})
	}
	watch := func(ctx context.Context, d *db.DB) error {
		return second(watched(d).ReserveRunWithID(ctx, "r", "", ""))
	}
	pause := func(ctx context.Context, d *db.DB) error {
		return paused(d).SaveDocument(ctx, "r", pauseOf("r", 1))
	}
	value := state.Ref{Key: "k"}
	set := func(ctx context.Context, d *db.DB) error { return second(values(d).Set(ctx, value, []byte("1"))) }
	work := func(ctx context.Context, d *db.DB) error {
		r, err := workers.Open(ctx, d, runtime)
		if err != nil {
			return err
		}
		made, err := r.CreateWorker(ctx, workers.ToolsLess(workers.WorkerIntent{}, workers.ProfileSelector{}))
		worker = made.WorkerRef
		return err
	}
	const pins = "SELECT count(*) FROM retention_pins"
	const active = "SELECT count(*) FROM agents WHERE status = 'active' AND thread = 't'"
	build := func(id string) (agents.Entry, error) {
		made := entry
		made.SessionID = id
		return made, nil
	}
	reserve := func(d *db.DB, tx *db.Tx) error {
		return second(registry(d).TryReserveThreadTx(tx, "t", build))
	}
	unless := func(tx *db.Tx, change func() error) error { // there is an agent on the thread
		var n int
		if err := tx.Get(&n, active); err != nil || n > 0 {
			return err
		}
		return change()
	}
	dead := func(ctx context.Context, d *db.DB) error {
		gone := entry
		gone.PID, gone.BootID = new(uint32(1<<30)), agents.CurrentBootID()
		return registry(d).Save(ctx, gone)
	}
	list := []contest{
		{
			name: "runs: append", query: "SELECT count(*) FROM run_records", want: [2]int64{3, 3},
			prepare: func(ctx context.Context, d *db.DB) error { return second(traces(d).Append(ctx, turn)) },
			call:    func(d *db.DB, tx *db.Tx) error { return second(traces(d).AppendTx(tx, turn)) },
		},
		{
			name: "live_runs: event", query: "SELECT sum(event_count) FROM live_runs", want: [2]int64{2, 2},
			prepare: watch,
			call: func(d *db.DB, tx *db.Tx) error {
				event := live.Batch{Events: []live.Event{live.TextDelta("x")}}
				return second(watched(d).AppendTx(tx, "r", event))
			},
		},
		{
			name: "worker_runtimes: input", query: "SELECT count(*) FROM worker_entries", want: [2]int64{2, 2},
			prepare: work,
			call: func(d *db.DB, tx *db.Tx) error {
				r, err := workers.OpenTx(tx, d, runtime)
				if err == nil {
					_, err = r.SendInputTx(tx, worker, workers.UserInput("x"))
				}
				return err
			},
		},
		{
			name: "checkpoints: pause", query: "SELECT coalesce(sum(changes), 0) FROM checkpoints",
			want: [2]int64{2, 2},
			call: func(d *db.DB, tx *db.Tx) error { return paused(d).SaveDocumentTx(tx, "r", pauseOf("r", 1)) },
		},
		{
			name: "checkpoints: claim", query: "SELECT sum(changes) FROM checkpoints", want: [2]int64{2, 2},
			prepare: pause,
			call: func(d *db.DB, tx *db.Tx) error {
				_, _, err := paused(d).ClaimTx(tx, "r")
				return err
			},
		},
		{
			name: "agents: query", query: "SELECT count(*) FROM agent_context_queries", want: [2]int64{2, 2},
			prepare: func(ctx context.Context, d *db.DB) error { return registry(d).Save(ctx, entry) },
			call: func(d *db.DB, tx *db.Tx) error {
				return registry(d).LogContextQueryTx(tx, "s", agents.ContextQuery{Path: "p"})
			},
		},
		{
			name: "agent_reservations: heartbeat", query: "SELECT count(*) FROM agent_reservations",
			prepare: func(ctx context.Context, d *db.DB) (err error) {
				thread, _, err = registry(d).TryLeaseThread(ctx, "t", terms.LeaseTerms,
					func(string) (agents.Entry, error) { return entry, nil })
				return err
			},
			call:   func(_ *db.DB, tx *db.Tx) error { return thread.RenewTx(tx) },
			serial: func(d *db.DB, tx *db.Tx) error { return registry(d).UpdateStatusTx(tx, "s", agents.Abandoned) },
		},
		{
			name: "agent_reservations: two", query: active, want: [2]int64{1, 1}, call: reserve,
		},
		{
			name: "agent_reservations: beside find or create", query: active, want: [2]int64{1, 1}, call: reserve,
			serial: func(d *db.DB, tx *db.Tx) error {
				_, _, err := registry(d).FindOrCreateActiveEntryTx(tx,
					func(e agents.Entry) bool { return e.Thread == "t" }, func(*agents.Entry) {}, build)
				return err
			},
		},
		{
			name: "agent_reservations: beside a save", query: active, want: [2]int64{1, 1}, call: reserve,
			serial: func(d *db.DB, tx *db.Tx) error {
				return unless(tx, func() error { return registry(d).SaveTx(tx, entry) })
			},
		},
		{
			name: "agent_reservations: beside a move", query: active, want: [2]int64{1, 1},
			prepare: func(ctx context.Context, d *db.DB) error {
				other := entry
				other.Thread = "u"
				return registry(d).Save(ctx, other)
			},
			call: reserve,
			serial: func(d *db.DB, tx *db.Tx) error {
				return unless(tx, func() error {
					_, _, err := registry(d).UpdateEntryTx(tx, "s", func(e *agents.Entry) { e.Thread = "t" })
					return err
				})
			},
		},
		{
			name: "agent_reservations: beside a return", query: active, want: [2]int64{1, 1},
			prepare: func(ctx context.Context, d *db.DB) error {
				return errors.Join(registry(d).Save(ctx, entry), registry(d).UpdateStatus(ctx, "s", agents.Complete))
			},
			call: reserve,
			serial: func(d *db.DB, tx *db.Tx) error {
				return unless(tx, func() error { return registry(d).UpdateStatusTx(tx, "s", agents.Active) })
			},
		},
		{
			name: "agent_reservations: beside that of another thread", query: active, want: [2]int64{2, 1},
			call: reserve,
			serial: func(d *db.DB, tx *db.Tx) error {
				return second(registry(d).TryReserveThreadTx(tx, "u", build))
			},
		},
		{
			name: "agent_reservations: beside the end of the dead", query: active, want: [2]int64{1, 1},
			prepare: dead, call: reserve,
			serial: func(d *db.DB, tx *db.Tx) error { return registry(d).UpdateStatusTx(tx, "s", agents.Complete) },
		},
		{
			name: "agent_reservations: beside a removal", query: active, want: [2]int64{1, 1},
			prepare: dead, call: reserve,
			serial: func(d *db.DB, tx *db.Tx) error { return registry(d).DeleteTx(tx, "s") },
		},
		{
			name: "agent_reservations: beside a pin", query: active, want: [2]int64{1, 1},
			prepare: dead, call: reserve,
			serial: func(d *db.DB, tx *db.Tx) error { return registry(d).PinTx(tx, "s") },
		},
		{
			name: "agent_reservations: of a lease that is over", query: active, want: [2]int64{1, 1},
			prepare: func(ctx context.Context, d *db.DB) error {
				_, _, err := registry(d).TryLeaseThread(ctx, "t", db.LeaseTerms{TTL: 1}, build)
				return err
			},
			call:   reserve,
			serial: reserve,
		},
		{
			name: "leases: reserve", query: "SELECT count(*) FROM leases", want: [2]int64{1, 1},
			call: func(d *db.DB, tx *db.Tx) error { return second(d.ReserveTx(tx, "port", "p", terms)) },
		},
		{
			name: "leases: renew", query: "SELECT count(*) FROM leases",
			prepare: func(ctx context.Context, d *db.DB) (err error) {
				lease, err = d.Reserve(ctx, "port", "p", terms)
				return err
			},
			call:   func(_ *db.DB, tx *db.Tx) error { return lease.RenewTx(tx) },
			serial: func(_ *db.DB, tx *db.Tx) error { return second(tx.Exec("DELETE FROM leases")) },
		},
		{
			name: "run_leavings: removal", query: "SELECT count(*) FROM runs",
			prepare: end,
			call:    func(d *db.DB, tx *db.Tx) error { return traces(d).DeleteTx(tx, named("r")) },
		},
		{
			name: "usage_days: settle", query: "SELECT sum(input_tokens) FROM usage_days",
			want: [2]int64{300, 300},
			prepare: func(ctx context.Context, d *db.DB) (err error) {
				used := runs.Unknown{Kind: "model_turn", Raw: []byte(
					`{"record":"model_turn","token_usage":{"prompt_tokens":100,"completion_tokens":20}}`)}
				end := runs.Ended{Termination: runs.Termination{Outcome: &runs.AgentOutcome{Status: "success"}}}
				for _, id := range []string{"earlier", "r", "other"} {
					err = errors.Join(err, traces(d).AppendRecords(ctx, "a", id, []runs.Record{used, end}))
				}
				return errors.Join(err, traces(d).Delete(ctx, named("earlier")))
			},
			call:   func(d *db.DB, tx *db.Tx) error { return traces(d).DeleteTx(tx, named("r")) },
			serial: func(d *db.DB, tx *db.Tx) error { return traces(d).DeleteTx(tx, named("other")) },
		},
		{
			name: "runs: creation", query: "SELECT count(*) FROM run_records", want: [2]int64{2, 2}, adds: true,
			call: func(d *db.DB, tx *db.Tx) error { return second(traces(d).AppendTx(tx, turn)) },
		},
		{
			name: "live_runs: creation", query: "SELECT count(*) FROM live_runs", want: [2]int64{1, 1}, adds: true,
			call: func(d *db.DB, tx *db.Tx) error {
				return second(watched(d).ReserveRunWithIDTx(tx, "r", "", ""))
			},
		},
		{
			name: "agents: creation", query: "SELECT coalesce(sum(changes), 0) FROM agents", want: [2]int64{2, 2},
			call: func(d *db.DB, tx *db.Tx) error { return registry(d).SaveTx(tx, entry) },
		},
		{
			name: "runs: resume", query: "SELECT count(*) FROM leases", want: [2]int64{1, 1}, prepare: begin,
			call: func(d *db.DB, tx *db.Tx) error { return second(traces(d).ResumeTx(tx, named("r"))) },
		},
		{
			name: "live_runs: resume", query: "SELECT count(*) FROM leases", want: [2]int64{1, 1}, prepare: watch,
			call: func(d *db.DB, tx *db.Tx) error { return second(watched(d).ResumeTx(tx, "r")) },
		},
		{
			name: "state_values: write", query: "SELECT coalesce(sum(changes), 0) FROM state_values",
			want: [2]int64{2, 2},
			call: func(d *db.DB, tx *db.Tx) error { return second(values(d).SetTx(tx, value, []byte("1"))) },
		},
		{
			name: "state_values: removal", query: "SELECT count(*) FROM state_values", want: [2]int64{1, 0},
			prepare: set,
			call:    func(d *db.DB, tx *db.Tx) error { return values(d).DeleteTx(tx, value) },
			serial: func(d *db.DB, tx *db.Tx) error {
				return second(values(d).SetTx(tx, value, []byte("1")))
			},
		},
		{
			name: "retention_pins: pin", query: pins, want: [2]int64{1, 1}, prepare: begin,
			call: func(d *db.DB, tx *db.Tx) error { return traces(d).PinTx(tx, named("r")) },
		},
		{
			name: "retention_pins: unpin", query: pins, want: [2]int64{1, 0},
			prepare: func(ctx context.Context, d *db.DB) error {
				return errors.Join(begin(ctx, d), traces(d).Pin(ctx, named("r")))
			},
			call:   func(d *db.DB, tx *db.Tx) error { return traces(d).UnpinTx(tx, named("r")) },
			serial: func(d *db.DB, tx *db.Tx) error { return traces(d).PinTx(tx, named("r")) },
		},
	}
	for _, thing := range []struct {
		table       string
		add         func(ctx context.Context, d *db.DB) error
		pin, remove func(d *db.DB, tx *db.Tx) error
	}{
		{
			"runs",
			end,
			func(d *db.DB, tx *db.Tx) error { return traces(d).PinTx(tx, named("r")) },
			func(d *db.DB, tx *db.Tx) error { return traces(d).DeleteTx(tx, named("r")) },
		},
		{
			"live_runs",
			watch,
			func(d *db.DB, tx *db.Tx) error { return watched(d).PinTx(tx, "r") },
			func(d *db.DB, tx *db.Tx) error { return watched(d).DeleteTx(tx, "r") },
		},
		{
			"worker_runtimes",
			work,
			func(d *db.DB, tx *db.Tx) error { return workers.NewRuntimes(d, "").PinTx(tx, worker) },
			func(d *db.DB, tx *db.Tx) error { return workers.NewRuntimes(d, "").DeleteTx(tx, "r") },
		},
		{
			"checkpoints",
			pause,
			func(d *db.DB, tx *db.Tx) error { return paused(d).PinTx(tx, "r") },
			func(d *db.DB, tx *db.Tx) error { return paused(d).DeleteTx(tx, checkpoints.Ref{RunID: "r"}) },
		},
		{
			"agents",
			func(ctx context.Context, d *db.DB) error { return registry(d).Save(ctx, entry) },
			func(d *db.DB, tx *db.Tx) error { return registry(d).PinTx(tx, "s") },
			func(d *db.DB, tx *db.Tx) error { return registry(d).DeleteTx(tx, "s") },
		},
		{
			"state_values",
			set,
			func(d *db.DB, tx *db.Tx) error { return values(d).PinTx(tx, value) },
			func(d *db.DB, tx *db.Tx) error { return values(d).DeleteTx(tx, value) },
		},
	} {
		list = append(list, contest{
			name: thing.table + ": pin", query: pins, want: [2]int64{1, 0}, prepare: thing.add, call: thing.pin,
			serial: func(d *db.DB, tx *db.Tx) error {
				var pinned int
				if err := tx.Get(&pinned, pins); err != nil || pinned > 0 {
					return err
				}
				return thing.remove(d, tx)
			},
		})
	}
	return list
}

func TestPostgres_ReaderMeetsLockedChange(t *testing.T) {
	tables := map[string]bool{}
	for i, c := range contests() {
		table, _, _ := strings.Cut(c.name, ":")
		tables[table] = true
		for order, name := range []string{" first", " second"} {
			t.Run(c.name+name, func(t *testing.T) {
				undisturbed(t, func() error { return contests()[i].run(t, order) })
			})
		}
	}
	for _, table := range txn.LockedTables() {
		if !tables[table] {
			t.Errorf("%s has no case", table)
		}
	}
}

// run commits the call between the read and the change of the function, which must run again, or has the
// call wait for the function.
func (c contest) run(t *testing.T, order int) error {
	handles := twoHandles(t)
	for _, d := range handles {
		owned(t, d)
	}
	if c.prepare != nil {
		done(t, c.prepare(t.Context(), handles[1]))
	}
	if c.serial == nil {
		c.serial = c.call
	}
	called, calls, ran, after := make(chan error, 1), 0, 0, 0
	call := func() {
		called <- handles[1].WriteLocked(t.Context(), "call", func(tx *db.Tx) error {
			calls++
			return c.call(handles[1], tx)
		})
	}
	err := handles[0].Write(t.Context(), "change", func(tx *db.Tx) error {
		var read *int64
		if err := tx.Get(&read, c.query); err != nil {
			return err
		}
		if ran++; ran == 1 && order == 0 {
			call()
		}
		err := c.serial(handles[0], tx)
		if err == nil && after == 0 && order == 1 {
			after = ran
			err = tx.Get(&read, "SELECT 1") // with which queued statements go
			go call()
			dbtest.AwaitPostgresWaits(t, handles[0].Path(), 1)
		}
		return err
	})
	if order == 1 && after == 0 {
		return errors.Join(err, errDisturbed)
	}
	done(t, errors.Join(decided(err), decided(<-called)))
	switch {
	case order == 0 && ran < 2:
		t.Error("the function committed what it had read before the call")
	case order == 1 && ran > after:
		return errDisturbed
	case calls > 1 && !c.adds:
		t.Errorf("the call ran %d times", calls)
	}
	var got int64
	done(t, handles[0].Read(t.Context(), "check", func(rx *db.Rx) error { return rx.Get(&got, c.query) }))
	if got != c.want[order] {
		t.Errorf("%s is %d, want %d", c.query, got, c.want[order])
	}
	return nil
}

// decided drops an error that says that the other one was first.
func decided(err error) error {
	for _, outcome := range []error{db.ErrConflict, db.ErrNotFound, db.ErrLeaseLost} {
		if errors.Is(err, outcome) {
			return nil
		}
	}
	return err
}
