package live_test

import (
	"testing"

	"selvedge/internal/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m, programs) }
