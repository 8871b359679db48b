package live_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"selvedge/test/replay"
)

// laterPlayed are the transcripts of the later API that do not contradict the original (rule 5).
var laterPlayed = []string{
	"later-create-with-id", "later-reserve", "later-reserve-concurrent", "later-event-page",
	"later-insertion-order", "later-concurrent-record",
	"later-max-runs", "later-max-runs-zero", "later-max-events", "later-max-events-zero", "later-max-bytes",
	"later-replace-trims",
}

// played reports whether rule 5 has a transcript played: one of the later API that it names, or one
// that is new to us and whose name says that it is about the same.
func played(t replay.Transcript) bool {
	if !strings.Contains(t.Head.Original, "9.") {
		return true
	}
	return slices.Contains(laterPlayed, t.Base())
}

func eachTranscript(t *testing.T, maxCalls int,
	play func(t *testing.T, script replay.Transcript) replay.Tally,
) {
	t.Helper()
	scripts, err := replay.Transcripts("live")
	if err != nil {
		t.Fatal(err)
	}
	var total replay.Tally
	left := 0
	for _, script := range scripts {
		if !played(script) {
			left++
			continue
		}
		if len(script.Calls) > maxCalls {
			continue
		}
		t.Run(script.Name, func(t *testing.T) { total.Add(play(t, script)) })
	}
	t.Logf("%d transcripts: %s; %d of the later API contradict the original (rule 5)", len(scripts)-left, total,
		left)
}

func TestTranscripts(t *testing.T) {
	eachTranscript(t, math.MaxInt, func(t *testing.T, script replay.Transcript) replay.Tally {
		tally, err := replay.Play(script, newPlayer(t, script), comparison)
		if err != nil {
			t.Error(err)
		}
		return tally
	})
}

// Each call is judged some twenty times here: the longest transcripts are left to TestTranscripts.
func TestFalsifiedTranscriptsAreNoticed(t *testing.T) {
	eachTranscript(t, 280, func(t *testing.T, script replay.Transcript) replay.Tally {
		tally, err := replay.PlayFalsified(script, newPlayer(t, script), comparison)
		if err != nil {
			t.Error(err)
		}
		return tally
	})
}
