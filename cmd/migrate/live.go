package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/runs/live"
)

// liveAnswer is the shape of live show --json. The events are written as they are read.
type liveAnswer struct {
	Snapshot live.RunSnapshot `json:"snapshot" doc:"as in live list"`
	Events   []any            `json:"events" doc:"what is kept of the run's events, oldest first: each with sequence, timestamp_ms (Unix milliseconds) and event, byte for byte as it was recorded"`
}

func (a *app) liveCommand() *cobra.Command {
	return group("live", "Look at live runs", a.liveListCommand(), a.liveShowCommand(), a.liveTailCommand())
}

var liveStatuses = []live.RunStatus{
	live.Created, live.Planning, live.Executing, live.Verifying, live.Completed, live.Failed, live.Cancelled,
}

type liveFlags struct {
	pageFlags
	session  string
	statuses []string
	since    string
}

func (a *app) liveListCommand() *cobra.Command {
	var f liveFlags
	c := &cobra.Command{
		Use:   "list [--session ID] [--status WORD] [--since TIME] [--limit N] [--after CURSOR] [--all]",
		Short: "List live runs, oldest first",
		Long: `list shows the live runs of the scope in the order of their creation. Filters add up: a run must pass all of them. --status
may be repeated, and means any of the words then.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			filter, err := f.filter(c, time.Now())
			if err != nil {
				return err
			}
			return a.liveList(c.Context(), f.pageFlags, filter)
		},
	}
	c.Flags().StringVar(&f.session, "session", "", "only runs of the session `ID`")
	c.Flags().StringArrayVar(&f.statuses, "status", nil, "only runs in this `STATUS`: "+join(liveStatuses))
	completeWords(c, "status", liveStatuses)
	c.Flags().StringVar(&f.since, "since", "",
		"only runs that were created at this `TIME` or later: 24h, 7d, or as 2026-05-04T13:30:00Z")
	f.add(c, "run", "session", "created", "took", "status", "events", "prompt")
	return c
}

func (f *liveFlags) filter(c *cobra.Command, now time.Time) (filter live.Filter, err error) {
	if c.Flags().Changed("session") {
		filter.Session = &f.session
	}
	if filter.Statuses, err = someOf("status", f.statuses, liveStatuses); err != nil {
		return filter, err
	}
	filter.Since, err = parseSince(f.since, now)
	return filter, err
}

func (a *app) liveList(ctx context.Context, f pageFlags, filter live.Filter) error {
	return a.with(ctx, toRead, func(d *db.DB) error {
		store := live.NewStore(d, live.Options{Scope: a.scope})
		return printList(ctx, a, f, listing[live.RunSnapshot]{
			page: func(ctx context.Context, at db.At) (db.Page[live.RunSnapshot], error) {
				return store.Page(ctx, filter, at)
			},
			grid: grid{
				right: []int{3, 5},
				times: []int{2}, ids: []int{0, 1}, least: []int{5, 3, 1, 6},
			},
			row: func(s live.RunSnapshot) []string {
				return []string{
					s.ID, s.SessionID, millis(s.CreatedAtMs), liveTook(s), string(s.Status),
					strconv.FormatUint(s.EventCount, 10), cut(s.Prompt, 60),
				}
			},
		})
	})
}

// millis is a time in Unix milliseconds for people.
func millis(ms uint64) string {
	const year9999 = 253402300799999
	if ms > year9999 {
		return strconv.FormatUint(ms, 10) + " ms"
	}
	return instant(time.UnixMilli(int64(ms)))
}

// liveTook is the time from a run's creation to its last event or mark.
func liveTook(s live.RunSnapshot) string {
	if s.UpdatedAtMs < s.CreatedAtMs || s.UpdatedAtMs-s.CreatedAtMs > 1<<40 {
		return ""
	}
	return (time.Duration(s.UpdatedAtMs-s.CreatedAtMs) * time.Millisecond).Round(time.Second).String()
}

func (a *app) liveShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show a live run and its events",
		Long:  "show takes the id of a live run, or the beginning of one where no other begins so.",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(c.Context(), toRead, func(d *db.DB) error {
				store := live.NewStore(d, live.Options{Scope: a.scope})
				run, err := findLive(c.Context(), store, args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.liveJSON(c.Context(), store, run)
				}
				return a.printLive(c.Context(), store, run)
			})
		},
	}
}

// findLive finds the run that an id on the command line means.
func findLive(ctx context.Context, store *live.Store, id string) (live.RunSnapshot, error) {
	found, err := store.Find(ctx, id, namedCandidates+1)
	if err != nil {
		return live.RunSnapshot{}, err
	}
	if len(found) == 0 {
		return live.RunSnapshot{}, &db.Error{
			Op: "find", Entity: "live run", ID: id, Err: db.ErrNotFound,
			Hint: "see what there is: migrate live list",
		}
	}
	var candidates []candidate[string]
	for _, run := range found {
		candidates = append(candidates, candidate[string]{id: run, name: shellWord(run), item: run})
	}
	run, err := unique("live run", id, candidates)
	if err != nil {
		return live.RunSnapshot{}, err
	}
	return store.Get(ctx, run)
}

// liveJSON writes the events as they were recorded: a JSON encoder would take out blanks.
func (a *app) liveJSON(ctx context.Context, store *live.Store, run live.RunSnapshot) error {
	snapshot, err := run.MarshalJSON()
	if err != nil {
		return err
	}
	array := a.printArray(fmt.Sprintf(`{"snapshot":%s,"events":`, snapshot))
	for e, err := range store.EachEvent(ctx, run.ID) {
		var record []byte
		if err == nil {
			record, err = e.MarshalJSON()
		}
		if err != nil {
			return err
		}
		array.add(record)
	}
	return array.end("}")
}

func (a *app) printLive(ctx context.Context, store *live.Store, run live.RunSnapshot) error {
	facts := [][2]string{
		{"run", run.ID},
		{"session", run.SessionID},
		{"status", string(run.Status)},
		{"prompt", run.Prompt},
		{"result", value(run.ResultText)},
		{"error", value(run.Error)},
		{"created", millis(run.CreatedAtMs)},
		{"last event", millis(run.UpdatedAtMs)},
		{"events", strconv.FormatUint(run.EventCount, 10)},
	}
	var turns, ends tally // an agent_end sums the turn_ends up
	g := &grid{header: []string{"sequence", "at", "type", "event"}, right: []int{0}}
	for e, err := range store.EachEvent(ctx, run.ID) {
		if err != nil {
			return err
		}
		g.add(eventCells(e)...)
		if u := e.Event.Usage(); e.Event.Type() == "agent_end" {
			ends = tally{}
			ends.add(u)
		} else {
			turns.add(u)
		}
	}
	if turns.atLeast(ends); turns.counted() {
		facts = append(facts, [2]string{"used", turns.words()})
	}
	return a.printSheet(facts, g)
}
