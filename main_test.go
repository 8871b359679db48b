package selvedge_test

import (
	"testing"

	"selvedge/test/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m, map[string]dbtest.Program{}) }
