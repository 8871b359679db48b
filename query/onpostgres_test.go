//go:build postgres

package query_test

import (
	"testing"

	"selvedge/test/dbtest"
)

func TestPostgresDoesWhatTheFileDoes(t *testing.T) {
	dbtest.OnPostgres(t, TestOverview_SaysWhatTheNightBrought, TestRuns_FiltersAddUp,
		TestRuns_PagesHaveEachRunOnce,
		TestTimeline_HasRecordsAndTheirSteps, TestFollow_GoesOnBehindTheTimeline, TestLive_JoinsPiecesOfOneText,
		TestUsed_AddsUpByDayAgentAndModel, TestRun_HasParentsChildrenAndCost, TestShortID_IsUniqueInTheScope)
}
