//go:build postgres

package docs_test

import (
	"testing"

	"selvedge/internal/dbtest"
)

func TestPostgresFunctions(t *testing.T) { dbtest.OnPostgres(t, TestFunctions_ThrowAsTheTableSays) }
