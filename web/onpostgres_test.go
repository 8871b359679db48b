//go:build postgres

package web_test

import (
	"testing"

	"selvedge/test/dbtest"
)

func TestPostgresDoesWhatTheFileDoes(t *testing.T) {
	dbtest.OnPostgres(t, TestPages_ShowTheNight, TestLists_TurnPagesWithTheirFilter,
		TestStream_GoesOnAtTheLastCursor,
		TestAnswer_TakesOnlyFormsOfItsPages, TestReport_LeavesSecretsOut)
}
