package main

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/maintenance"
	"selvedge/query"
	"selvedge/runs/live"
)

// liveAnswer is the shape of live show --json. The events are written as they are read.
type liveAnswer struct {
	Snapshot live.RunSnapshot `json:"snapshot"` // as in live list
	// what is kept of the run's events, oldest first: each with sequence, timestamp_ms (Unix milliseconds)
	// and event, byte for byte as it was recorded
	Events []any `json:"events"`
}

var _ = register("Look:", 70, func(a *app) *cobra.Command {
	return a.group(liveNoun, "Look at live runs, pin them, and recover those that only the dead held",
		a.liveListCommand(), a.liveShowCommand(), a.liveTailCommand())
})

var liveNoun = noun{
	store: maintenance.StoreLive, entity: "live run", some: "a live run", written: "%[1]s",
	open: func(a *app, d *db.DB) verbs { return idVerbs(a.liveStore(d)) },
	recovers: &recovery{
		"live run", "Give back live runs whose holder is dead",
		`recover gives back the live runs that a process held which is gone, so that another can resume them. It
ends none.`,
	},
}

func (a *app) liveStore(d *db.DB) *live.Store { return live.NewStore(d, live.Options{Scope: a.scope}) }

var liveStatuses = []live.RunStatus{
	live.Created, live.Planning, live.Executing, live.Verifying, live.Waiting, live.Completed, live.Failed,
	live.Cancelled,
}

func (a *app) liveListCommand() *cobra.Command {
	filter := live.Filter{}
	c := &cobra.Command{
		Use: "list [--session ID] [--status WORD] [--since TIME] [--newest] [--limit N] [--after CURSOR] " +
			"[--all]",
		Short: "List live runs, oldest first",
		Long: `list shows the live runs of the scope in the order of their creation. Filters add up: a run must
pass all of them. --status may be repeated, and means any of the words then.`,
	}
	a.textFlag(c, &filter.Session, "session", "only runs of the session `ID`")
	wordsFlag(a, c, &filter.Statuses, "status", "only runs in this `STATUS`: ", liveStatuses)
	a.sinceFlag(c, &filter.Since, "only runs that were created")
	c.Flags().BoolVar(&filter.Newest, "newest", false, "the newest run first")
	return list(a, c, listing[live.RunSnapshot]{
		noun: &liveNoun,
		page: func(ctx context.Context, d *db.DB, _ string, at db.At) (db.Page[live.RunSnapshot], error) {
			return a.liveStore(d).Page(ctx, filter, at)
		},
		grid: grid{
			header: []string{"run", "session", "created", "took", "status", "events", "prompt"},
			right:  []int{3, 5},
			times:  []int{2}, ids: []int{0, 1}, least: []int{5, 3, 1, 6},
		},
		row: func(s live.RunSnapshot) []string {
			return []string{
				s.ID, s.SessionID, millis(s.CreatedAtMs), liveTook(s), string(s.Status),
				strconv.FormatUint(s.EventCount, 10), cut(s.Prompt, 60),
			}
		},
	})
}

// millis formats a time in Unix milliseconds for people.
func millis(ms uint64) string {
	const year9999 = 253402300799999
	if ms > year9999 {
		return strconv.FormatUint(ms, 10) + " ms"
	}
	return instant(time.UnixMilli(int64(ms)))
}

// liveTook returns the time from a run's creation to its last event or mark.
func liveTook(s live.RunSnapshot) string {
	if s.UpdatedAtMs < s.CreatedAtMs || s.UpdatedAtMs-s.CreatedAtMs > 1<<40 {
		return ""
	}
	return (time.Duration(s.UpdatedAtMs-s.CreatedAtMs) * time.Millisecond).Round(time.Second).String()
}

func (a *app) liveShowCommand() *cobra.Command {
	return a.answering(a.one(liveNoun, toRead, &cobra.Command{
		Use:   "show ID",
		Short: "Show a live run and its events",
		Long:  "show takes the id of a live run, or the beginning of one where no other begins so.",
	}, func(ctx context.Context, d *db.DB, t thing) error {
		store := a.liveStore(d)
		run, err := store.Get(ctx, t.id)
		if err != nil {
			return err
		}
		if !a.json {
			used, err := a.usedBy(ctx, d, run.ID)
			if err != nil {
				return err
			}
			return a.printLive(ctx, query.On(d, a.scope), run, used)
		}
		snapshot, err := run.MarshalJSON()
		if err != nil {
			return err
		}
		// The events as they were recorded: a JSON encoder would remove blanks.
		return stream(a, fmt.Sprintf(`{"snapshot":%s,"events":`, snapshot), store.EachEvent(ctx, run.ID),
			live.RunEventRecord.MarshalJSON, endObject)
	}), liveAnswer{})
}

func (a *app) printLive(ctx context.Context, q *query.Store, run live.RunSnapshot, used []string) error {
	facts := []string{
		"run", run.ID, "session", run.SessionID, "status", string(run.Status), "prompt", run.Prompt,
		"result", value(run.ResultText), "error", value(run.Error), "created", millis(run.CreatedAtMs),
		"last event", millis(run.UpdatedAtMs), "events", strconv.FormatUint(run.EventCount, 10),
	}
	g := &grid{header: []string{"sequence", "at", "type", "words"}, right: []int{0}}
	events := func(at db.At) (db.Page[query.Event], error) { return q.Live(ctx, run.ID, at) }
	for e, err := range paging.All(events) {
		if err != nil {
			return err
		}
		g.add(eventCells(e)...)
	}
	a.printSheet(append(facts, used...), g)
	return a.failed
}

// liveItem is a line of live tail --json. The event is written as it is read.
type liveItem struct {
	RunID  string `json:"run_id"` // the run
	Record any    `json:"record"` // the event as in the events of live show: sequence, timestamp_ms, event
	Cursor string `json:"cursor"` // give it to --from, with the run's ID, to go on behind this event
}

func (a *app) liveTailCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "tail [ID | --session ID] [--lines N | --all | --from CURSOR]",
		Short: "Follow a live run, or all of them, as events are recorded",
		Long: `tail prints the last events of a live run, and then each as any process records it, until it is
interrupted; also behind the run's end. Without ID it follows every run of the scope, or of a --session, and
begins with what is new: in each run in the order of its events.

Each event has a cursor, and the hint at the end has that of the last one: --from goes on behind it, in the
same run. A tail ends where events that were to come are gone: a cap took them, or the run was removed or
replaced.`,
		PreRunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && given(c, "session") != nil {
				return usage("choose one of ID and --session")
			}
			return nil
		},
	}
	c.Flags().String("session", "", "all runs of the session `ID`")
	tailCommand(a, c, "events", liveNoun.needsID, func(
		ctx context.Context, d *db.DB, args []string, _ tailFlags,
	) (t tailing[string, live.RunEventRecord], err error) {
		store := a.liveStore(d)
		t = tailing[string, live.RunEventRecord]{
			columns: []column{{"sequence", 8}, {"at", 20}, {"type", 20}, {"words", 0}},
			row:     func(r live.RunEventRecord) []string { return eventCells(query.Describe(r)) },
			json:    liveItemJSON,
		}
		if len(args) == 0 {
			t.follow = func(ctx context.Context, _ string) iter.Seq2[live.Followed, error] {
				return store.FollowAll(ctx, live.Filter{Session: given(c, "session")})
			}
			t.owners, t.owner = []column{{"run", 40}}, func(id string) []string { return []string{id} }
			t.expired = "events were removed before they were printed; start again to follow those that come"
			return t, nil
		}
		found, err := liveNoun.find(ctx, liveNoun.open(a, d), args[0], nil)
		t.follow = func(ctx context.Context, from string) iter.Seq2[live.Followed, error] {
			return store.Follow(ctx, found.id, from)
		}
		t.before = func(ctx context.Context, n int64) (string, error) {
			return store.CursorBefore(ctx, found.id, n)
		}
		t.words = []string{"live", "tail", found.id}
		t.expired = "a cap took the events, or the run was removed or replaced; go on with what is there: " +
			a.commandLine("live", "tail", found.id, "--all")
		return t, err
	})
	return a.answering(c, liveItem{})
}

// eventCells describes an event for people: with the words it has, or else as it was recorded.
func eventCells(e query.Event) []string {
	words := strings.TrimSpace(e.Tool + " " + e.Text)
	if words == "" && e.Status == "" {
		words = string(e.JSON)
	}
	if e.Dropped {
		words = "dropped, for it was tried again: " + words
	}
	return []string{
		strconv.FormatUint(e.Sequence, 10), instant(e.At), e.Type, cut(words, textWidth),
	}
}

func liveItemJSON(e live.Followed) ([]byte, error) {
	record, err := e.Item.MarshalJSON()
	if err != nil {
		return nil, err
	}
	line := appendJSON([]byte(`{"run_id":`), e.Of)
	line = append(append(line, `,"record":`...), record...)
	return append(appendJSON(append(line, `,"cursor":`...), e.Cursor), '}'), nil
}
