//go:build postgres

package runs_test

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// The seed's own tests, the model, what races and is killed, and what was recorded.
func TestPostgresDoesWhatTheFileDoes(t *testing.T) {
	dbtest.OnPostgres(t,
		TestCompletedRunReadableAfterRestart, TestRunsIsolatedPerAgentAndRun,
		TestOrphanRunStatusDistinguishesInprogressFromIncomplete,
		TestGC_CapSparesRunsInProgress, TestGCEvictsRunsOlderThanAgeCap, TestGCNeverEvictsStaleInProgressRun,
		TestCorruptTrailingLineLoadsPriorRecords, TestListRunsEmptyForUnknownAgent,
		TestGCAgeCapUsesTerminalTimeNotStart,
		TestAdoptOrphansMarksCrashedInprogressRunsIncomplete, TestAdoptOrphansLeavesCompletedRunsAlone,
		TestTornTailDoesNotDropFollowingValidRecord,
		TestTheStoreDoesWhatTheModelDoes,
		TestAdoptionSparesRunsOfAnotherLivingProcess, TestAdopt_RerunCountsEachOnce,
		TestAdoptionJudgesAnewWhatChangedSinceItLooked, TestWhatWasAcknowledgedSurvivesAKill,
		TestBegin_RunHasOneHolder, TestHeldRun_RefusesOtherProcesses, TestHeldRun_RefusesItsOwnProcess,
		TestHeldRun_EndedTakesNoMore, TestHeldRun_ErrorsNameTheRun, TestBegin_SameKeyHoldsSameRun,
		TestBegin_KeepsItsParent, TestRun_KeyedAppendSaysWhetherItRepeats, TestAppend_SaysWhetherItWasRepeated,
		TestRecover_FreesWhatTheDeadHeldEndsNothing, TestResume_TakesUpAnIncompleteRun,
		TestAdoptOrphans_SparesRunsThatWereHeld, TestPrune_EndsSilentRunsThatNobodyHolds,
		TestPrune_CancelledRunsFallUnderEachLimit,
		TestAppend_RepeatAfterSuccessDoesNothing,
		TestTranscripts,
	)
}

// A renewal that was made in time is committed behind the removal's snapshot, by which the hold is over.
func TestPostgresARunWhoseHoldWasRenewedMeanwhileStays(t *testing.T) {
	address := dbtest.Postgres(t)
	at := func(now time.Duration) *db.DB {
		return dbtest.OpenAt(t, address, db.Options{BootTime: func() db.BootTime {
			return db.BootTime{Boot: "server", Since: now}
		}})
	}
	beginner := at(0)
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	run, err := runs.NewStore(beginner, runs.Options{Lease: db.LeaseTerms{
		TTL:      time.Hour,
		Detached: true,
	}}).Begin(t.Context(), started("r", "a", start), runs.BeginOptions{})
	must(t, err)
	must(t, beginner.Close())
	holder, remover := at(50*time.Minute), at(70*time.Minute)
	var lease *db.Lease
	for r, err := range holder.AllReservations(t.Context(), db.ReservationFilter{}) {
		must(t, err)
		lease, err = holder.Reattach(t.Context(), "", r.Kind, r.Name, run.Epoch())
		must(t, err)
	}
	s := runs.NewStore(remover, runs.Options{})
	times := 0
	err = remover.Write(t.Context(), "test", func(tx *db.Tx) error {
		if err := tx.Get(new(int64), "SELECT count(*) FROM runs"); err != nil { // it has its snapshot
			return err
		}
		if times++; times == 1 {
			must(t, lease.Renew(t.Context()))
		}
		return s.DeleteTx(tx, ref)
	})
	if _, found := s.Get(t.Context(), ref); found != nil || !errors.Is(err, db.ErrConflict) || times < 2 {
		t.Errorf("after %d times: %v; looked for, it gives %v", times, err, found)
	}
}

// Nothing comes there any more: who waits for it is told where it goes on.
func TestPostgres_FollowerOfMovedRunIsTold(t *testing.T) {
	address := dbtest.Postgres(t)
	writer := dbtest.OpenAt(t, address, db.Options{})
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	must(t, second(runs.NewStore(writer, runs.Options{}).Append(t.Context(),
		runs.Batch{AgentID: "a", RunID: "r", Records: []runs.Record{started("r", "a", start)}})))
	must(t, writer.Close())
	s := storeAt(t, address)
	read, ended := make(chan struct{}, 1), make(chan error, 2)
	follow := func(items iter.Seq2[runs.Followed, error]) {
		for _, err := range records(items) {
			if err != nil {
				ended <- err
				return
			}
			read <- struct{}{}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go follow(s.Follow(ctx, ref, ""))
	go follow(s.FollowAll(ctx, runs.Filter{})) // from here on
	<-read
	_, err := maintenance.Move(ctx, address, filepath.Join(t.TempDir(), "file"), db.Options{})
	must(t, err)
	for range 2 {
		if err := <-ended; !errors.Is(err, db.ErrMoved) || db.Hint(err) == "" {
			t.Errorf("it ended with %v", err)
		}
	}
	if _, err := s.Get(ctx, ref); err != nil {
		t.Errorf("read where it was: %v", err)
	}
	old := dbtest.OpenAt(t, address, db.Options{ReadOnly: true}) // to look
	within, leave := context.WithCancel(ctx)
	for _, err := range records(runs.NewStore(old, runs.Options{}).Follow(within, ref, "")) {
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("who opened it behind the move: %v", err)
		}
		leave()
	}
	leave()
}
