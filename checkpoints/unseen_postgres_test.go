//go:build postgres

package checkpoints_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
)

// Transcripts that nobody recorded: see replay.Unseen. Behind each all lists are asked for.
func TestPostgresAnswersUnseenTranscriptsAsTheFileDoes(t *testing.T) {
	dbtest.SameAsOnAFile(t, dbtest.Unseen(t, 4), func(t *testing.T, random *rand.Rand) []string {
		script, err := replay.Unseen("checkpoints", random, 150,
			func(op string) bool { return strings.HasPrefix(op, "fs.") })
		check(t, err)
		p := newPlayer(t)
		lines := replay.Answers(script, sameValues, func(c *replay.Call) replay.Answer {
			value, err := p.call(c)
			if err != nil {
				return replay.Answer{Outcome: replay.Fails(err, kindOf(err))}
			}
			return replay.Answer{Outcome: replay.Outcome{OK: value}}
		})
		return append(lines, p.lists(random)...)
	})
}

// lists asks for what the transcripts' calls do not.
func (p *player) lists(random *rand.Rand) (lines []string) {
	say := func(what string, value any, err error) {
		text, wrong := json.Marshal(value)
		check(p.t, wrong)
		lines = append(lines, fmt.Sprintf("%s: %s %v", what, text, err))
	}
	var runs []string
	for one, err := range p.store.All(ctx, checkpoints.Filter{}) {
		say("all", one, err)
		say("all", fmt.Sprint(one.State, one.Size, one.Problem, one.Contested, one.Claim != nil), nil)
		runs = append(runs, one.RunID)
	}
	runs = append(runs, replay.OddTexts...)
	for range 8 {
		run := runs[random.IntN(len(runs))]
		state := []checkpoints.State{"", "", checkpoints.Paused, checkpoints.Claimed, "odd"}[random.IntN(5)]
		at, past := db.At{Limit: 1 + random.IntN(4)}, db.At{Limit: 1 + random.IntN(4)}
		for range 10 {
			page, err := p.store.Page(ctx, checkpoints.Filter{State: state}, at)
			say(fmt.Sprintf("page %q of %d", state, at.Limit), page.Items, err)
			if at.After = page.Next; at.After == "" {
				break
			}
		}
		of := checkpoints.HistoryFilter{RunID: []string{"", run}[random.IntN(2)]}
		for range 10 {
			page, err := p.store.HistoryPage(ctx, of, past)
			for _, one := range page.Items {
				// each engine draws its own
				say("past", fmt.Sprint(one.RunID, one.Ending, one.Decision, one.PausedStageID, one.Prompt, one.PausedAt,
					one.Epoch > 0), nil)
			}
			say("history", nil, err)
			if past.After = page.Next; past.After == "" {
				break
			}
		}
		found, err := p.store.Find(ctx, run[:min(len(run), random.IntN(6))], random.IntN(4))
		say("find", found, err)
		one, err := p.store.Get(ctx, checkpoints.Ref{RunID: run, State: state})
		say("get", one, err)
	}
	return lines
}
