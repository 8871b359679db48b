package workers_test

import (
	"testing"

	"selvedge/workers"
)

func TestABlankWorkerIDIsNone(t *testing.T) {
	for value, want := range map[string]bool{
		"": false, " \t\n": false, "worker-1": true,
		" kept as it is ": true,
	} {
		if id, ok := workers.NewWorkerID(value); ok != want || string(id) != value {
			t.Errorf("%q: %q, %v", value, id, ok)
		}
	}
}
