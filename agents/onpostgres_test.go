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
	"selvedge/internal/txn"
	"selvedge/test/dbtest"
)

// The seed's own tests, the model, what races and is killed, and what was recorded.
func TestPostgresDoesWhatTheFileDoes(t *testing.T) {
	dbtest.OnPostgres(t,
		TestListPrunesStaleCompletedEntries, TestLoadReturnsNoneForStaleCompletedEntry,
		TestLogContextQueryAppendsToActiveSession,
		TestLogContextQueryNoOpForCompleteSession, TestFindActiveByPathReturnsMatchingSession,
		TestCreateGeneratedEntryRetriesCollisions,
		TestReserve_AbandonedEntryUnblocksThread, TestUpdateEntryPersistsHarnessMetadata,
		TestFindActiveByClientInstanceIDReturnsMatchingSession, TestFindActive_ByNativeActorKey,
		TestActorChain_RootToLeaf, TestTryReserveThread_ReapsDeadEntry,
		TestTryReserveThread_ReportsLiveOwner, TestReapDeadForThreadOnlyTouchesNamedThread,
		TestActorChainBreaksCyclesWithoutLooping, TestTryReserveThread_ConcurrentIsRaceFree,
		TestReserve_OwnerIsErrorIfEntryWanted,
		TestClaim_EightProcessesHaveOneWinner, TestAProcessKilledWhileItReservesLeavesNothing,
		TestAKilledWinnersThreadIsFreeAtOnce, TestLease_StoppedHolderKeepsItOnlyUntilExpiry,
		TestLease_ExpiresAndHeartbeatExtendsIt, TestEveryWriteUnderALostLeaseIsRefused,
		TestNoNewProcessBringsADeadLeaseBack,
		TestWhatWasCalledDeadIsNotAliveAgain, TestKeepRenewsALeaseUntilItIsLost,
		TestAReapingThatIsRunAgainCountsEachOnce,
		TestReapingJudgesAnewWhatChangedSinceItLooked, TestABuildersErrorUndoesItsInsertAndNothingBefore,
		TestLeases_LinearizableUnderKillsAndStops,
		TestPruningSeesEachEndedAgentOnce, TestTranscripts, TestTrees,
	)
}

// The holder's call waits for the entry until the lease is over, and somebody has been told so.
func TestPostgres_HolderWaitingPastEndLosesLease(t *testing.T) {
	for name, call := range map[string]func(*agents.Lease) error{
		"release": func(l *agents.Lease) error { return l.Release(ctx, agents.Complete) },
		"log query": func(l *agents.Lease) error {
			return l.LogContextQuery(ctx,
				agents.ContextQuery{Path: "late"})
		},
		"update": func(l *agents.Lease) error {
			_, err := l.Update(ctx, func(e *agents.Entry) { e.Path = new("late") })
			return err
		},
		"update to another id": func(l *agents.Lease) error {
			_, err := l.Update(ctx, func(e *agents.Entry) { e.SessionID = "late" })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			address := dbtest.Postgres(t)
			var now atomic.Int64
			open := func() *db.DB {
				return dbtest.OpenAt(t, address, db.Options{BootTime: func() db.BootTime {
					return db.BootTime{Boot: "server", Since: time.Hour + time.Duration(now.Load())}
				}})
			}
			d, others := open(), agents.NewRegistry(open(), agents.Options{})
			lease, _, err := agents.NewRegistry(d, agents.Options{}).TryLeaseThread(ctx, "main", minute,
				onThread("main", os.Getpid()))
			if err != nil {
				t.Fatal(err)
			}
			before := load(t, others, lease.SessionID())
			done := make(chan error, 1)
			err = d.WriteLocked(ctx, "have the entry", func(tx *db.Tx) error {
				if _, err := tx.Store().FindToChange(new(int64), txn.Agents.Rows("SELECT id FROM agents")); err != nil {
					return err
				}
				go func() { done <- call(lease) }()
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
			if err := <-done; !errors.Is(err, db.ErrLeaseLost) {
				t.Errorf("the call gives %v", err)
			}
			if after := load(t, others, lease.SessionID()); !after.Equal(before) {
				t.Errorf("the entry became %s", after.TOML())
			}
		})
	}
}

// The id that was generated is added by a transaction under way.
func TestPostgres_GeneratedIDTakenMeanwhile(t *testing.T) {
	address := dbtest.Postgres(t)
	d, other := dbtest.OpenAt(t, address, db.Options{}), dbtest.OpenAt(t, address, db.Options{})
	r, others := agents.NewRegistry(d, agents.Options{}), agents.NewRegistry(other, agents.Options{})
	ids := []string{"taken", "free"}
	agents.SetIDs(r, func() string { id := ids[0]; ids = ids[1:]; return id })
	made := make(chan agents.Entry, 1)
	err := other.WriteLocked(ctx, "take the id", func(tx *db.Tx) error {
		if err := others.SaveTx(tx, entry("taken", agents.Active)); err != nil {
			return err
		}
		go func() {
			out, err := r.TryReserveThread(ctx, "main", onThread("main", os.Getpid()))
			if err != nil || out.Reserved == nil {
				t.Errorf("%+v, %v", out, err)
				out.Reserved = &agents.Entry{}
			}
			made <- *out.Reserved
		}()
		dbtest.AwaitPostgresWaits(t, address, 1)
		return nil
	})
	if e := <-made; err != nil || e.SessionID != "free" {
		t.Errorf("the entry has the id %q (%v)", e.SessionID, err)
	}
}
