package workers_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/internal/serdejson"
	"selvedge/legacy"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
	"selvedge/workers"
)

func TestTranscripts(t *testing.T) {
	list := must(replay.Transcripts("workers"))(t)
	var tally replay.Tally
	for _, transcript := range list {
		t.Run(transcript.Name, func(t *testing.T) {
			counted, err := replay.Play(transcript, newPlayer(t), replay.Comparison{})
			if err != nil {
				t.Error(err)
			}
			tally.Add(counted)
		})
	}
	t.Log(tally)
}

func TestTheReplayNoticesFalsifiedAnswers(t *testing.T) {
	for _, transcript := range must(replay.Transcripts("workers"))(t) {
		if strings.HasPrefix(transcript.Base(), "random") && !strings.HasSuffix(transcript.Base(), "0") {
			continue // one of them says it all
		}
		t.Run(transcript.Name, func(t *testing.T) {
			if _, err := replay.PlayFalsified(transcript, newPlayer(t), replay.Comparison{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// A player plays one transcript three times at once: on a runtime of ours; on a model of the
// original with its files, which must give every recorded answer; and on a model of what is meant
// here. Where the two models differ, by the rule that caused it, ours must answer as the second.
type player struct {
	t    *testing.T
	db   *db.DB
	ours *workers.Runtime // nil while none is open
	tree *scratch

	original, meant replay.Workers
	cause           int               // the rule by which the models may differ
	twins           map[string]string // ids of ours that are others in the original
}

func newPlayer(t *testing.T) *player {
	p := &player{t: t, twins: map[string]string{}}
	p.original.Dir = filepath.Join(t.TempDir(), "original")
	p.meant = replay.Workers{Dir: filepath.Join(t.TempDir(), "meant"), Counted: true, Salvaging: true}
	p.tree = newScratch(p)
	p.newFile()
	return p
}

func (p *player) newFile() {
	if p.db != nil {
		if err := p.db.Close(); err != nil {
			p.t.Fatal(err)
		}
	}
	p.db = dbtest.OpenAt(p.t, dbtest.Path(p.t), db.Options{Synchronous: db.SyncNormal})
	p.ours = nil
}

func (p *player) Play(c *replay.Call) replay.Answer {
	if strings.HasPrefix(c.Op, "fs_") {
		return p.tree.play(c)
	}
	opens := c.Op == "open" || c.Op == "reopen"
	// nothing happened to ours, whatever the original's files are like
	stays := c.Op == "reopen" && !p.tree.changed
	if opens && p.tree.changed {
		p.tree.bringIn()
	}
	theirs := p.original.Play(p.translated(c))
	wanted := replay.Outcome{}
	if stays {
		wanted = p.meant.Summary()
	} else {
		wanted = p.meant.Play(c)
	}
	got := p.call(c)
	wrong := ""
	if opens {
		if !stays {
			wrong = p.damage(got, &wanted)
		}
		p.reopened(theirs)
	}
	if theirs.Kind == "StoreIo" && wanted.Err == nil && !opens {
		p.cause = 17
	}
	if opens && wrong == "" && p.cause == 21 && got.Err == nil {
		wrong = p.contents()
	}
	answer := replay.Answer{Outcome: got, Model: &theirs, Bound: p.bind(c, got, theirs), Wrong: wrong}
	if !same(wanted, theirs) {
		answer.Rule, answer.Instead = p.cause, &wanted
		if p.cause == 0 {
			answer.Wrong = "no rule lets this differ from " + string(replay.Encode(theirs.OK))
		}
	}
	return answer
}

// reopened finds out by which rule the models differ from here on.
func (p *player) reopened(theirs replay.Outcome) {
	switch {
	case p.cause == 17:
	case p.meant.Salvaged:
		p.cause = 21
	case p.meant.Raised:
		p.cause = 22
	case theirs.Kind == "StoreIo":
		p.cause = 16
	case theirs.Err != nil:
		p.cause = 21
	case p.tree.imported:
		p.cause = 20
	}
}

// damage says what is wrong with how ours opened what the original refuses. The diagnostics that
// name the damage are added to what is meant: their words are ours to choose.
func (p *player) damage(got replay.Outcome, wanted *replay.Outcome) string {
	if !p.meant.Salvaged || got.Err != nil {
		return ""
	}
	var named []workers.RuntimeDiagnostic
	for _, d := range must(p.ours.Diagnostics(p.t.Context()))(p.t) {
		if strings.HasPrefix(d.Code, "import.") {
			named = append(named, d)
		}
	}
	if len(named) > 0 {
		p.meant.Diagnose(named)
		*wanted = p.meant.Summary()
		return ""
	}
	list, err := legacy.Quarantine(p.t.Context(), p.db, "", db.At{Limit: 1})
	if err != nil || len(list.Items) == 0 {
		return "neither a diagnostic nor the quarantine names the damage"
	}
	return ""
}

// contents says what of a runtime that the original refuses is not as it should be: the answers to
// an open only count.
func (p *player) contents() string {
	ctx := p.t.Context()
	different := func(op string, args, ours any) string {
		wanted := p.meant.Play(&replay.Call{Op: op, Args: decoded(p.t, args)})
		if (replay.Comparison{}).Agrees(replay.Recorded{Outcome: replay.Outcome{OK: decoded(p.t, wanted.OK)}},
			replay.Outcome{OK: ours}) {
			return ""
		}
		return fmt.Sprintf("by rule 21 %s(%s) should be %s, not %s", op, replay.Encode(args),
			replay.Encode(wanted.OK), replay.Encode(ours))
	}
	list := must(p.ours.ListWorkers(ctx))(p.t)
	wrong := different("list_workers", nil, list)
	for _, w := range list {
		about := map[string]any{"worker_ref": w.WorkerRef, "limit": 200}
		wrong = cmp.Or(wrong, different("worker_detail", about, must(p.ours.WorkerDetail(ctx, w.WorkerRef))(p.t)),
			different("transcript_projection", about,
				must(p.ours.TranscriptProjection(ctx, w.WorkerRef, workers.NewTranscriptQuery(0, 200)))(p.t)))
	}
	start := must(p.ours.EventCursorFromStart(ctx))(p.t)
	return cmp.Or(wrong, different("read_events", map[string]any{"cursor": start, "limit": 200},
		must(p.ours.ReadEvents(ctx, start, 200))(p.t)))
}

func same(a, b replay.Outcome) bool {
	if a.Err != nil || b.Err != nil {
		return a.Err != nil && b.Err != nil && a.Kind == b.Kind
	}
	return string(replay.Encode(a.OK)) == string(replay.Encode(b.OK))
}

// translated is the call with the original's ids.
func (p *player) translated(c *replay.Call) *replay.Call {
	if len(p.twins) == 0 {
		return c
	}
	var pairs []string
	for ours, theirs := range p.twins {
		pairs = append(pairs, `"`+ours+`"`, `"`+theirs+`"`, "("+ours+")", "("+theirs+")")
	}
	text := strings.NewReplacer(pairs...).Replace(string(replay.Encode(c.Args)))
	args, err := replay.Decode([]byte(text))
	if err != nil {
		p.t.Fatal(err)
	}
	other := *c
	other.Args = args
	return &other
}

// bind is the id that ours gave: the original may have given one that was given before, or that
// another runtime has too.
func (p *player) bind(c *replay.Call, got, theirs replay.Outcome) any {
	ours, ok := got.OK.(workers.WorkerDetail)
	detail, too := theirs.OK.(workers.WorkerDetail)
	if c.Binds == "" || !ok || !too {
		return nil
	}
	if ours.WorkerID != detail.WorkerID {
		p.twins[string(ours.WorkerID)] = string(detail.WorkerID)
	}
	return string(ours.WorkerID)
}

// call makes a call on ours.
func (p *player) call(c *replay.Call) replay.Outcome {
	ok, err := p.on(c)
	if err == nil {
		return replay.Outcome{OK: ok}
	}
	var refusal *workers.RuntimeError
	var decode *serdejson.DecodeError
	switch {
	case errors.As(err, &refusal):
		return replay.Fails(err, refusal.Kind)
	case errors.As(err, &decode):
		return replay.Fails(err, "decode")
	case errors.Is(err, errNotOpen):
		return replay.Fails(err, "not_open")
	}
	return replay.Fails(err, "other")
}

var errNotOpen = errors.New("no runtime is open")

func (p *player) open(c *replay.Call) (any, error) {
	var options workers.RuntimeOptions
	if c.Op == "reopen" {
		options.RuntimeID = p.ours.RuntimeID()
		options.MustExist = !p.tree.lacks(options.RuntimeID)
	} else {
		options.RuntimeID = workers.RuntimeID(c.Text("runtime_id"))
		p.tree.dirty = true
	}
	if c.Has("display_name") {
		name := c.Text("display_name")
		options.DisplayName = &name
	}
	if c.Has("limits") {
		options.Limits = &workers.RuntimeLimits{}
		if err := c.Unmarshal("limits", options.Limits); err != nil {
			return nil, err
		}
	}
	if c.Op == "new_memory" {
		p.ours = openMemory(p.t, options)
	} else {
		r, err := workers.Open(p.t.Context(), p.db, options)
		if err != nil {
			return nil, err
		}
		p.ours = r
	}
	return p.ours.Summary(p.t.Context())
}

func (p *player) on(c *replay.Call) (any, error) {
	ctx, r := p.t.Context(), p.ours
	switch c.Op {
	case "runtime_id_new":
		if id, ok := workers.NewRuntimeID(c.Text("value")); ok {
			return id, nil
		}
		return nil, nil
	case "open", "reopen", "new_memory":
		return p.open(c)
	}
	if r == nil {
		return nil, errNotOpen
	}
	var cursor workers.EventCursor
	var ref workers.WorkerRef
	var start, limit uint64
	for name, into := range map[string]any{
		"cursor": &cursor, "worker_ref": &ref, "start": &start,
		"limit": &limit,
	} {
		if err := c.Unmarshal(name, into); err != nil {
			return nil, &serdejson.DecodeError{Reason: err.Error()}
		}
	}
	switch c.Op {
	case "status":
		return r.Status(ctx)
	case "summary":
		return r.Summary(ctx)
	case "diagnostics":
		return r.Diagnostics(ctx)
	case "list_workers":
		return r.ListWorkers(ctx)
	case "worker_detail":
		return r.WorkerDetail(ctx, ref)
	case "event_cursor_from_start":
		return r.EventCursorFromStart(ctx)
	case "event_cursor_now":
		return r.EventCursorNow(ctx)
	case "read_events":
		return r.ReadEvents(ctx, cursor, limit)
	case "subscribe_events":
		return r.SubscribeEvents(cursor)
	case "transcript_projection":
		return r.TranscriptProjection(ctx, ref, workers.NewTranscriptQuery(start, limit))
	}
	return p.change(c, ref)
}

func (p *player) change(c *replay.Call, ref workers.WorkerRef) (any, error) {
	ctx, r := p.t.Context(), p.ours
	p.tree.dirty = true
	var reason *string
	if c.Has("reason") {
		text := c.Text("reason")
		reason = &text
	}
	switch c.Op {
	case "create_worker":
		var request workers.CreateWorkerRequest
		if err := read(c, "request", &request); err != nil {
			return nil, err
		}
		return r.CreateWorker(ctx, request)
	case "send_input":
		var input workers.WorkerInput
		if err := read(c, "input", &input); err != nil {
			return nil, err
		}
		return r.SendInput(ctx, ref, input)
	case "stop_worker":
		return r.StopWorker(ctx, ref, reason)
	case "cancel_worker":
		return r.CancelWorker(ctx, ref, reason)
	case "stop_runtime":
		return r.StopRuntime(ctx)
	}
	p.t.Fatalf("line %d: no counterpart of %s", c.Line, c.Op)
	return nil, nil
}

// read decodes an argument that must be there, also where it is null.
func read(c *replay.Call, name string, into any) error {
	text := c.Raw(name)
	if text == nil {
		text = json.RawMessage("null")
	}
	return json.Unmarshal(text, into)
}
