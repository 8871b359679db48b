//go:build postgres

package workers_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"selvedge/internal/dbtest"
	"selvedge/internal/replay"
)

// Transcripts that nobody recorded: see replay.Unseen.
func TestPostgresAnswersUnseenTranscriptsAsTheFileDoes(t *testing.T) {
	dbtest.SameAsOnAFile(t, dbtest.Unseen(t, 4), func(t *testing.T, random *rand.Rand) []string {
		script, err := replay.Unseen("workers", random, 150, func(op string) bool { return strings.HasPrefix(op, "fs_") || op == "new_memory" })
		if err != nil {
			t.Fatal(err)
		}
		p := newPlayer(t)
		return replay.Answers(script, replay.Comparison{}, func(c *replay.Call) replay.Answer {
			if c.Op == "reopen" && p.ours == nil {
				return replay.Answer{}
			}
			return replay.Answer{Outcome: p.call(c)}
		})
	})
}
