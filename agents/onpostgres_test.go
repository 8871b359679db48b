//go:build postgres

package agents_test

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/internal/dbtest"
)

// The seed's own tests, the model, what races and is killed, and what was recorded.
func TestPostgresDoesWhatTheFileDoes(t *testing.T) {
	dbtest.OnPostgres(t,
		TestListPrunesStaleCompletedEntries, TestLoadReturnsNoneForStaleCompletedEntry, TestLogContextQueryAppendsToActiveSession,
		TestLogContextQueryNoOpForCompleteSession, TestFindActiveByPathReturnsMatchingSession, TestCreateGeneratedEntryRetriesCollisions,
		TestAbandoningActiveEntryUnblocksSubsequentReserveOnSameThread, TestUpdateEntryPersistsHarnessMetadata,
		TestFindActiveByClientInstanceIDReturnsMatchingSession, TestFindActiveByNativeActorKeyReturnsMatchingSession,
		TestActorChainFollowsNativeParentKeysRootToLeaf, TestTryReserveThreadReapsDeadActiveEntryAndSucceeds,
		TestTryReserveThreadReportsLiveOwnerWhenPIDIsAlive, TestReapDeadForThreadOnlyTouchesNamedThread,
		TestActorChainBreaksCyclesWithoutLooping, TestTryReserveThreadUnderConcurrentLoadIsRaceFree,
		TestAnOwnerIsAnErrorWhereTheCallerWantsAnEntry,
		TestEightProcessesHaveOneWinnerEachRoundAndTheLosersKnowIt, TestAProcessKilledWhileItReservesLeavesNothing,
		TestAKilledWinnersThreadIsFreeAtOnce, TestAStoppedHolderKeepsItsLeaseForItsTimeAndNoLonger,
		TestALeaseLastsForItsTimeAndAHeartbeatProlongsIt, TestEveryWriteUnderALostLeaseIsRefused, TestNoNewProcessBringsADeadLeaseBack,
		TestWhatWasCalledDeadIsNotAliveAgain, TestKeepRenewsALeaseUntilItIsLost, TestAReapingThatIsRunAgainCountsEachOnce,
		TestReapingJudgesAnewWhatChangedSinceItLooked, TestABuildersErrorUndoesItsInsertAndNothingBefore,
		TestLeasesAreLinearizableWhileProcessesAreKilledAndStopped,
		TestPruningSeesEachEndedAgentOnce, TestTranscripts, TestTrees,
	)
}

// A release waits for the entry until the lease is over, and somebody has been told so.
func TestPostgresAReleaseThatWaitedPastTheEndFindsTheLeaseLost(t *testing.T) {
	address := dbtest.Postgres(t)
	var now atomic.Int64
	open := func() *db.DB {
		return dbtest.OpenAt(t, address, db.Options{BootTime: func() db.BootTime {
			return db.BootTime{Boot: "server", Since: time.Hour + time.Duration(now.Load())}
		}})
	}
	d, others := open(), agents.NewRegistry(open(), agents.Options{})
	r := agents.NewRegistry(d, agents.Options{})
	lease, _, err := r.TryLeaseThread(ctx, "main", minute, onThread("main", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	released := make(chan error, 1)
	err = d.WriteLocked(ctx, "have the entry", func(tx *db.Tx) error {
		if _, err := tx.FindLocked(new(int64), "SELECT id FROM agents"); err != nil {
			return err
		}
		go func() { released <- lease.Release(ctx, agents.Complete) }()
		dbtest.AwaitPostgresWaits(t, address, 1)
		now.Store(int64(time.Minute))
		held, ok, err := others.Reservation(ctx, "main")
		if err == nil && (!ok || held.Live != agents.Dead) {
			t.Errorf("it is called %s", held.Live)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-released; !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("the release gives %v", err)
	}
}
