package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"selvedge"
	"selvedge/db"
	"selvedge/query"
	"selvedge/runs"
	"selvedge/runs/live"
)

// pageItems is how many records of a trace a page shows, and how many events of a live run.
const pageItems = 200

// A row is a line of a timeline.
type row struct {
	ID       string // of the element
	Kind     string // the record's word, or the step's
	Class    string // what its bar looks like: work, wait, fail, or open
	Label    string // the tool, or the number of a turn
	Text     string // in a line
	State    string // of a step, or what came of a turn
	Parts    []part
	From, To time.Time // equal: a moment. Zero: unknown
	Usage    string
	Idle     string  // how long nothing was written before it; "": not long
	X, Width float64 // of the bar, in thousandths
	Jump     bool    // J and K stop here: a prompt, a question, a failure, an end
	// Ask is the step to answer here; nil: none
	Ask *selvedge.Step
}

// A part is a text that is folded below a row.
type part struct{ Name, Text string }

// A shown is a run on a page or in a report.
type shown struct {
	query.Detail
	Rows   []row
	Live   []query.Event
	HasBar bool // some rows have times
	Answer bool
	Secret string
}

type runBody struct {
	shown
	Turn  turning
	Short bool // the last records only
}

func refOf(r *http.Request) runs.RunRef {
	return runs.RunRef{AgentID: r.FormValue("agent"), RunID: r.FormValue("id")}
}

func (s *server) run(r *http.Request) (*page, error) {
	ref := refOf(r)
	detail, err := s.query.Run(r.Context(), ref)
	if err != nil {
		return nil, err
	}
	place := db.At{After: r.FormValue("after"), Limit: pageItems}
	body := runBody{shown: shown{Detail: detail, Answer: s.o.Answer, Secret: s.secret}}
	// An open run is looked at for what it does now.
	if place.After == "" && detail.EndedAt == nil && r.FormValue("from") != "start" {
		if place.After, err = s.query.Before(r.Context(), ref, pageItems); err != nil {
			return nil, err
		}
		body.Short = place.After != ""
	}
	items, err := s.query.Timeline(r.Context(), ref, place)
	if err != nil {
		return nil, err
	}
	body.Turn = turn(r, items.Next)
	body.Rows = rowsOf(items.Items)
	body.HasBar = layOut(body.Rows)
	p := &page{Title: cmp.Or(detail.Intent, detail.RunID), Name: "run", Here: "runs"}
	cursors := [2]string{} // of the trace and of the live run
	for _, item := range items.Items {
		cursors[0] = cmp.Or(item.Cursor, cursors[0])
	}
	if detail.Live && items.Next == "" {
		after, err := s.live.CursorBefore(r.Context(), ref.RunID, pageItems)
		if err != nil {
			return nil, err
		}
		events, err := s.query.Live(r.Context(), ref.RunID, db.At{After: after, Limit: pageItems})
		if err != nil {
			return nil, err
		}
		body.Live = events.Items
		for _, e := range events.Items {
			cursors[1] = e.Cursor
		}
	}
	if detail.EndedAt == nil && items.Next == "" {
		p.Stream = link("stream", "agent", ref.AgentID, "id", ref.RunID, "after", strings.Join(cursors[:], " "))
	}
	p.Body = body
	return p, nil
}

type liveRunBody struct {
	live.RunSnapshot
	Turn   turning
	Events []query.Event
}

func (s *server) liveRun(r *http.Request) (*page, error) {
	id := r.FormValue("id")
	run, err := s.live.Get(r.Context(), id)
	if err != nil {
		return nil, err
	}
	events, err := s.query.Live(r.Context(), id, db.At{After: r.FormValue("after"), Limit: pageItems})
	if err != nil {
		return nil, err
	}
	p := &page{Title: cmp.Or(run.Prompt, run.ID), Name: "liverun", Here: "live"}
	if !run.Status.Ended() && events.Next == "" {
		cursor := " "
		if n := len(events.Items); n > 0 {
			cursor += events.Items[n-1].Cursor
		}
		p.Stream = link("stream", "live", id, "after", cursor)
	}
	p.Body = liveRunBody{run, turn(r, events.Next), events.Items}
	return p, nil
}

// rowsOf returns the rows of a timeline.
func rowsOf(items []query.Item) (list []row) {
	var last time.Time // when the record before was written
	for _, item := range items {
		for _, step := range item.Steps {
			list = append(list, rowOfStep(step))
		}
		if item.Record == nil {
			continue
		}
		r := row{
			ID: "r" + strconv.FormatInt(item.Sequence, 10), Kind: item.Record.RecordKind(),
			Class: "work", From: item.At,
			To: item.At, Usage: tokens(item.Usage),
		}
		switch record := item.Record.(type) {
		case runs.Started:
			r.Text, r.Jump = record.Intent, true
			if record.OutcomeDescription != nil {
				r.Parts = append(r.Parts, part{"a good end", *record.OutcomeDescription})
			}
		case runs.Turn:
			r.turn(record, item.Steps)
		case runs.Ended:
			r.Jump, r.State = true, "incomplete"
			if o := record.Termination.Outcome; o != nil {
				r.State, r.Text = string(cmp.Or(record.Termination.Status, o.Status)), o.Summary
			}
		case runs.Unknown:
			r.Parts = append(r.Parts, part{"record", string(record.Raw)})
		}
		// A turn took the time since the record before, unless that is long: then nobody knows.
		if gap := r.From.Sub(last); !last.IsZero() && r.Kind != "started" && gap > 0 && gap <= idleAfter {
			r.From = last
		}
		if !item.At.IsZero() {
			last = item.At
		}
		list = append(list, r)
	}
	return list
}

func (r *row) turn(t runs.Turn, steps []selvedge.Step) {
	r.Label = "turn " + strconv.FormatUint(t.Index, 10)
	if t.Prompt != nil {
		r.Text, r.Jump = *t.Prompt, true
	}
	if t.Tool != nil {
		r.Label += " " + *t.Tool
	}
	if r.Text == "" && len(t.Output) > 0 {
		r.Text = plain(t.Output)
	}
	done := func(text []byte) bool { // by a step that is shown
		return slices.ContainsFunc(steps, func(s selvedge.Step) bool { return bytes.Equal(s.Result, text) })
	}
	if len(t.Parameters) > 0 {
		r.Parts = append(r.Parts, part{"parameters", plain(t.Parameters)})
	}
	if len(t.Output) > 0 && !done(t.Output) {
		r.Parts = append(r.Parts, part{"output", plain(t.Output)})
	}
	if c := t.CliOutcome; c != nil {
		r.State = c.Kind
		if c.Kind == runs.CliExited {
			r.State = "exit " + strconv.FormatInt(c.Code, 10)
		}
		if r.State != "exit 0" {
			r.Class, r.Jump = "fail", true
		}
	}
	if t.VerifierVerdict != runs.VerdictNotRun {
		r.State = strings.TrimSpace(r.State + " verifier: " + string(t.VerifierVerdict))
		if t.VerifierVerdict == runs.VerdictFail {
			r.Class, r.Jump = "fail", true
		}
	}
	if p := t.PolicyRejected; p != nil {
		r.State, r.Class, r.Jump = "rejected by "+p.Rule, "fail", true
		if p.Param != nil {
			r.State += ": " + *p.Param
		}
	}
}

func rowOfStep(s selvedge.Step) row {
	r := row{
		ID: "s-" + s.Key, Kind: string(s.Kind), Class: "work", Label: s.Key, State: string(s.State),
		From: s.CreatedAt, To: s.ChangedAt,
	}
	if s.State == selvedge.StepOpen || s.State == selvedge.StepWaiting {
		r.To = time.Now()
		r.Class = "open"
	}
	if s.State == selvedge.StepWaiting {
		r.Ask = &s
	}
	switch s.Kind {
	case selvedge.StepReply:
		var reply selvedge.Reply
		if json.Unmarshal(s.Result, &reply) == nil {
			r.Text, r.Usage = reply.Text, tokens(reply.Usage)
			if reply.Tool != "" {
				r.Parts = append(r.Parts, part{"calls " + reply.Tool, plain(reply.Args)})
			}
		}
		r.From = r.To // when the model was asked is not recorded
	case selvedge.StepEffect:
		r.Label = s.Tool + " " + s.Key
		r.Text = cmp.Or(s.Error, plain(s.Result), plain(s.Request))
		r.Parts = append(r.Parts, part{"arguments", plain(s.Request)}, part{"result", plain(s.Result)})
		if s.Attempt > 1 {
			r.State += ", attempt " + strconv.Itoa(s.Attempt)
		}
		if s.Error != "" {
			r.Class, r.Jump = "fail", true
			r.Parts = append(r.Parts, part{"error", s.Error})
		}
		if s.State == selvedge.StepWaiting {
			r.State, r.Class, r.Jump = "nobody knows whether it happened", "wait", true
		}
	case selvedge.StepQuestion:
		r.Text, r.Class, r.Jump = s.Prompt, "wait", true
		r.Parts = append(r.Parts, part{"fields", plain(s.Request)}, part{"answer", plain(s.Result)})
	}
	if s.Decision != "" {
		r.State += ": " + s.Decision
		if s.SettledBy != "" {
			r.State += ", by " + s.SettledBy
		}
	}
	r.Parts = slices.DeleteFunc(r.Parts, func(p part) bool { return p.Text == "" })
	return r
}

// plain returns a JSON text for reading: a string without its quotes, and other values with blanks. Numbers
// stay as they are.
func plain(raw []byte) string {
	var text string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return text
	}
	var out bytes.Buffer
	if len(raw) > bodyLength || json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}

// idleAfter is how long nothing may happen before the timeline is folded.
const idleAfter = time.Minute

// layOut places the bars of rows that have times. Long spans in which nothing worked are folded: they take a
// fiftieth of the width each.
func layOut(rows []row) (some bool) {
	var marks []time.Time
	for i := range rows {
		if r := &rows[i]; !r.From.IsZero() && !r.To.IsZero() {
			marks = append(marks, r.From, r.To)
		}
	}
	if len(marks) < 3 {
		return false
	}
	slices.SortFunc(marks, time.Time.Compare)
	marks = slices.CompactFunc(marks, time.Time.Equal)
	worked := func(from, to time.Time) bool {
		return slices.ContainsFunc(rows, func(r row) bool {
			return r.Class != "wait" && !r.From.After(from) && !r.To.Before(to) && !r.From.Equal(r.To)
		})
	}
	spans := make([]time.Duration, len(marks)) // how much of the width is before each mark
	var total time.Duration
	folded := 0
	for i := 1; i < len(marks); i++ {
		if d := marks[i].Sub(marks[i-1]); d <= idleAfter || worked(marks[i-1], marks[i]) {
			spans[i] = d
			total += d
		} else {
			spans[i] = -1
			folded++
		}
	}
	fold := max(total/50, time.Millisecond)
	total += time.Duration(folded) * fold
	place := map[int64]float64{}
	var before time.Duration
	for i, mark := range marks {
		switch {
		case spans[i] < 0:
			before += fold
		default:
			before += spans[i]
		}
		place[mark.UnixNano()] = 1000 * float64(before) / float64(max(total, 1))
	}
	var last time.Time
	for i := range rows {
		r := &rows[i]
		if r.From.IsZero() {
			continue
		}
		if gap := r.From.Sub(last); !last.IsZero() && gap > idleAfter && r.Class != "wait" {
			r.Idle = roughly(gap)
		}
		r.X = place[r.From.UnixNano()]
		r.Width = max(place[r.To.UnixNano()]-r.X, 3)
		r.X = min(r.X, 1000-r.Width)
		if r.To.After(last) {
			last = r.To
		}
	}
	return true
}

// follow sends the cursors of a run's trace and live run, as each grows, until the context ends.
func (s *server) follow(ctx context.Context, ref runs.RunRef, onlyLive bool, after string,
	to chan<- string,
) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cursors := [2]string{}
	cursors[0], cursors[1], _ = strings.Cut(after, " ")
	type news struct {
		of     int
		cursor string
		err    error
	}
	all := make(chan news)
	tell := func(of int, cursor string, err error) (more bool) {
		select {
		case all <- news{of, cursor, err}:
			return err == nil
		case <-ctx.Done():
			return false
		}
	}
	if !onlyLive {
		go func() {
			for item, err := range s.query.Follow(ctx, ref, cursors[0]) {
				if !tell(0, item.Cursor, err) {
					return
				}
			}
		}()
	}
	go func() {
		for event, err := range s.query.FollowLive(ctx, ref.RunID, cursors[1]) {
			if !tell(1, event.Cursor, err) {
				return
			}
		}
	}()
	for {
		select {
		case n := <-all:
			if n.err != nil && (n.of == 0 || onlyLive) {
				return n.err
			}
			if n.err == nil {
				cursors[n.of] = n.cursor
			}
			select {
			case to <- strings.Join(cursors[:], " "):
			case <-ctx.Done():
				return ctx.Err()
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
