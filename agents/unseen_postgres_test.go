//go:build postgres

package agents_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/internal/chrono"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
)

// Transcripts that nobody recorded: see replay.Unseen. Behind each all lists are asked for, with
// filters at random.
func TestPostgresAnswersUnseenTranscriptsAsTheFileDoes(t *testing.T) {
	dbtest.SameAsOnAFile(t, dbtest.Unseen(t, 4), func(t *testing.T, random *rand.Rand) []string {
		script, err := replay.Unseen("agents", random, 150,
			func(op string) bool { return strings.HasPrefix(op, "fs_") || op == "generated_id_shape" })
		if err != nil {
			t.Fatal(err)
		}
		p, calls := newPlayer(t), 0
		lines := replay.Answers(script, sameValues, func(c *replay.Call) replay.Answer {
			now, _, err := chrono.Parse(c.Now)
			if err != nil {
				t.Fatal(err)
			}
			p.clock.Set(now)
			calls++
			p.generated, p.given = "unbound-"+strings.TrimPrefix(c.Binds, "$"),
				fmt.Sprintf("agent-%c%d", "zak"[calls%3], calls)
			switch {
			case c.Op == "reopen":
				p.open(p.db.Path())
			case c.Op != "clock_advance" && playable(c):
				value, err := p.call(c)
				if err != nil {
					kind := ""
					for _, class := range []error{db.ErrInvalid, db.ErrNotFound, db.ErrConflict, db.ErrCorrupt} {
						if errors.Is(err, class) {
							kind += class.Error()
						}
					}
					return replay.Answer{Outcome: replay.Fails(err, kind), Bound: p.generated}
				}
				return replay.Answer{Outcome: replay.Outcome{OK: p.spelled(value)}, Bound: p.generated}
			}
			return replay.Answer{}
		})
		return append(lines, p.lists(random, script)...)
	})
}

// playable reports whether what the call sets are members of an entry.
func playable(c *replay.Call) bool {
	for _, name := range []string{"set", "update", "build"} {
		var members map[string]json.RawMessage
		if c.Unmarshal(name, &members) != nil {
			return false
		}
		for member, value := range members {
			if member == "$fail" {
				continue
			}
			if agents.SetMember(&agents.Entry{}, member, value) != nil {
				return false
			}
		}
	}
	var match struct {
		Field  string          `json:"field"`
		Equals json.RawMessage `json:"equals"`
	}
	return c.Unmarshal("match", &match) == nil && (!c.Has("match") || len(match.Equals) > 0)
}

// lists asks for what the transcripts' calls do not.
func (p *player) lists(random *rand.Rand, script replay.Transcript) (lines []string) {
	say := func(what string, value any, err error) {
		lines = append(lines, fmt.Sprintf("%s: %s %v", what, replay.Encode(p.spelled(value)), err))
	}
	var texts []string
	times := []time.Time{
		{},
		{},
		{},
		time.Unix(0, 0), time.Unix(-1, 5),
		time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
	}
	all, err := p.registry.List(ctx)
	say("all", all, err)
	for _, e := range all {
		texts = append(texts, e.Thread, e.SessionID)
		times = append(times, e.StartedAt)
	}
	texts = append(texts, replay.OddTexts...)
	for _, c := range script.Calls {
		texts = append(texts, c.Text("thread"))
	}
	statuses := []agents.Status{agents.Active, "complete", "merged", "abandoned", "odd"}
	for range 8 {
		f := agents.Filter{Since: times[random.IntN(len(times))], Until: times[random.IntN(len(times))]}
		thread := "any"
		if random.IntN(2) == 0 {
			thread = texts[random.IntN(len(texts))]
			f.Thread = &thread
		}
		for range random.IntN(3) {
			f.Statuses = append(f.Statuses, statuses[random.IntN(len(statuses))])
		}
		at := db.At{Limit: 1 + random.IntN(5)}
		items, err := []agents.Entry{}, error(nil)
		for more := true; more && err == nil; more = at.After != "" {
			var page db.Page[agents.Entry]
			page, err = p.registry.Page(ctx, f, at)
			items = append(items, page.Items...)
			at.After = page.Next
		}
		say(fmt.Sprintf("page %q %v %v %v of %d", thread, f.Statuses, f.Since, f.Until, at.Limit), items, err)
		found, err := p.registry.Find(ctx, texts[random.IntN(len(texts))], random.IntN(4))
		say("find", found, err)
		id := texts[random.IntN(len(texts))]
		e, err := p.registry.Get(ctx, id)
		say(fmt.Sprintf("get %q", id), e, err)
	}
	return lines
}
