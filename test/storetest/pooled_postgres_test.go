//go:build postgres

package storetest_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// Turns of one run, and what one holder has at a time, by callers of two handles whose connections
// are the pooler's.
func TestPostgres_StoresWorkBehindPgBouncerSessions(t *testing.T) {
	pooled := dbtest.PgBouncer(t, "../..", dbtest.Postgres(t), "session")
	var handles []*db.DB
	for range 2 {
		d, err := db.Open(t.Context(), pooled, db.Options{})
		done(t, err)
		t.Cleanup(func() { done(t, d.Close()) })
		handles = append(handles, d)
	}
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	done(t, runs.NewStore(handles[0], runs.Options{}).WriteStarted(t.Context(),
		runs.Started{RunID: ref.RunID, AgentID: ref.AgentID, StartedAt: time.Unix(1, 0)}))
	var held atomic.Int64
	mixed(t, handles, func(d *db.DB, inside bool, caller, i int) error {
		b := runs.Batch{AgentID: ref.AgentID, RunID: ref.RunID, Records: []runs.Record{
			runs.Turn{Index: uint64(caller*mixedEach + i), VerifierVerdict: runs.VerdictPass, Output: []byte("{}")},
		}}
		store := runs.NewStore(d, runs.Options{})
		if i == 0 {
			if _, err := d.Reserve(t.Context(), "port", "1", db.ReserveOptions{}); err == nil {
				held.Add(1)
			} else if !errors.Is(err, db.ErrConflict) {
				return err
			}
		}
		if inside {
			return d.Write(t.Context(), "append", func(tx *db.Tx) error { return second(store.AppendTx(tx, b)) })
		}
		return second(store.Append(t.Context(), b))
	})
	run, err := runs.NewStore(handles[1], runs.Options{}).Get(t.Context(), ref)
	done(t, err)
	if run.TurnCount != mixedCallers*mixedEach || held.Load() != 1 {
		t.Errorf("%d turns are there of %d, and %d hold one port", run.TurnCount, mixedCallers*mixedEach,
			held.Load())
	}
}

func TestPostgres_PgBouncerTransactionModeIsRefused(t *testing.T) {
	pooled := dbtest.PgBouncer(t, "../..", dbtest.Postgres(t), "transaction")
	for range 2 {
		_, err := db.Open(t.Context(), pooled, db.Options{})
		if !errors.Is(err, db.ErrUnsupported) || !strings.Contains(db.Hint(err), "pool_mode = session") {
			t.Errorf("it is told %v; the hint is %q", err, db.Hint(err))
		}
	}
}
