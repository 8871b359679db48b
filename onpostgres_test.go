//go:build postgres

package selvedge_test

import (
	"testing"

	"selvedge/test/dbtest"
)

func TestPostgresDoesWhatTheFileDoes(t *testing.T) {
	dbtest.OnPostgres(t,
		TestTake_GoesOnWhereTheRunStopped, TestTake_HasOneHolder, TestDo_AttemptsOnceAndReturnsTheResult,
		TestDo_TriesAgainWhatDidNotHappen, TestDo_AsksAboutAnUnknownOutcome, TestDo_GivesUpOrRetriesByPolicy,
		TestDo_APanicLeavesTheOutcomeUnknown, TestDoTurn_RecordsTheTurnWithItsEffect,
		TestDoTurn_SideBySideDoneByPerson, TestAsk_WaitsForAnAnswer,
		TestAnswer_WorksForAnIncompleteRun, TestAsk_LiveListsSayWaiting,
		TestNext_TakesRunsInOrder, TestCancel_EndsTheRunAndItsLease, TestMarks_EndTheRunAndItsLease,
		TestAnswer_WaitsForHolderOfOpenEffect, TestNext_TakesTheRunsOfADeadHolder,
		TestNext_TakesIncompleteRunOfDeadHolder, TestFork_KeepsWhatWasDone,
		TestNext_TakesFromAHolderThatWasStopped, TestChild_HasAParent,
		TestBadInput_IsInvalidAndChangesNothing, TestSurvive_KillsLoseAndRepeatNothing,
		TestUsage_LargestAccountByField, TestUsage_StaysWhenRunsAreRemoved, TestUsage_ReplacedRunsCountOnce,
		TestCost_TreeAndModels, TestCost_ReplyAndItsTurnCountOnce, TestBudget_MakesTheRunWait,
		TestDo_ConcurrentCallsAttemptOnce, TestAnswer_SettledStepIsAConflict, TestAnswer_WorksWithoutLiveRun,
		TestPrune_KeepsIncompleteRunThatWaits, TestNext_RecreatesNoRemovedRun, TestNext_ClockSetBack,
		TestBudget_ReplyWithoutUsageHasUnknownCost,
	)
}
