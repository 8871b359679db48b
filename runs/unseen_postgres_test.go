//go:build postgres

package runs_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
)

// Transcripts that nobody recorded: see replay.Unseen. Behind each all lists are asked for, with
// filters at random.
func TestPostgresAnswersUnseenTranscriptsAsTheFileDoes(t *testing.T) {
	dbtest.SameAsOnAFile(t, dbtest.Unseen(t, 4), func(t *testing.T, random *rand.Rand) []string {
		script, err := replay.Unseen("runs", random, 150, func(op string) bool {
			return strings.HasPrefix(op, "fs.") || strings.HasSuffix(op, "_dir")
		})
		must(t, err)
		p := newPlayer(t)
		p.clock.Set(time.Date(2026, 5, 4, 1, 2, 3, 4, time.UTC))
		p.compare.Now = p.clock.Now
		lines := replay.Answers(script, p.compare, func(c *replay.Call) replay.Answer {
			p.clock.Advance(time.Millisecond)
			if !playable(p, c) {
				return replay.Answer{}
			}
			return replay.Answer{Outcome: p.onStore(c)}
		})
		return append(lines, p.lists(random, script)...)
	})
}

// playable reports whether the arguments are what the harness can give to a store.
func playable(p *player, c *replay.Call) bool {
	texts := []json.RawMessage{}
	switch c.Op {
	case "append_records", "append_turns":
		if c.Unmarshal("records", &texts) != nil {
			return false
		}
	case "write_started", "write_ended":
		kind := strings.TrimPrefix(c.Op, "write_")
		var members map[string]json.RawMessage
		if c.Unmarshal(kind, &members) != nil || members == nil {
			return false
		}
		members["record"] = json.RawMessage(fmt.Sprintf("%q", kind))
		text, err := json.Marshal(members)
		must(p.t, err)
		texts = append(texts, text)
	case "new":
		var limits runs.RetentionConfig
		return c.Unmarshal("max_per_agent", &limits.MaxPerAgent) == nil &&
			c.Unmarshal("max_age_days", &limits.MaxAgeDays) == nil
	}
	for _, text := range texts {
		record, err := runs.DecodeSeed(text)
		if err != nil {
			return false
		}
		if text, err = record.MarshalJSON(); err != nil {
			return false
		}
		if _, err = runs.DecodeSeed(text); err != nil {
			return false
		}
	}
	return true
}

func text(s *string) string {
	if s == nil {
		return "any"
	}
	return *s
}

// lists asks for what the transcripts' calls do not.
func (p *player) lists(random *rand.Rand, script replay.Transcript) (lines []string) {
	ctx := p.t.Context()
	say := func(what string, value any, err error) {
		text, wrong := json.Marshal(value)
		must(p.t, wrong)
		lines = append(lines, fmt.Sprintf("%s: %s %v", what, text, err))
	}
	var agents []string
	for _, c := range script.Calls {
		agents = append(agents, c.Text("agent_id"))
	}
	agents = append(agents, replay.OddTexts...)
	times := []time.Time{
		{},
		{},
		{},
		time.Unix(0, 0), time.Unix(-1, 5), time.Date(2021, 3, 1, 8, 0, 0, 0, time.UTC),
		time.Date(2021, 3, 2, 0, 0, 0, 1, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC),
		time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(1677, 9, 21, 0, 12, 43, 145224192, time.UTC),
		time.Date(2262, 4, 11, 23, 47, 16, 854775807, time.UTC),
	}
	statuses := []runs.RunStatus{runs.StatusInProgress, runs.StatusCompleted, runs.StatusIncomplete, "odd"}
	outcomes := []runs.OutcomeStatus{runs.OutcomeSuccess, runs.OutcomeGiveUp, "failure", "partial_success"}
	var refs []runs.RunRef
	for run, err := range p.store.All(ctx, runs.Filter{}) {
		say("all", run, err)
		refs = append(refs, run.Ref)
	}
	for range 6 {
		f := runs.Filter{Since: times[random.IntN(len(times))], Until: times[random.IntN(len(times))]}
		if random.IntN(2) == 0 {
			f.Agent = &agents[random.IntN(len(agents))]
		}
		for range random.IntN(3) {
			f.Statuses = append(f.Statuses, statuses[random.IntN(len(statuses))])
		}
		for range random.IntN(2) {
			f.Outcomes = append(f.Outcomes, outcomes[random.IntN(len(outcomes))])
		}
		at := db.At{Limit: 1 + random.IntN(5)}
		for range 10 {
			page, err := p.store.Page(ctx, f, at)
			say(fmt.Sprintf("page %s %q %q %v %v of %d", text(f.Agent), f.Statuses, f.Outcomes, f.Since, f.Until,
				at.Limit), page.Items, err)
			if at.After = page.Next; at.After == "" {
				break
			}
		}
		found, err := p.store.Find(ctx, agents[random.IntN(len(agents))], random.IntN(4))
		say("find", found, err)
	}
	for _, ref := range refs {
		summary, err := p.store.Get(ctx, ref)
		say("get", summary, err)
		at := db.At{Limit: 1 + int(uint(len(ref.RunID))%3)}
		for range 5 {
			page, err := p.store.TracePage(ctx, ref, at)
			for _, item := range page.Items {
				say("trace", fmt.Sprintf("%v %v %s %s %s", item.Of, item.Item.Sequence, item.Item.Line, item.Status,
					item.Reason), nil)
			}
			say("trace", nil, err)
			if at.After = page.Next; at.After == "" {
				break
			}
		}
	}
	return lines
}
