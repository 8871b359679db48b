//go:build postgres

package workers_test

import (
	"testing"

	"selvedge/test/dbtest"
)

// The seed's own tests, the model, what races and is killed, and what was recorded.
func TestPostgresDoesWhatTheFileDoes(t *testing.T) {
	dbtest.OnPostgres(t,
		TestCreateListAndDetailPreserveRuntimeWorkerAuthority, TestRejectsWorkerRefsFromAnotherRuntime,
		TestCreateWorker_WithoutConfigBundleUsesDefaults, TestSendInputAndProjectBoundedTranscript,
		TestStopAndCancelWorkersUpdateSummary, TestStopThenCancelPreservesStoppedTerminalState,
		TestCancelThenStopPreservesCancelledTerminalState, TestEventCursor_PollOnlySubscriptionIsBounded,
		TestFsStoreRestoresWorkersEventsAndTranscripts,
		TestTheRuntimeAnswersAsTheModel,
		TestRuntime_SharedByKilledProcessesLosesNothing, TestFollow_KilledFollowerResumes,
		TestHistoriesOfInputsAreLinearizable,
		TestOpenTx_UndoneRuntimeIsNoOther, TestSendInput_RepeatsInOneTxStayApart,
		TestTranscripts, TestTrees,
	)
}
