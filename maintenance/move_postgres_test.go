//go:build postgres

package maintenance_test

import (
	"testing"

	"selvedge/internal/dbtest"
)

func TestPostgresAMovedFileAnswersAsItDid(t *testing.T) { movesThereAndBack(t, dbtest.Postgres(t)) }

func TestPostgresAMoveThatWasStoppedGoesOn(t *testing.T) {
	goesOn(t, func() string { return dbtest.Postgres(t) })
}
