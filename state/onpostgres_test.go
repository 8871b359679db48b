//go:build postgres

package state_test

import (
	"testing"

	"selvedge/test/dbtest"
)

func TestPostgresDoesWhatTheFileDoes(t *testing.T) {
	dbtest.OnPostgres(t, TestSetIf_RacingWritersLoseNothing, TestSetIf_ReplacedValueIsAConflict,
		TestBadInput_IsInvalidWithAHint, TestPage_CursorOfAnotherOwnerIsInvalid)
}
