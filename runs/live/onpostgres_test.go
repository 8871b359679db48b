//go:build postgres

package live_test

import (
	"errors"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

// The seed's own tests, the model, what races and is killed, and what was recorded.
func TestPostgresDoesWhatTheFileDoes(t *testing.T) {
	dbtest.OnPostgres(t,
		TestRunStoreTracksStatusAndEvents, TestRunStoreReplacesPersistedRecords, TestRunHandleOnlyCancelsCurrentRun,
		TestCancel_HookRunsWhateverTheMark, TestCancelNeverFiresAnotherRunsToken,
		TestTheStoreEqualsTheModel,
		TestSeveralProcessesWriteOneRun, TestAKilledProcessLosesNothingThatItAcknowledged,
		TestBegin_LiveRunHasOneHolder, TestRun_KeyedAppendSaysWhetherItRepeats,
		TestHeldLiveRun_RefusesOtherProcesses,
		TestHeldLiveRun_RefusesItsOwnProcess, TestMark_EndsTheLeaseFromOutside, TestHoldTx_OneLeaseHoldsBoth,
		TestHoldTx_RepeatHoldsOn, TestCap_SparesHeldRuns,
		TestRecover_FreesWhatTheDeadHeldEndsNothing, TestRecoverJudgesAnewWhatChangedSinceItLooked,
		TestAppend_RepeatAfterSuccessDoesNothing, TestAppend_RepeatFindsCappedBatch,
		TestAppend_RepeatsInOneTxStayApart,
		TestTranscripts,
	)
}

// A renewal that was made in time is committed behind the removal's snapshot, by which the hold is over.
func TestPostgres_RenewedLiveRunStays(t *testing.T) {
	address := dbtest.Postgres(t)
	at := func(now time.Duration) *db.DB {
		return dbtest.OpenAt(t, address, db.Options{BootTime: func() db.BootTime {
			return db.BootTime{Boot: "server", Since: now}
		}})
	}
	beginner := at(0)
	run, err := live.NewStore(beginner, live.Options{Lease: db.LeaseTerms{
		TTL:      time.Hour,
		Detached: true,
	}}).Begin(t.Context(), live.Start{ID: "r"})
	if err != nil {
		t.Fatal(err)
	}
	holder, remover := at(50*time.Minute), at(70*time.Minute)
	var lease *db.Lease
	for r, err := range holder.AllReservations(t.Context(), db.ReservationFilter{}) {
		if err == nil {
			lease, err = holder.Reattach(t.Context(), "", r.Kind, r.Name, run.Epoch())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s := live.NewStore(remover, live.Options{})
	times := 0
	err = remover.Write(t.Context(), "test", func(tx *db.Tx) error {
		if err := tx.Get(new(int64), "SELECT count(*) FROM live_runs"); err != nil { // it has its snapshot
			return err
		}
		if times++; times == 1 {
			if err := lease.Renew(t.Context()); err != nil {
				t.Error(err)
			}
		}
		return s.DeleteTx(tx, "r")
	})
	if n, failed := run.Append(t.Context()); failed != nil || !errors.Is(err, db.ErrConflict) || times < 2 {
		t.Errorf("after %d times: %v; its holder appends %v, %v", times, err, n, failed)
	}
}
