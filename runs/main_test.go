package runs_test

import (
	"testing"

	"selvedge/test/dbtest"
)

func TestMain(m *testing.M) {
	dbtest.Main(m, map[string]dbtest.Program{
		"writer": writerProgram, "appender": appenderProgram, "hold": holdProgram,
	})
}
