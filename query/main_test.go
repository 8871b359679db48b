package query_test

import (
	"testing"

	"selvedge/test/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m, nil) }
