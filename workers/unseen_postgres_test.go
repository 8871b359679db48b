//go:build postgres

package workers_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
	"selvedge/workers"
)

// Transcripts that nobody recorded: see replay.Unseen. A worker that was recorded and is refused
// now is made another way, so that what is said to it later finds one; behind each transcript all
// that there is is asked for.
func TestPostgresAnswersUnseenTranscriptsAsTheFileDoes(t *testing.T) {
	dbtest.SameAsOnAFile(t, dbtest.Unseen(t, 4), func(t *testing.T, random *rand.Rand) []string {
		script, err := replay.Unseen("workers", random, 150,
			func(op string) bool { return strings.HasPrefix(op, "fs_") || op == "new_memory" })
		if err != nil {
			t.Fatal(err)
		}
		p := newPlayer(t)
		lines := replay.Answers(script, replay.Comparison{}, func(c *replay.Call) replay.Answer {
			if c.Op == "reopen" && p.ours == nil {
				return replay.Answer{}
			}
			answer := replay.Answer{Outcome: p.call(c)}
			if c.Op == "create_worker" && answer.Err != nil && c.Binds != "" && p.ours != nil {
				if one, err := p.ours.CreateWorker(t.Context(),
					workers.CreateWorkerRequest{Intent: workers.TaskIntent("in place of another")}); err == nil {
					answer.Bound = string(one.WorkerRef.WorkerID)
				}
			}
			return answer
		})
		return append(lines, p.lists(random)...)
	})
}

// lists asks for what the transcripts' calls may not.
func (p *player) lists(random *rand.Rand) (lines []string) {
	ctx := p.t.Context()
	say := func(what string, value any, err error) {
		text, wrong := json.Marshal(value)
		if wrong != nil {
			p.t.Fatal(wrong)
		}
		lines = append(lines, fmt.Sprintf("%s: %s %v", what, text, err))
	}
	for one, err := range workers.NewRuntimes(p.db, "").All(ctx, workers.RuntimeFilter{}) {
		say("runtime", one.RuntimeID, err)
		rt, err := workers.Open(ctx, p.db, workers.RuntimeOptions{RuntimeID: one.RuntimeID})
		if err != nil {
			say("open", nil, err)
			continue
		}
		var refs []workers.WorkerRef
		for worker, err := range rt.All(ctx, workers.WorkerFilter{}) {
			say("worker", worker, err)
			refs = append(refs, worker.WorkerRef)
		}
		for _, ref := range refs {
			detail, err := rt.WorkerDetail(ctx, ref)
			say("detail", detail, err)
			for entry, err := range rt.Transcript(ctx, ref) {
				say("entry", []any{entry.Sequence, entry.Role, entry.Content}, err)
			}
		}
		for event, err := range rt.EachEvent(ctx) {
			say("event", event, err)
		}
		diagnostics, err := rt.Diagnostics(ctx)
		say("diagnostics", diagnostics, err)
		for range 4 {
			at := db.At{Limit: 1 + random.IntN(3)}
			filter := workers.WorkerFilter{Status: []workers.WorkerStatus{
				"", "", workers.Running,
				"odd",
			}[random.IntN(4)]}
			for range 10 {
				page, err := rt.Page(ctx, filter, at)
				say(fmt.Sprintf("page %q of %d", filter.Status, at.Limit), page.Items, err)
				if at.After = page.Next; at.After == "" {
					break
				}
			}
		}
	}
	return lines
}
