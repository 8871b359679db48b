//go:build postgres

package checkpoints_test

import (
	"testing"

	"selvedge/internal/dbtest"
)

// The seed's own tests, the model, what races and is killed, and what was recorded.
func TestPostgresDoesWhatTheFileDoes(t *testing.T) {
	dbtest.OnPostgres(t,
		TestSaveLoadRemoveRoundtrip, TestClaimIsExactlyOnce, TestRecoverRearmsOrphanedInflight,
		TestTheStoreIsTwoMaps,
		TestAClaimLastsForItsTimeAndARenewalProlongsIt, TestAClaimIsGivenBack, TestKeepRenewsAClaimUntilItIsLost,
		TestRecoverTakesWhatTheDeadHeldAndNothingElse, TestAClaimThatWasMadeSinceRecoveryLookedStays,
		TestARecoveryThatIsRunAgainCountsEachOnce, TestCallsInOneTransactionHappenTogetherOrNotAtAll,
		TestClaimingTheNextPauseEndsTheOlderClaim, TestAStaleHandleCompletesNothing, TestEpochsGrowThroughRemovalAndRecovery,
		TestClaimsOfALivingProcessAreSafe, TestClaimsOfADeadProcessAreRecoveredOnce, TestAnExpiredClaimIsTakenFromALivingProcess,
		TestOneClaimerWins, TestHistoriesAreLinearizable,
		TestTranscripts, TestTrees,
	)
}
