package main

import (
	"context"
	"iter"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/internal/paging"
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
	c := &cobra.Command{
		Use:   "tail [ID] [--runtime ID] [--lines N | --all | --from CURSOR]",
		Short: "Follow workers as events come to the logs of their runtimes",
		Long: `tail prints the last events of a worker, or of all of a --runtime, and then each as it comes from
any process, until it is interrupted. With neither it follows every runtime of the scope, and begins with
what is new: in each in the order of its log.

Each event has a cursor, and the hint at the end has that of the last one: --from goes on behind it, in the
log of the same runtime. A tail ends where events that were to come were removed.`,
	}
	c.Flags().String("runtime", "", "only events of the runtime `ID`")
	many := func(args []string, f tailFlags) string { // a cursor says which runtime
		if len(args) == 1 || given(c, "runtime") != nil || f.from != "" {
			return ""
		}
		return "a worker's ID or --runtime"
	}
	tailCommand(a, c, "events", many, func(ctx context.Context, d *db.DB, args []string, f tailFlags) (
		t tailing[workers.RuntimeID, workers.RuntimeEvent], err error,
	) {
		t = tailing[workers.RuntimeID, workers.RuntimeEvent]{
			columns: []column{{"event", 6}, {"worker", 16}, {"kind", 22}, {"message", 0}},
			row:     deliveryCells, json: deliveryJSON,
		}
		if many(args, f) == "" {
			err = a.workersTail(ctx, d, args, given(c, "runtime"), f.from, &t)
			return t, err
		}
		t.follow = func(ctx context.Context, _ string) iter.Seq2[workers.Followed, error] {
			return workers.NewRuntimes(d, a.scope).FollowAll(ctx, workers.RuntimeFilter{})
		}
		t.owners = []column{{"runtime", 24}}
		t.owner = func(id workers.RuntimeID) []string { return []string{string(id)} }
		t.expired = "events were removed before they were printed; start again to follow those that come"
		return t, nil
	})
	return a.answering(c, workerItem{})
}

// workersTail makes t a tail of the log of one runtime; of one worker in it, if args name one.
func (a *app) workersTail(
	ctx context.Context, d *db.DB, args []string, named *string, from string,
	t *tailing[workers.RuntimeID, workers.RuntimeEvent],
) error {
	if from != "" && named == nil {
		id, err := workers.NewRuntimes(d, a.scope).Of(ctx, from)
		if err != nil {
			return err
		}
		named = (*string)(&id)
	}
	t.words = []string{"workers", "tail"}
	var worker workers.WorkerRef
	if len(args) > 0 {
		found, err := workerNoun.find(ctx, workerNoun.open(a, d), args[0], named)
		if err != nil {
			return err
		}
		worker, named = workerRef(found), &found.owner
		t.words = append(t.words, found.id)
		t.keep = func(e workers.RuntimeEvent) bool { return e.WorkerRef != nil && *e.WorkerRef == worker }
	}
	r, err := a.runtime(ctx, d, workers.RuntimeID(*named))
	if err != nil {
		return err
	}
	t.words = append(t.words, "--runtime", string(r.RuntimeID()))
	t.expired = "the events that come next were removed; go on with what is there: " +
		a.commandLine(append(t.words, "--all")...)
	t.follow, t.before = r.Follow, r.CursorBefore
	if t.keep != nil {
		t.before = func(ctx context.Context, n int64) (string, error) {
			return lastOfWorker(ctx, r, t.keep, int(n))
		}
	}
	return nil
}

// lastOfWorker finds the place before the last events of a worker, at most so many of them.
func lastOfWorker(ctx context.Context, r *workers.Runtime, is func(workers.RuntimeEvent) bool, lines int) (
	string, error,
) {
	before, err := r.CursorBefore(ctx, math.MaxInt32)
	if err != nil {
		return "", err
	}
	var last []string // each before an event of the worker
	page := func(at db.At) (db.Page[workers.Followed], error) { return r.EventsPage(ctx, at) }
	for e, err := range paging.All(page) {
		if err != nil {
			return "", err
		}
		if is(e.Item) && lines > 0 {
			last = append(last[max(0, len(last)-lines+1):], before)
		}
		before = e.Cursor
	}
	if len(last) > 0 {
		return last[0], nil
	}
	return before, nil
}

func deliveryCells(e workers.RuntimeEvent) []string {
	worker := ""
	if e.WorkerRef != nil {
		worker = string(e.WorkerRef.WorkerID)
	}
	return []string{strconv.FormatUint(e.ID, 10), worker, string(e.Kind), cut(e.Message, 100)}
}

func deliveryJSON(f workers.Followed) ([]byte, error) {
	return encodeJSON(workerItem{f.Of, f.Item, f.Cursor})
}
