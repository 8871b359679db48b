//go:build postgres

package workers_test

import (
	"testing"

	"selvedge/internal/dbtest"
)

// The seed's own tests, the model, what races and is killed, and what was recorded.
func TestPostgresDoesWhatTheFileDoes(t *testing.T) {
	dbtest.OnPostgres(t,
		TestCreateListAndDetailPreserveRuntimeWorkerAuthority, TestRejectsWorkerRefsFromAnotherRuntime,
		TestToolsLessWorkerWithoutConfigBundleUsesLocalDefaultsAndDiagnostics, TestSendInputAndProjectBoundedTranscript,
		TestStopAndCancelWorkersUpdateSummary, TestStopThenCancelPreservesStoppedTerminalState,
		TestCancelThenStopPreservesCancelledTerminalState, TestEventCursorAndPollOnlySubscriptionAreBoundedPlaceholders,
		TestFsStoreRestoresWorkersEventsAndTranscripts,
		TestTheRuntimeAnswersAsTheModel,
		TestManyProcessesShareARuntimeAndNothingAcknowledgedIsLostWhenTheyAreKilled, TestAFollowerThatIsKilledGoesOnWhereItWas, TestHistoriesOfInputsAreLinearizable,
		TestTranscripts, TestTrees,
	)
}
