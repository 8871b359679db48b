//go:build postgres

package runs_test

import (
	"testing"

	"selvedge/internal/dbtest"
)

// The seed's own tests, the model, what races and is killed, and what was recorded.
func TestPostgresDoesWhatTheFileDoes(t *testing.T) {
	dbtest.OnPostgres(t,
		TestCompletedRunReadableAfterRestart, TestRunsIsolatedPerAgentAndRun, TestOrphanRunStatusDistinguishesInprogressFromIncomplete,
		TestGCEvictsBeyondPerAgentCapButNeverInProgress, TestGCEvictsRunsOlderThanAgeCap, TestGCNeverEvictsStaleInProgressRun,
		TestCorruptTrailingLineLoadsPriorRecords, TestListRunsEmptyForUnknownAgent, TestGCAgeCapUsesTerminalTimeNotStart,
		TestAdoptOrphansMarksCrashedInprogressRunsIncomplete, TestAdoptOrphansLeavesCompletedRunsAlone,
		TestTornTailDoesNotDropFollowingValidRecord,
		TestTheStoreDoesWhatTheModelDoes,
		TestAdoptionSparesRunsOfAnotherLivingProcess, TestAnAdoptionThatIsRunAgainCountsEachOnce,
		TestAdoptionJudgesAnewWhatChangedSinceItLooked, TestWhatWasAcknowledgedSurvivesAKill, TestARunIsHeldByOneAndWrittenByItsHolder,
		TestRecoverTakesOnlyWhatTheDeadHeld, TestARepeatDoesNothingWhereTheFirstTryWasKept,
		TestTranscripts,
	)
}
