package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/maintenance"
	"selvedge/workers"
)

// workerAnswer is the shape of workers show --json.
type workerAnswer struct {
	// what the worker was made with, and where it stands
	Detail     workers.WorkerDetail      `json:"detail"`
	Transcript []workers.TranscriptEntry `json:"transcript"` // what was said to it, oldest first
	Events     []workers.RuntimeEvent    `json:"events"`     // what happened to it, oldest first
}

var _ = register("Look:", 60, func(a *app) *cobra.Command {
	return a.group(workerNoun, "Look at workers, and pin them",
		a.workersListCommand(), a.workersShowCommand(), a.workersTailCommand())
})

var workerNoun = noun{
	store: maintenance.StoreWorkers, entity: "worker", some: "a worker", written: "--runtime %[2]s %[1]s",
	owner: "runtime", ownerUsage: "the worker's runtime `ID`",
	open: func(a *app, d *db.DB) verbs {
		s := workers.NewRuntimes(d, a.scope)
		return verbs{
			find: a.findWorkers(d),
			pin:  by(workerRef, s.Pin), unpin: by(workerRef, s.Unpin),
			remove: func(ctx context.Context, t thing) error {
				r, err := a.runtime(ctx, d, workers.RuntimeID(t.owner))
				if err != nil {
					return err
				}
				return r.Delete(ctx, workerRef(t))
			},
		}
	},
}

func workerRef(t thing) workers.WorkerRef {
	return workers.WorkerRef{RuntimeID: workers.RuntimeID(t.owner), WorkerID: workers.WorkerID(t.id)}
}

func (a *app) findWorkers(d *db.DB) findThings {
	return func(ctx context.Context, prefix string, owner *string, limit int) (list []thing, err error) {
		ids, err := a.runtimesWith(ctx, d, owner, nil)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			r, err := a.runtime(ctx, d, id)
			if err != nil {
				return nil, err
			}
			found, err := r.Find(ctx, prefix, limit)
			if err != nil {
				return nil, err
			}
			for _, ref := range found {
				list = append(list, thing{string(ref.WorkerID), string(id)})
			}
		}
		return list, nil
	}
}

var workerStatuses = []workers.WorkerStatus{
	workers.Running, workers.Stopped, workers.Cancelled,
}

func (a *app) workersListCommand() *cobra.Command {
	status := ""
	var ids []workers.RuntimeID // read with the first page
	c := &cobra.Command{
		Use:   "list [--runtime ID] [--status WORD] [--limit N] [--after CURSOR] [--all]",
		Short: "List workers, by runtime and id",
		Long: `list shows the workers of the scope, runtime by runtime, in the order of their ids. Filters
add up.`,
	}
	c.Flags().String("runtime", "", "only workers of the runtime `ID`")
	c.Flags().StringVar(&status, "status", "", "only workers in this `STATUS`: "+join(workerStatuses))
	completeWords(c, "status", workerStatuses)
	a.checkFlags(c, func() error {
		if status == "" {
			return nil
		}
		return oneOf("status", status, workerStatuses)
	})
	return list(a, c, listing[workers.WorkerSummary]{
		noun: &workerNoun,
		page: func(ctx context.Context, d *db.DB, _ string, at db.At) (
			page db.Page[workers.WorkerSummary], err error,
		) {
			filter := workers.WorkerFilter{Status: workers.WorkerStatus(status)}
			if ids == nil {
				ids, err = a.runtimesWith(ctx, d, given(c, "runtime"),
					func(r workers.RuntimeSummary) bool { return hasWorkers(r, filter.Status) })
			}
			if err != nil {
				return page, err
			}
			return a.workersPage(ctx, d, ids, filter, at)
		},
		grid: grid{
			header: []string{"runtime", "worker", "status", "inputs", "last event", "profile", "for"},
			right:  []int{3, 4},
			ids:    []int{0, 1}, least: []int{4, 3, 5, 0, 6},
		},
		row: func(w workers.WorkerSummary) []string {
			return []string{
				string(w.RuntimeID), string(w.WorkerID), string(w.Status), strconv.FormatUint(w.TranscriptLen, 10),
				strconv.FormatUint(w.LastEventID, 10), profileOf(w.Profile), cut(purposeOf(w.Intent), 60),
			}
		},
	})
}

func profileOf(p workers.ProfileSelector) string { return cmp.Or(p.Value, p.Kind) }

func purposeOf(i workers.WorkerIntent) string {
	switch {
	case i.Kind == "task":
		return i.Objective
	case i.Purpose != nil:
		return strings.TrimSpace(i.Role + " " + *i.Purpose)
	}
	return i.Role
}

// runtimesWith returns the ids of the scope's runtimes for which has is true, by their summaries,
// so that no other runtime is opened. A nil has matches any. A runtime that the command line names
// is not checked.
func (a *app) runtimesWith(
	ctx context.Context, d *db.DB, named *string, has func(workers.RuntimeSummary) bool,
) (ids []workers.RuntimeID, err error) {
	if named != nil {
		return []workers.RuntimeID{workers.RuntimeID(*named)}, nil
	}
	for r, err := range workers.NewRuntimes(d, a.scope).All(ctx, workers.RuntimeFilter{}) {
		if err != nil {
			return nil, err
		}
		if has == nil || has(r) {
			ids = append(ids, r.RuntimeID)
		}
	}
	return ids, nil
}

// hasWorkers reports whether a runtime has workers in a status; "" is any.
func hasWorkers(r workers.RuntimeSummary, in workers.WorkerStatus) bool {
	switch in {
	case workers.Running:
		return r.ActiveWorkerCount > 0
	case workers.Stopped:
		return r.StoppedWorkerCount > 0
	case workers.Cancelled:
		return r.CancelledWorkerCount > 0
	}
	return r.WorkerCount > 0
}

func (a *app) runtime(ctx context.Context, d *db.DB, id workers.RuntimeID) (*workers.Runtime, error) {
	return workers.Open(ctx, d, workers.RuntimeOptions{Scope: a.scope, RuntimeID: id, MustExist: true})
}

// workersPage returns a page across runtimes. Its cursor is the runtime, a dot, and the cursor
// inside the runtime, which is empty at its beginning.
func (a *app) workersPage(ctx context.Context, d *db.DB, ids []workers.RuntimeID,
	filter workers.WorkerFilter, at db.At,
) (list db.Page[workers.WorkerSummary], err error) {
	from, inside, err := splitWorkersCursor(at.After)
	if err != nil {
		return list, err
	}
	for i, id := range ids {
		if at.After != "" && id < from {
			continue
		}
		if id != from {
			inside = ""
		}
		r, err := a.runtime(ctx, d, id)
		if err != nil {
			return list, err
		}
		page, err := r.Page(ctx, filter, db.At{After: inside, Limit: at.Limit - len(list.Items)})
		if err != nil {
			return list, err
		}
		list.Items = append(list.Items, page.Items...)
		switch {
		case page.Next != "":
			list.Next = workersCursor(id, page.Next)
			return list, nil
		case len(list.Items) == at.Limit && i+1 < len(ids):
			list.Next = workersCursor(ids[i+1], "")
			return list, nil
		}
	}
	return list, nil
}

func workersCursor(id workers.RuntimeID, inside string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(id)) + "." + inside
}

func splitWorkersCursor(cursor string) (id workers.RuntimeID, inside string, err error) {
	if cursor == "" {
		return "", "", nil
	}
	text, inside, ok := strings.Cut(cursor, ".")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || !ok {
		return "", "", &db.Error{
			Op:  "list workers",
			Err: fmt.Errorf("%w: %q is not a cursor of this list", db.ErrInvalid, cursor),
		}
	}
	return workers.RuntimeID(raw), inside, nil
}

func (a *app) workersShowCommand() *cobra.Command {
	return a.answering(a.one(workerNoun, toRead, &cobra.Command{
		Use:   "show ID",
		Short: "Show a worker, what was said to it and what happened to it",
		Long: `show takes the id of a worker, or the beginning of one where no other begins so; --runtime tells
workers of several runtimes apart.`,
	}, func(ctx context.Context, d *db.DB, t thing) error {
		r, err := a.runtime(ctx, d, workers.RuntimeID(t.owner))
		if err != nil {
			return err
		}
		answer, err := describeWorker(ctx, r, workerRef(t))
		if err != nil {
			return err
		}
		return a.answer(answer, func() { a.printWorker(answer) })
	}), workerAnswer{})
}

func describeWorker(ctx context.Context, r *workers.Runtime, ref workers.WorkerRef) (
	answer workerAnswer, err error,
) {
	answer = workerAnswer{Transcript: []workers.TranscriptEntry{}, Events: []workers.RuntimeEvent{}}
	if answer.Detail, err = r.WorkerDetail(ctx, ref); err != nil {
		return answer, err
	}
	for e, err := range r.Transcript(ctx, ref) {
		if err != nil {
			return answer, err
		}
		answer.Transcript = append(answer.Transcript, e)
	}
	for e, err := range r.EachEvent(ctx) {
		if err != nil {
			return answer, err
		}
		if e.WorkerRef != nil && *e.WorkerRef == ref {
			answer.Events = append(answer.Events, e)
		}
	}
	return answer, nil
}

func (a *app) printWorker(answer workerAnswer) {
	w := answer.Detail
	bundle := ""
	if w.ConfigBundle != nil {
		bundle = w.ConfigBundle.ID
	}
	capabilities := each(w.RequestedCapabilities, func(c workers.CapabilityRequest) string { return c.Name })
	facts := []string{
		"runtime", string(w.RuntimeID), "worker", string(w.WorkerID), "status", string(w.Status),
		"intent", w.Intent.Kind, "for", purposeOf(w.Intent), "profile", profileOf(w.Profile), "bundle", bundle,
		"capabilities", strings.Join(capabilities, ", "),
	}
	transcript := grid{header: []string{"sequence", "role", "event", "content"}, right: []int{0, 2}}
	for _, e := range answer.Transcript {
		transcript.add(strconv.FormatUint(e.Sequence, 10), e.Role, strconv.FormatUint(e.EventID, 10),
			cut(e.Content, 100))
	}
	events := grid{header: []string{"event", "kind", "message"}, right: []int{0}}
	for _, e := range answer.Events {
		events.add(strconv.FormatUint(e.ID, 10), string(e.Kind), cut(e.Message, 100))
	}
	a.printSheet(facts, &transcript, &events)
}

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
	many := func(args []string, f tailFlags) string { // a cursor names its runtime
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

// workersTail makes t a tail of the log of one runtime, or of one worker in it if args name one.
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

// lastOfWorker returns the place before the last events of a worker, at most lines of them.
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
