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
	RunID  string `json:"run_id"` // the run
	Record any    `json:"record"` // the event as in the events of live show: sequence, timestamp_ms, event
	Cursor string `json:"cursor"` // give it to --from, with the run's ID, to go on behind this event
}

func (a *app) liveTailCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "tail [ID | --session ID] [--lines N | --all | --from CURSOR]",
		Short: "Follow a live run, or all of them, as events are recorded",
		Long: `tail prints the last events of a live run, and then each as it is recorded, by whichever process, until it is interrupted;
also behind the run's end. Without ID it follows every run of the scope, or of a --session, and begins with what is new: in
each run in the order of its events.

Each event has a cursor, and the hint at the end has that of the last one: --from goes on behind it, in the same run. A tail
ends where events that were to come are gone: a cap took them, or the run was removed or replaced.`,
		PreRunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && given(c, "session") != nil {
				return usage("choose one of ID and --session")
			}
			return nil
		},
	}
	c.Flags().String("session", "", "all runs of the session `ID`")
	tailOneOrMany(a, c, liveNoun, "events",
		func(d *db.DB) tailing[live.Followed] { return a.liveTailAll(d, given(c, "session")) },
		func(d *db.DB, t thing, fromStart bool) tailing[live.Followed] { return a.liveTail(d, t.id, fromStart) })
	return a.answering(c, liveItem{})
}

func (a *app) liveTail(d *db.DB, id string, fromStart bool) tailing[live.Followed] {
	store := a.liveStore(d)
	return tailing[live.Followed]{
		follow: func(ctx context.Context, from string) iter.Seq2[live.Followed, error] {
			return followedLive(store.Follow(ctx, id, from), fromStart)
		},
		before:  func(ctx context.Context, n int64) (string, error) { return store.CursorBefore(ctx, id, n) },
		columns: eventColumns,
		row:     func(e live.Followed) []string { return eventCells(e.Item) },
		json:    liveItemJSON,
		words:   []string{"live", "tail", id},
		cursor:  func(e live.Followed) string { return e.Cursor },
		expired: "a cap took the events, or the run was removed or replaced; go on with what is there: " +
			a.commandLine("live", "tail", id, "--all"),
	}
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

func (a *app) liveTailAll(d *db.DB, session *string) tailing[live.Followed] {
	return tailing[live.Followed]{
		follow: func(ctx context.Context, _ string) iter.Seq2[live.Followed, error] {
			return followedLive(a.liveStore(d).FollowAll(ctx, live.Filter{Session: session}), false)
		},
		columns: append([]column{{"run", 40}}, eventColumns...),
		row:     func(e live.Followed) []string { return append([]string{e.Of}, eventCells(e.Item)...) },
		json:    liveItemJSON,
		expired: "events were removed before they were printed; start again to follow those that come",
	}
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
