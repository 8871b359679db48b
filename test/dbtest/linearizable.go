package dbtest

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// Linearizable fails the test unless calls can have happened one after the other, by the model,
// and leaves a picture of those that can't. The search mostly takes no time; its time limit has
// nothing to do with the calls.
func Linearizable(t testing.TB, model porcupine.Model, calls []porcupine.Operation) {
	t.Helper()
	const enough = 5 * time.Minute
	result, info := porcupine.CheckOperationsVerbose(model, calls, enough)
	switch result {
	case porcupine.Ok:
		return
	case porcupine.Unknown:
		t.Errorf("whether the history of %d calls is linearizable was not found out within %v", len(calls), enough)
	case porcupine.Illegal:
		t.Errorf("the history of %d calls is not linearizable", len(calls))
	}
	if file := t.ArtifactDir() + "/history.html"; porcupine.VisualizePath(model, info, file) == nil {
		t.Logf("see %s", file)
	}
}
