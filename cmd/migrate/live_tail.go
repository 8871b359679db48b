package main

import (
	"context"
	"iter"
	"strconv"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/runs/live"
)

// liveItem is a line of live tail --json. The event is written as it is read.
type liveItem struct {
	RunID  string `json:"run_id" doc:"the run"`
	Record any    `json:"record" doc:"the event as in the events of live show: sequence, timestamp_ms, event"`
	Cursor string `json:"cursor" doc:"give it to --from, with the run's ID, to go on behind this event"`
}

func (a *app) liveTailCommand() *cobra.Command {
	var f tailFlags
	c := &cobra.Command{
		Use:   "tail [ID | --session ID] [--lines N | --all | --from CURSOR]",
		Short: "Follow a live run, or all of them, as events are recorded",
		Long: `tail prints the last events of a live run, and then each as it is recorded, by whichever process, until it is interrupted;
also behind the run's end. Without ID it follows every run of the scope, or of a --session, and begins with what is new: in
each run in the order of its events.

Each event has a cursor, and the hint at the end has that of the last one: --from goes on behind it, in the same run. A tail
ends where events that were to come are gone: a cap took them, or the run was removed or replaced.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			of := given(c, "session")
			many := "the ID of a live run"
			if len(args) == 1 {
				many = ""
			}
			if err := f.check(c, many); err != nil {
				return err
			}
			if len(args) == 1 && of != nil {
				return usage("choose one of ID and --session")
			}
			return a.with(c.Context(), toRead, func(d *db.DB) error {
				store := a.liveStore(d)
				if len(args) == 0 {
					return a.liveTailAll(c.Context(), store, of)
				}
				t, err := liveNoun.find(c.Context(), liveNoun.open(a, d), args[0], nil)
				if err != nil {
					return err
				}
				return a.liveTail(c.Context(), store, t.id, f)
			})
		},
	}
	c.Flags().String("session", "", "all runs of the session `ID`")
	f.add(c, "events")
	return a.answering(c, liveItem{})
}

func (a *app) liveTail(ctx context.Context, store *live.Store, id string, f tailFlags) (err error) {
	cursor := f.from
	if cursor == "" && !f.all {
		if cursor, err = store.CursorBefore(ctx, id, int64(f.lines)); err != nil {
			return err
		}
	}
	return tail(ctx, a, tailing[live.Followed]{
		follow: func(ctx context.Context) (iter.Seq2[live.Followed, error], error) {
			return followedLive(store.Follow(ctx, id, cursor), f.all), nil
		},
		columns: eventColumns,
		row:     func(e live.Followed) []string { return eventCells(e.Item) },
		json:    liveItemJSON,
		words:   []string{"live", "tail", id},
		begin:   cursor,
		cursor:  func(e live.Followed) string { return e.Cursor },
		expired: "a cap took the events, or the run was removed or replaced; go on with what is there: " +
			a.commandLine("live", "tail", id, "--all"),
	})
}

// followedLive leaves out what is no event: a status is told by the event that brought it. Events
// that went unread end it, but for those before the first, where all that are there are wanted.
func followedLive(items iter.Seq2[live.Followed, error], fromStart bool) iter.Seq2[live.Followed, error] {
	return func(yield func(live.Followed, error) bool) {
		for item, err := range items {
			if err == nil && item.What == db.Gap && !item.Gone && !fromStart {
				err = db.CursorExpired(item.Reason)
			}
			fromStart = false
			if err == nil && item.What != db.Written {
				continue
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

func (a *app) liveTailAll(ctx context.Context, store *live.Store, session *string) error {
	return tail(ctx, a, tailing[live.Followed]{
		follow: func(ctx context.Context) (iter.Seq2[live.Followed, error], error) {
			return followedLive(store.FollowAll(ctx, live.Filter{Session: session}), false), nil
		},
		columns: append([]column{{"run", 40}}, eventColumns...),
		row:     func(e live.Followed) []string { return append([]string{e.Of}, eventCells(e.Item)...) },
		json:    liveItemJSON,
		expired: "events were removed before they were printed; start again to follow those that come",
	})
}

var eventColumns = []column{{"sequence", 8}, {"at", 19}, {"type", 20}, {"event", 0}}

func eventCells(e live.RunEventRecord) []string {
	return []string{
		strconv.FormatUint(e.Sequence, 10), millis(e.TimestampMs), e.Event.Type(),
		cut(string(e.Event.JSON()), textWidth),
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
