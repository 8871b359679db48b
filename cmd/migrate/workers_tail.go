package main

import (
	"bytes"
	"context"
	"iter"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/workers"
)

// workerItem is a line of workers tail --json.
type workerItem struct {
	RuntimeID workers.RuntimeID    `json:"runtime_id"` // the runtime whose log the event is from
	Event     workers.RuntimeEvent `json:"event"`      // what happened
	// give it to --from to go on behind this event, in the log of its runtime
	Cursor string `json:"cursor"`
}

func (a *app) workersTailCommand() *cobra.Command {
	var f tailFlags
	c := &cobra.Command{
		Use:   "tail [ID] [--runtime ID] [--lines N | --all | --from CURSOR]",
		Short: "Follow workers as events come to the logs of their runtimes",
		Long: `tail prints the last events of a worker, or of all of a --runtime, and then each as it comes, by whichever process, until it is
interrupted. With neither it follows every runtime of the scope, and begins with what is new: in each in the order of its log.

Each event has a cursor, and the hint at the end has that of the last one: --from goes on behind it, in the log of the same
runtime. A tail ends where events that were to come were removed.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			many := "a worker's ID or --runtime"
			if len(args) == 1 || c.Flags().Changed("runtime") {
				many = ""
			}
			if f.from != "" {
				many = "" // the cursor says which runtime
			}
			if err := f.check(c, many); err != nil {
				return err
			}
			return a.with(c.Context(), toRead, func(d *db.DB) error { return a.workersTail(c.Context(), d, args, given(c, "runtime"), f) })
		},
	}
	c.Flags().String("runtime", "", "only events of the runtime `ID`")
	f.add(c, "events")
	return a.answering(c, workerItem{})
}

// workersTail finds out whose log is meant.
func (a *app) workersTail(ctx context.Context, d *db.DB, args []string, named *string, f tailFlags) error {
	if len(args) == 0 && f.from == "" && named == nil {
		return a.workersTailAll(ctx, d)
	}
	if f.from != "" && named == nil {
		id, err := workers.NewRuntimes(d, a.scope).Of(ctx, f.from)
		if err != nil {
			return err
		}
		named = (*string)(&id)
	}
	var worker *workers.WorkerRef
	if len(args) > 0 {
		t, err := workerNoun.find(ctx, workerNoun.open(a, d), args[0], named)
		if err != nil {
			return err
		}
		worker, named = new(workerRef(t)), &t.owner
	}
	r, err := a.runtime(ctx, d, workers.RuntimeID(*named))
	if err != nil {
		return err
	}
	return a.workersTailOne(ctx, r, worker, f)
}

// workersTailOne follows the log of one runtime; of one worker, where there is one.
func (a *app) workersTailOne(ctx context.Context, r *workers.Runtime, worker *workers.WorkerRef,
	f tailFlags,
) (err error) {
	from := f.from
	switch {
	case from != "" || f.all:
	case worker != nil:
		from, err = lastOfWorker(ctx, r, *worker, f.lines)
	default:
		from, err = r.CursorBefore(ctx, int64(f.lines))
	}
	if err != nil {
		return err
	}
	words := []string{"workers", "tail"}
	if worker != nil {
		words = append(words, string(worker.WorkerID))
	}
	words = append(words, "--runtime", string(r.RuntimeID()))
	return tail(ctx, a, tailing[workers.Followed]{
		follow: func(ctx context.Context, from string) iter.Seq2[workers.Followed, error] {
			return eventsOf(worker, r.Follow(ctx, from), f.all)
		},
		columns: deliveryColumns,
		row:     deliveryCells,
		json:    deliveryJSON,
		words:   words,
		begin:   from,
		cursor:  func(e workers.Followed) string { return e.Cursor },
		expired: "the events that come next were removed; go on with what is there: " +
			a.commandLine(append(words, "--all")...),
	})
}

// eventsOf leaves out what is no event, and what is not about the worker; nil is all of them.
// Events that went unread end it, but for those before the first, where all that are there are
// wanted.
func eventsOf(worker *workers.WorkerRef, all iter.Seq2[workers.Followed, error],
	fromStart bool,
) iter.Seq2[workers.Followed, error] {
	return func(yield func(workers.Followed, error) bool) {
		for item, err := range all {
			if err == nil && item.What == db.Gap && !item.Gone && !fromStart {
				err = db.CursorExpired(item.Reason)
			}
			fromStart = false
			if err == nil && (item.What != db.Written || worker != nil &&
				(item.Item.WorkerRef == nil || *item.Item.WorkerRef != *worker)) {
				continue
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// lastOfWorker finds the place before the last events of a worker, at most so many of them.
func lastOfWorker(ctx context.Context, r *workers.Runtime, worker workers.WorkerRef, lines int) (string,
	error,
) {
	before, err := r.CursorBefore(ctx, math.MaxInt32)
	if err != nil {
		return "", err
	}
	var last []string // each before an event of the worker
	for e, err := range db.AllPages(func(at db.At) (db.Page[workers.Followed],
		error,
	) {
		return r.EventsPage(ctx, at)
	}) {
		if err != nil {
			return "", err
		}
		if e.Item.WorkerRef != nil && *e.Item.WorkerRef == worker && lines > 0 {
			if len(last) == lines {
				last = last[1:]
			}
			last = append(last, before)
		}
		before = e.Cursor
	}
	if len(last) > 0 {
		return last[0], nil
	}
	return before, nil
}

func (a *app) workersTailAll(ctx context.Context, d *db.DB) error {
	return tail(ctx, a, tailing[workers.Followed]{
		follow: func(ctx context.Context, _ string) iter.Seq2[workers.Followed, error] {
			return eventsOf(nil, workers.NewRuntimes(d, a.scope).FollowAll(ctx, workers.RuntimeFilter{}), false)
		},
		columns: append([]column{{"runtime", 24}}, deliveryColumns...),
		row: func(e workers.Followed) []string {
			return append([]string{string(e.Of)}, deliveryCells(e)...)
		},
		json:    deliveryJSON,
		expired: "events were removed before they were printed; start again to follow those that come",
	})
}

var deliveryColumns = []column{{"event", 6}, {"worker", 16}, {"kind", 22}, {"message", 0}}

func deliveryCells(f workers.Followed) []string {
	worker := ""
	if f.Item.WorkerRef != nil {
		worker = string(f.Item.WorkerRef.WorkerID)
	}
	return []string{strconv.FormatUint(f.Item.ID, 10), worker, string(f.Item.Kind), cut(f.Item.Message, 100)}
}

func deliveryJSON(f workers.Followed) ([]byte, error) {
	text, err := encodeJSON(workerItem{f.Of, f.Item, f.Cursor})
	return bytes.TrimSuffix(text, []byte("\n")), err
}
