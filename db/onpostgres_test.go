//go:build postgres

package db_test

import (
	"testing"

	"selvedge/test/dbtest"
)

func TestPostgresReservesAsTheFileDoes(t *testing.T) {
	dbtest.OnPostgres(t,
		TestWhatIsReservedHasOneHolder, TestHistoriesOfReservationsAreLinearizable,
		TestAReservationLastsForItsTimeAndNoLonger,
		TestKeepRenewsUntilTheLeaseIsLost, TestClose_OneOfTwoHandlesReleases,
	)
}
