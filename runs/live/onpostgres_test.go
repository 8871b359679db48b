//go:build postgres

package live_test

import (
	"testing"

	"selvedge/internal/dbtest"
)

// The seed's own tests, the model, what races and is killed, and what was recorded.
func TestPostgresDoesWhatTheFileDoes(t *testing.T) {
	dbtest.OnPostgres(t,
		TestRunStoreTracksStatusAndEvents, TestRunStoreReplacesPersistedRecords, TestRunHandleOnlyCancelsCurrentRun,
		TestCancelTellsItsHookWhateverBecomesOfTheMark, TestCancelNeverFiresAnotherRunsToken,
		TestTheStoreEqualsTheModel,
		TestSeveralProcessesWriteOneRun, TestAKilledProcessLosesNothingThatItAcknowledged, TestALiveRunIsHeldByOneAndWrittenByItsHolder,
		TestRecoverFailsOnlyWhatTheDeadHeld, TestRecoverJudgesAnewWhatChangedSinceItLooked,
		TestARepeatDoesNothingWhereTheFirstTryWasKept,
		TestTranscripts,
	)
}
