package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/workers"
)

// workerItem is a line of workers tail --json.
type workerItem struct {
	RuntimeID workers.RuntimeID    `json:"runtime_id" doc:"the runtime whose log the event is from"`
	Event     workers.RuntimeEvent `json:"event" doc:"what happened"`
	Cursor    string               `json:"cursor" doc:"give it to --from to go on behind this event, in the log of its runtime"`
}

func (a *app) workersTailCommand() *cobra.Command {
	var f tailFlags
	var runtime string
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
			from, err := parseEventCursor(f.from)
			if err != nil {
				return err
			}
			if f.from != "" {
				many = "" // the cursor says which runtime
			}
			if err := f.check(c, many); err != nil {
				return err
			}
			return a.with(c.Context(), toRead, func(d *db.DB) error { return a.workersTail(c, d, args, runtime, f, from) })
		},
	}
	c.Flags().StringVar(&runtime, "runtime", "", "only events of the runtime `ID`")
	f.add(c, "events")
	return c
}

// workersTail finds out whose log is meant.
func (a *app) workersTail(c *cobra.Command, d *db.DB, args []string, named string, f tailFlags, from workers.EventCursor) error {
	if len(args) == 0 && f.from == "" && !c.Flags().Changed("runtime") {
		return a.workersTailAll(c.Context(), d)
	}
	ids, err := a.runtimes(c, d, named)
	if err != nil {
		return err
	}
	if f.from != "" && !c.Flags().Changed("runtime") {
		ids = []workers.RuntimeID{from.RuntimeID}
	}
	if len(args) == 0 {
		r, err := a.runtime(c.Context(), d, ids[0])
		if err != nil {
			return err
		}
		return a.workersTailOne(c.Context(), r, nil, f, from)
	}
	r, worker, err := a.findWorker(c.Context(), d, ids, args[0])
	if err != nil {
		return err
	}
	return a.workersTailOne(c.Context(), r, &worker, f, from)
}

// workersTailOne follows the log of one runtime; of one worker, where there is one.
func (a *app) workersTailOne(ctx context.Context, r *workers.Runtime, worker *workers.WorkerRef, f tailFlags, from workers.EventCursor) (err error) {
	switch {
	case f.from != "":
	case f.all:
		from, err = r.EventCursorFromStart(ctx)
	case worker != nil:
		from, err = lastOfWorker(ctx, r, *worker, f.lines)
	default:
		from, err = r.EventCursorBefore(ctx, uint64(f.lines))
	}
	if err != nil {
		return err
	}
	words := []string{"workers", "tail"}
	if worker != nil {
		words = append(words, string(worker.WorkerID))
	}
	words = append(words, "--runtime", string(r.RuntimeID()))
	return tail(ctx, a, tailing[workers.Delivery]{
		follow: func(ctx context.Context) (iter.Seq2[workers.Delivery, error], error) {
			return eventsOf(worker, r.FollowEvents(ctx, from)), nil
		},
		columns: deliveryColumns,
		row:     deliveryCells,
		json:    deliveryJSON,
		words:   words,
		begin:   eventCursorText(from),
		cursor:  func(d workers.Delivery) string { return eventCursorText(d.Cursor) },
		expired: "the events that come next were removed; go on with what is there: " + a.commandLine(append(words, "--all")...),
	})
}

// eventsOf leaves out what is not about the worker; nil is all of them.
func eventsOf(worker *workers.WorkerRef, all iter.Seq2[workers.Delivery, error]) iter.Seq2[workers.Delivery, error] {
	if worker == nil {
		return all
	}
	return func(yield func(workers.Delivery, error) bool) {
		for d, err := range all {
			if err == nil && (d.Event.WorkerRef == nil || *d.Event.WorkerRef != *worker) {
				continue
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// lastOfWorker finds the place before the last events of a worker, at most so many of them.
func lastOfWorker(ctx context.Context, r *workers.Runtime, worker workers.WorkerRef, lines int) (workers.EventCursor, error) {
	before, err := r.EventCursorFromStart(ctx)
	if err != nil {
		return before, err
	}
	var last []workers.EventCursor // each before an event of the worker
	for d, err := range r.Events(ctx, before) {
		if err != nil {
			return before, err
		}
		if d.Event.WorkerRef != nil && *d.Event.WorkerRef == worker && lines > 0 {
			if len(last) == lines {
				last = last[1:]
			}
			last = append(last, before)
		}
		before = d.Cursor
	}
	if len(last) > 0 {
		return last[0], nil
	}
	return before, nil
}

func (a *app) workersTailAll(ctx context.Context, d *db.DB) error {
	return tail(ctx, a, tailing[workers.Delivery]{
		follow: func(ctx context.Context) (iter.Seq2[workers.Delivery, error], error) {
			return a.followRuntimes(ctx, d)
		},
		columns: append([]column{{"runtime", 24}}, deliveryColumns...),
		row: func(d workers.Delivery) []string {
			return append([]string{string(d.Cursor.RuntimeID)}, deliveryCells(d)...)
		},
		json:    deliveryJSON,
		expired: "events were removed before they were printed; start again to follow those that come",
	})
}

// A followedRuntime is a runtime and how far its log was read.
type followedRuntime struct {
	runtime *workers.Runtime
	cursor  workers.EventCursor
}

// followRuntimes gives what comes from now on to the logs of the scope's runtimes, those of new ones from their beginning.
func (a *app) followRuntimes(ctx context.Context, d *db.DB) (iter.Seq2[workers.Delivery, error], error) {
	ctx, cancel := context.WithCancel(ctx)
	changes, err := d.Changes(ctx)
	var all []followedRuntime
	if err == nil {
		all, err = a.addRuntimes(ctx, d, nil, func(r *workers.Runtime) (workers.EventCursor, error) { return r.EventCursorBefore(ctx, 0) })
	}
	if err != nil {
		cancel()
		return nil, err
	}
	fromStart := func(r *workers.Runtime) (workers.EventCursor, error) { return r.EventCursorFromStart(ctx) }
	return func(yield func(workers.Delivery, error) bool) {
		defer cancel() // ends the watch
		for range changes {
			if all, err = a.addRuntimes(ctx, d, all, fromStart); err != nil {
				yield(workers.Delivery{}, err)
				return
			}
			for i := range all {
				for delivery, err := range all[i].runtime.Events(ctx, all[i].cursor) {
					if !yield(delivery, err) || err != nil {
						return
					}
					all[i].cursor = delivery.Cursor
				}
			}
		}
	}, nil
}

// addRuntimes adds the runtimes that are not among those known yet.
func (a *app) addRuntimes(
	ctx context.Context, d *db.DB, known []followedRuntime, begin func(*workers.Runtime) (workers.EventCursor, error),
) ([]followedRuntime, error) {
	seen := map[workers.RuntimeID]bool{}
	for _, k := range known {
		seen[k.runtime.RuntimeID()] = true
	}
	for id, err := range workers.Runtimes(ctx, d, a.scope) {
		if err != nil {
			return nil, err
		}
		if seen[id] {
			continue
		}
		r, err := a.runtime(ctx, d, id)
		if err != nil {
			return nil, err
		}
		cursor, err := begin(r)
		if err != nil {
			return nil, err
		}
		known = append(known, followedRuntime{r, cursor})
	}
	return known, nil
}

var deliveryColumns = []column{{"event", 6}, {"worker", 16}, {"kind", 22}, {"message", 0}}

func deliveryCells(d workers.Delivery) []string {
	worker := ""
	if d.Event.WorkerRef != nil {
		worker = string(d.Event.WorkerRef.WorkerID)
	}
	return []string{strconv.FormatUint(d.Event.ID, 10), worker, string(d.Event.Kind), cut(d.Event.Message, 100)}
}

func deliveryJSON(d workers.Delivery) ([]byte, error) {
	text, err := encodeJSON(workerItem{d.Cursor.RuntimeID, d.Event, eventCursorText(d.Cursor)})
	return bytes.TrimSuffix(text, []byte("\n")), err
}

// eventCursorText is a cursor on a command line: the id of the next event, its place in the log, and the runtime.
func eventCursorText(c workers.EventCursor) string {
	text := fmt.Sprintf("%d.%d.%s", c.NextEventID, c.Position, c.RuntimeID)
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func parseEventCursor(text string) (c workers.EventCursor, err error) {
	if text == "" {
		return c, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	words := strings.SplitN(string(raw), ".", 3)
	if err == nil && len(words) == 3 {
		c.RuntimeID = workers.RuntimeID(words[2])
		if c.NextEventID, err = strconv.ParseUint(words[0], 10, 64); err == nil {
			c.Position, err = strconv.ParseUint(words[1], 10, 64)
		}
	}
	if err != nil || len(words) != 3 {
		return c, usage("%q is not a cursor of workers tail", text)
	}
	return c, nil
}
