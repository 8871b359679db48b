//go:build postgres

package failover_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// complaints are the findings of a judge.
type complaints []string

func (*complaints) Helper() {}

func (c *complaints) Errorf(format string, args ...any) {
	*c = append(*c, fmt.Sprintf(format, args...))
}

// A history is the reports of processes, and the state of the database.
type history struct {
	world world
	said  []note
	at    time.Time
}

// say adds a report, a second after the last one.
func (h *history) say(process, kind, lane, text, rest string) {
	h.at = h.at.Add(time.Second)
	h.said = append(h.said, note{h.at, process, kind, lane, text, rest})
}

// in changes the first note that has these words.
func (h *history) in(kind, lane, text string, change func(*note)) {
	i := slices.IndexFunc(h.said, func(n note) bool {
		return n.kind == kind && n.lane == lane &&
			n.text == text
	})
	change(&h.said[i])
}

// nanos is a moment of a process.
func nanos(d time.Duration) string { return fmt.Sprint(d.Nanoseconds()) }

// good is a short history without a fault.
func good() *history {
	h := &history{at: time.Unix(0, 0)}
	h.world = world{
		streams: map[string][]entry{
			"runs/shared": {{0, "a-1"}, {1, "b-1"}, {2, "a-2"}}, "workers": {{1, "made"}, {2, "input"}},
			"held-lease":           {{0, "7 by a-1"}, {1, "9 by b-1"}},
			"held-timed lease":     {{0, "3 by a-1"}, {1, "4 by b-1"}},
			"workers/of a":         {{1, "a-1"}, {2, "a-2"}},
			"held-reservation":     nil,
			"live/shared":          {{1, "a-1"}},
			"runs/of nobody":       nil,
			"held-timed of nobody": nil,
		},
		last: map[string]string{"agents/a": "a-2"}, past: map[string][]int64{"paused-1": {5}},
		saved: map[string]bool{"paused-2": true},
	}
	h.say("a", acked, "runs/shared", "a-1", "")
	h.say("b", acked, "runs/shared", "b-1", "")
	h.say("a", unknown, "runs/shared", "a-2", "")
	h.say("a", acked, "runs/shared", "a-2", "")
	h.say("a", unknown, "live/shared", "a-1", "")
	h.say("a", failed, "live/shared", "a-0", "no primary")
	h.say("a", acked, "workers/of a", "a-1", "")
	h.say("a", acked, "workers/of a", "a-2", "")
	h.say("a", acked, "agents/a", "a-2", "")
	h.say("a", acked, "saved", "paused-1", "")
	h.say("a", acked, "saved", "paused-2", "")
	h.say("b", won, "paused-1", "5", "")
	h.say("b", acked, "completed", "paused-1", "")
	h.say("a", won, "held-lease", "7", nanos(0))
	h.say("a", acked, "held-lease", "7 by a-1", "0")
	h.say("b", won, "held-lease", "9", nanos(time.Second))
	h.say("b", acked, "held-lease", "9 by b-1", nanos(time.Second))
	h.say("a", lost, "held-lease", "7 by a-2", "")
	h.say("a", won, "held-timed lease", "3", nanos(time.Second))
	h.say("a", renewed, "held-timed lease", "3", nanos(3*time.Second))
	h.say("a", acked, "held-timed lease", "3 by a-1", nanos(5*time.Second))
	h.say("b", won, "held-timed lease", "4", nanos(6*time.Second))
	h.say("b", acked, "held-timed lease", "4 by b-1", nanos(6*time.Second))
	h.say("f", item, "runs/shared", "a-1", "0")
	h.say("f", item, "runs/shared", "b-1", "1")
	h.say("f", item, "runs/shared", "a-2", "2")
	return h
}

// Each test case adds a fault of a failover to a history: the judge complains of each, and not of
// the history itself.
func TestPostgresTheJudgeOfFailoversSeesEachFault(t *testing.T) {
	var none complaints
	h := good()
	if h.world.judge(&none, h.said); len(none) > 0 {
		t.Errorf("of a good history: %q", none)
	}
	h.say("x", began, "live/shared", "x-1", "")
	h.say("x", killed, "", "", "")
	h.world.streams["live/shared"] = append(h.world.streams["live/shared"], entry{2, "x-1"})
	if h.world.judge(&none, h.said); len(none) > 0 {
		t.Errorf("of a process that was killed: %q", none)
	}
	drop := func(lane string, i int) func(*history) {
		return func(h *history) { h.world.streams[lane] = slices.Delete(h.world.streams[lane], i, i+1) }
	}
	text := func(lane string, i int, text string) func(*history) {
		return func(h *history) { h.world.streams[lane][i].text = text }
	}
	for _, f := range []struct {
		fault, complaint string
		do               func(*history)
	}{
		{"an append is lost", "1 acknowledged writes are lost", drop("runs/shared", 2)},
		{
			"a worker is lost with its inputs", "2 acknowledged writes are lost",
			func(h *history) { delete(h.world.streams, "workers/of a") },
		},
		{"an input is lost", "1 acknowledged writes are lost", drop("workers/of a", 1)},
		{
			"a checkpoint is lost", "1 acknowledged writes are lost",
			func(h *history) { delete(h.world.saved, "paused-2") },
		},
		{"an end is lost", "acknowledged writes are lost", func(h *history) { delete(h.world.past, "paused-1") }},
		{"an append is there twice", "a-1 is there 2 times", text("runs/shared", 2, "a-1")},
		{"an unknown append is there twice", "a-1 is there 2 times", func(h *history) {
			h.world.streams["live/shared"] = append(h.world.streams["live/shared"], entry{2, "a-1"})
		}},
		{"what failed is there", "a-0 is there, and was said to have failed", text("live/shared", 0, "a-0")},
		{"what nobody wrote is there", "nobody was told", text("live/shared", 0, "x-1")},
		{
			"what somebody else was writing is there, who goes on", "x-1 is there, and nobody was told",
			func(h *history) {
				text("live/shared", 0, "x-1")(h)
				h.say("x", began, "live/shared", "x-1", "")
			},
		},
		{"what was killed had acknowledged something", "1 acknowledged writes are lost", func(h *history) {
			drop("runs/shared", 2)(h)
			h.say("a", killed, "", "", "")
		}},
		{
			"a number is left out", "has the number 3, behind a first one of 0",
			func(h *history) { h.world.streams["runs/shared"][2].sequence = 3 },
		},
		{
			"a number of a runtime is there twice", "has the number 1, behind a first one of 1",
			func(h *history) { h.world.streams["workers"][1].sequence = 1 },
		},
		{
			"two win an epoch", "was won twice",
			func(h *history) { h.in(won, "held-lease", "9", func(n *note) { n.text = "7" }) },
		},
		{"two win a claim", "was won twice", func(h *history) { h.say("a", won, "paused-1", "5", "") }},
		{
			"two complete a checkpoint", "2 processes were told",
			func(h *history) { h.say("a", acked, "completed", "paused-1", "") },
		},
		{
			"a checkpoint is completed twice", "was completed under the epochs",
			func(h *history) { h.world.past["paused-1"] = []int64{5, 6} },
		},
		{
			"a checkpoint is completed that nobody completed", "paused-2 was completed, and nobody was told",
			func(h *history) { h.world.past["paused-2"] = []int64{1} },
		},
		{
			"a checkpoint is there that nobody saved", "paused-3 was saved, and nobody was told",
			func(h *history) { h.world.saved["paused-3"] = true },
		},
		{
			"who had it writes when another has it, and has not written yet",
			"was begun 1s after a later epoch was had", func(h *history) {
				h.in(acked, "held-lease", "7 by a-1", func(n *note) { n.rest = nanos(2 * time.Second) })
			},
		},
		{
			"an old epoch writes", "epoch 7 wrote behind epoch 9",
			func(h *history) { slices.Reverse(h.world.streams["held-lease"]) },
		},
		{"somebody writes under another's epoch", "wrote under the epoch", text("held-lease", 1, "9 by a-1")},
		{
			"who lost it writes", "wrote under what it was told to have lost",
			func(h *history) { h.say("a", acked, "held-lease", "7 by a-1", "0") },
		},
		{
			"who lost it renews it", "renewed what it was told to have lost",
			func(h *history) { h.say("a", renewed, "held-lease", "7", "0") },
		},
		{"who could not renew writes", "and it lasts 3s", func(h *history) {
			h.in(acked, "held-timed lease", "3 by a-1", func(n *note) { n.rest = nanos(20 * time.Second) })
		}},
		{"an outcome is unknown beside known ones", "the outcome is unknown, and", func(h *history) {
			h.say("b", acked, "runs/shared", "b-1", "")
			h.at = h.at.Add(30 * time.Second)
			h.say("a", unknown, "held-lease", "9 by a-9", "")
		}},
		{
			"an older value is the last one", "the last one that was acknowledged is",
			func(h *history) { h.world.last["agents/a"] = "a-1" },
		},
		{
			"an item is passed over", "its item 2 is",
			func(h *history) { h.in(item, "runs/shared", "b-1", func(n *note) { n.rest, n.text = "2", "a-2" }) },
		},
		{
			"an item comes again", "its item 2 is",
			func(h *history) { h.in(item, "runs/shared", "b-1", func(n *note) { n.rest, n.text = "0", "a-1" }) },
		},
		{"a cursor ends in a gap", "gap", func(h *history) { h.say("f", gap, "runs/shared", "", "") }},
		{"nobody follows", "nothing was followed", func(h *history) {
			h.said = slices.DeleteFunc(h.said, func(n note) bool { return n.kind == item })
		}},
		{
			"an error that no failover explains", "strange",
			func(h *history) { h.say("a", strange, "runs/shared", "a-3", "") },
		},
		{"a key is taken for another", "again", func(h *history) { h.say("a", failed, "again", "a-3", "") }},
	} {
		var said complaints
		h := good()
		f.do(h)
		h.world.judge(&said, h.said)
		if !slices.ContainsFunc(said, func(one string) bool { return strings.Contains(one, f.complaint) }) {
			t.Errorf("%s: the judge says %q", f.fault, said)
		}
	}
}

// As above, of things that come and go.
func TestPostgresTheJudgeOfThingsSeesEachFault(t *testing.T) {
	for fault, of := range map[string]struct {
		things    []string
		complaint string
	}{
		"none":                             {[]string{"a-1", "a-3"}, ""},
		"what was begun is there too":      {[]string{"a-1", "a-3", "a-4"}, ""},
		"what was made is gone":            {[]string{"a-1"}, "a-3 was made, and is not there"},
		"what was taken away is there":     {[]string{"a-1", "a-2", "a-3"}, "a-2 was taken away, and is there"},
		"what nobody made is there":        {[]string{"a-1", "a-3", "b-1"}, "b-1 is there, and nobody made it"},
		"there are two of it":              {[]string{"a-1", "a-1", "a-3"}, "a-1 is there twice"},
		"what was about to go is gone too": {[]string{"a-3"}, ""},
	} {
		h := &history{at: time.Unix(0, 0)}
		for _, id := range []string{"a-1", "a-2", "a-3"} {
			h.say("a", began, made+"runs", id, "")
			h.say("a", acked, made+"runs", id, "")
		}
		h.say("a", began, gone+"runs", "a-2", "")
		h.say("a", acked, gone+"runs", "a-2", "")
		h.say("a", began, gone+"runs", "a-1", "")
		h.say("a", began, made+"runs", "a-4", "")
		var said complaints
		judgeThings(&said, map[string][]string{"runs": of.things}, h.said)
		if all := strings.Join(said, "; "); (all == "") != (of.complaint == "") ||
			!strings.Contains(all, of.complaint) {
			t.Errorf("%s: the judge says %q", fault, said)
		}
	}
}

// Over a failover to a server whose clock is behind a lease lasts as much longer, and no longer than that.
func TestPostgres_FailoverJudgeKnowsClockSkew(t *testing.T) {
	for late, complains := range map[time.Duration]bool{100 * time.Second: false, 200 * time.Second: true} {
		h := good()
		h.world.apart = 180 * time.Second
		h.in(acked, "held-timed lease", "3 by a-1", func(n *note) { n.rest = nanos(late) })
		h.in(won, "held-timed lease", "4", func(n *note) { n.rest = nanos(late + time.Second) })
		var said complaints
		if h.world.judge(&said, h.said); len(said) > 0 != complains {
			t.Errorf("%v after it was renewed: %q", late, said)
		}
	}
}
