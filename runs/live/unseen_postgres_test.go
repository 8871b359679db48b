//go:build postgres

package live_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
)

// Transcripts that nobody recorded: see replay.Unseen. Behind each all lists are asked for, with
// filters at random.
func TestPostgresAnswersUnseenTranscriptsAsTheFileDoes(t *testing.T) {
	dbtest.SameAsOnAFile(t, dbtest.Unseen(t, 4), func(t *testing.T, random *rand.Rand) []string {
		script, err := replay.Unseen("live", random, 150, func(op string) bool {
			return strings.HasPrefix(op, "concurrent_") || strings.Contains(op, "file") ||
				strings.Contains(op, "session") || op == "save" || op == "load" || op == "restore"
		})
		if err != nil {
			t.Fatal(err)
		}
		p := newPlayer(t, script)
		lines := replay.Answers(script, comparison, func(c *replay.Call) replay.Answer {
			p.clock.Advance(time.Millisecond)
			if strings.HasPrefix(c.Op, "handle_") && p.handles[c.Text("handle")] == nil {
				return replay.Answer{}
			}
			return p.call(c)
		})
		return append(lines, p.lists(random)...)
	})
}

// lists asks for what the transcripts' calls do not.
func (p *player) lists(random *rand.Rand) (lines []string) {
	ctx := context.Background()
	var ids []string
	say := func(what string, value any, err error) {
		text, wrong := json.Marshal(value)
		if wrong != nil {
			p.t.Fatal(wrong)
		}
		lines = append(lines, fmt.Sprintf("%s: %s %v", what, text, err))
	}
	var sessions []string
	for run, err := range p.store.All(ctx, live.Filter{}) {
		ids = append(ids, run.ID)
		sessions = append(sessions, run.SessionID)
		say("all", run, err)
	}
	sessions = append(sessions, replay.OddTexts...)
	times := []time.Time{
		{},
		{},
		{},
		time.UnixMilli(1700000000000), time.Unix(-1, 5), clockBase,
		clockBase.Add(5 * time.Millisecond), clockBase.Add(50 * time.Millisecond),
		time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	statuses := []live.RunStatus{
		"created", "planning", "executing", "verifying", "completed", "failed",
		"cancelled", "odd",
	}
	for range 6 {
		f := live.Filter{Since: times[random.IntN(len(times))], Until: times[random.IntN(len(times))]}
		session := "any"
		if random.IntN(2) == 0 {
			session = sessions[random.IntN(len(sessions))]
			f.Session = &session
		}
		for range random.IntN(3) {
			f.Statuses = append(f.Statuses, statuses[random.IntN(len(statuses))])
		}
		at := db.At{Limit: 1 + random.IntN(5)}
		for range 10 {
			page, err := p.store.Page(ctx, f, at)
			say(fmt.Sprintf("page %q %v %v %v of %d", session, f.Statuses, f.Since, f.Until, at.Limit), page.Items,
				err)
			if at.After = page.Next; at.After == "" {
				break
			}
		}
		found, err := p.store.Find(ctx, sessions[random.IntN(len(sessions))], 0)
		// whose order is random
		say("find", slices.DeleteFunc(found, func(id string) bool { return len(id) == len("run-")+36 }), err)
	}
	for i, id := range ids {
		at := db.At{Limit: 1 + i%4}
		for range 5 {
			page, err := p.store.EventsPage(ctx, id, at)
			for _, item := range page.Items {
				say("event", fmt.Sprintf("%s %s %s %v", jsonOf(item.Item), item.Status, item.Reason, item.What),
					nil)
			}
			say("events", nil, err)
			if at.After = page.Next; at.After == "" {
				break
			}
		}
		after := random.Uint64N(6)
		page, found, err := p.store.EventPage(ctx, id, &after, random.IntN(4))
		say(fmt.Sprintf("page behind %d", after), []any{page, found}, err)
	}
	return lines
}
