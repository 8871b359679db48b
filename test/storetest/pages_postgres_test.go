//go:build postgres

package storetest_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

// listed are as many rows as a list shows. Ten each have the same time.
const listed = 6_000

// A server chooses its plans by its statistics of the rows, and a page whose rest is sorted is
// read as a whole: then a list that is read page by page costs the square of its length.
func TestPostgres_ListReadsOnceNotPerPage(t *testing.T) {
	const n = listed
	address := dbtest.Postgres(t)
	d, err := db.Open(t.Context(), address, db.Options{})
	done(t, err)
	runtime, err := workers.Open(t.Context(), d, workers.RuntimeOptions{RuntimeID: "runtime"})
	done(t, err)
	done(t, runtime.Close())
	done(t, d.Close())
	// As a replica, which neither fires triggers nor looks for foreign keys.
	for _, statement := range strings.SplitAfter(`CREATE TABLE numbers AS
	SELECT n, 'r-' || lpad((n * 7919 % `+strconv.Itoa(listed)+`)::text, 7, '0') AS name,
		1780000000000000000 + n / 10 AS at FROM generate_series(1, `+strconv.Itoa(listed)+`) AS n;
INSERT INTO runs (scope, agent_id, run_id, intent, started_at, status, others)
	SELECT 1, 'a-' || n % 2, name, 'i', at, 'in_progress', 0 FROM numbers;
INSERT INTO live_runs (scope, run_id, session_id, status, created_at, updated_at, event_count, kept_events,
	kept_bytes)
SELECT 1, name, 's-' || n % 2, CASE n % 3 WHEN 0 THEN 'completed' WHEN 1 THEN 'failed'
	ELSE 'executing' END, at, at, 0, 0, 0 FROM numbers;
INSERT INTO live_texts (run, prompt) SELECT key, 'p' FROM live_runs;
INSERT INTO agents (scope, session_id, thread, status, started_at, base_state)
	SELECT 1, name, 't-' || n % 2, 'active', at, 'b' FROM numbers;
INSERT INTO checkpoints (scope, state, run_id, paused_stage_id, prompt, created_at, saved_at, size, checksum,
	claimed_at)
SELECT 1, CASE n % 2 WHEN 0 THEN 'paused' ELSE 'claimed' END, name, 'g', 'p', at, at, 2, 0, CASE n % 2 WHEN 1
	THEN at END FROM numbers;
INSERT INTO checkpoint_documents (checkpoint, document) SELECT id, '{}' FROM checkpoints;
INSERT INTO checkpoint_history (scope, run_id, ending, saved_at, size, claimed_at, completed_at)
SELECT 1, CASE n % 2 WHEN 0 THEN 'often' ELSE name END, 'completed', at, 2, at, at FROM numbers;
INSERT INTO workers (runtime, worker_id, status, transcript_len, next_transcript_sequence, last_event_id)
SELECT 1, name, CASE n % 2 WHEN 0 THEN 'running' ELSE 'stopped' END, 0, 1, 1 FROM numbers;
INSERT INTO worker_requests (worker, intent, profile, capabilities)
	SELECT key, 'assistant', 'runtime_default', 0 FROM workers;
INSERT INTO worker_runtimes (scope, runtime_id, status, max_transcript_items, max_event_items,
	next_worker_sequence, next_event_id, next_diagnostic_id,
    next_event_position, first_event_position, events_in_order, running_workers, stopped_workers,
    cancelled_workers, diagnostics)
SELECT 1, name, 'running', 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0 FROM numbers;
INSERT INTO leases (scope, kind, name, reserved_at, renewed_at, lease_ttl, lease_until, lease_boot_id,
	lease_time_ns, lease_wall_until)
SELECT 1, 'k-' || n % 2, name, at, at, 1, 1, 'server', 1, 1 FROM numbers;
ANALYZE`, ";\n") {
		dbtest.PostgresExec(t, address, "SET search_path = selvedge; SET session_replication_role = replica; "+
			statement)
	}
	session, agent, thread := "s-1", "a-1", "t-1"
	for name, l := range map[string]struct {
		table string
		items int
		walk  func(ctx context.Context, d *db.DB) (int, error)
	}{
		"runs": {"runs", n, func(ctx context.Context, d *db.DB) (int, error) {
			return walked(func(at db.At) (db.Page[runs.RunSummary], error) {
				return runs.NewStore(d, runs.Options{}).Page(ctx, runs.Filter{}, at)
			})
		}},
		"runs of an agent": {"runs", n / 2, func(ctx context.Context, d *db.DB) (int, error) {
			return walked(func(at db.At) (db.Page[runs.RunSummary], error) {
				return runs.NewStore(d, runs.Options{}).Page(ctx, runs.Filter{Agent: &agent}, at)
			})
		}},
		"live":              {"live_runs", n, livePages(live.Filter{})},
		"live of a session": {"live_runs", n / 2, livePages(live.Filter{Session: &session})},
		"live that ended": {
			"live_runs", n/3 + (n+2)/3,
			livePages(live.Filter{Statuses: []live.RunStatus{live.Completed, live.Failed}}),
		},
		"agents":             {"agents", n, agentPages(agents.Filter{})},
		"agents on a thread": {"agents", n / 2, agentPages(agents.Filter{Thread: &thread})},
		"active agents":      {"agents", n, agentPages(agents.Filter{Statuses: []agents.Status{agents.Active}})},
		"checkpoints":        {"checkpoints", n, checkpointPages(checkpoints.Filter{})},
		"waiting": {
			"checkpoints", n / 2,
			checkpointPages(checkpoints.Filter{State: checkpoints.Paused}),
		},
		"claimed": {
			"checkpoints", n / 2,
			checkpointPages(checkpoints.Filter{State: checkpoints.Claimed}),
		},
		"history": {"checkpoint_history", n, historyPages(checkpoints.HistoryFilter{})},
		"history of a run": {
			"checkpoint_history", n / 2,
			historyPages(checkpoints.HistoryFilter{RunID: "often"}),
		},
		"workers":         {"workers", n, workerPages(workers.WorkerFilter{})},
		"running workers": {"workers", n / 2, workerPages(workers.WorkerFilter{Status: workers.Running})},
		"stopped workers": {"workers", n / 2, workerPages(workers.WorkerFilter{Status: workers.Stopped})},
		"runtimes": {"worker_runtimes", n + 1, func(ctx context.Context, d *db.DB) (int, error) {
			return walked(func(at db.At) (db.Page[workers.RuntimeSummary], error) {
				return workers.NewRuntimes(d, "").Page(ctx, workers.RuntimeFilter{}, at)
			})
		}},
		"reservations":           {"leases", n, reservationPages(db.ReservationFilter{})},
		"reservations of a kind": {"leases", n / 2, reservationPages(db.ReservationFilter{Kind: "k-1"})},
	} {
		t.Run(name, func(t *testing.T) {
			before := dbtest.PostgresReads(t, address, l.table)
			d, err := db.Open(t.Context(), address, db.Options{})
			done(t, err)
			items, err := l.walk(t.Context(), d)
			done(t, err)
			done(t, d.Close())
			if items != l.items {
				t.Errorf("%d items are listed of %d", items, l.items)
			}
			read := dbtest.PostgresReads(t, address, l.table) - before
			t.Logf("%.2f rows were read for each that is there", float64(read)/n)
			if read > 3*int64(n) {
				t.Errorf("%d rows of %s were read of %d that are there", read, l.table, n)
			}
		})
	}
}

// walked reads all pages, and counts their items.
func walked[T any](page func(at db.At) (db.Page[T], error)) (items int, err error) {
	for at := (db.At{Limit: 100}); ; {
		got, err := page(at)
		if err != nil {
			return items, err
		}
		items += len(got.Items)
		if at.After = got.Next; at.After == "" {
			return items, nil
		}
	}
}

func livePages(f live.Filter) func(context.Context, *db.DB) (int, error) {
	return func(ctx context.Context, d *db.DB) (int, error) {
		return walked(func(at db.At) (db.Page[live.RunSnapshot], error) {
			return live.NewStore(d, live.Options{}).Page(ctx, f, at)
		})
	}
}

func agentPages(f agents.Filter) func(context.Context, *db.DB) (int, error) {
	return func(ctx context.Context, d *db.DB) (int, error) {
		return walked(func(at db.At) (db.Page[agents.Entry], error) {
			return agents.NewRegistry(d, agents.Options{}).Page(ctx, f, at)
		})
	}
}

func checkpointPages(f checkpoints.Filter) func(context.Context, *db.DB) (int, error) {
	return func(ctx context.Context, d *db.DB) (int, error) {
		return walked(func(at db.At) (db.Page[checkpoints.Summary], error) {
			return checkpoints.NewStore(d, checkpoints.Options{}).Page(ctx, f, at)
		})
	}
}

func historyPages(f checkpoints.HistoryFilter) func(context.Context, *db.DB) (int, error) {
	return func(ctx context.Context, d *db.DB) (int, error) {
		return walked(func(at db.At) (db.Page[checkpoints.Past], error) {
			return checkpoints.NewStore(d, checkpoints.Options{}).HistoryPage(ctx, f, at)
		})
	}
}

func workerPages(f workers.WorkerFilter) func(context.Context, *db.DB) (int, error) {
	return func(ctx context.Context, d *db.DB) (int, error) {
		r, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: "runtime"})
		if err != nil {
			return 0, err
		}
		return walked(func(at db.At) (db.Page[workers.WorkerSummary], error) { return r.Page(ctx, f, at) })
	}
}

func reservationPages(f db.ReservationFilter) func(context.Context, *db.DB) (int, error) {
	return func(ctx context.Context, d *db.DB) (int, error) {
		return walked(func(at db.At) (db.Page[db.Reservation], error) { return d.Reservations(ctx, f, at) })
	}
}
