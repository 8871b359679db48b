package checkpoints

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"selvedge/checkpoints/internal/codec"
	"selvedge/internal/chrono"
	"selvedge/internal/serdejson"
)

// encode writes p pretty, two blanks a level, members in the order of the fields and keys of maps
// in byte order. Free-form values come back byte for byte, so they stay as they are.
func encode(p *PausedWorkflow) ([]byte, error) {
	w := &writer{}
	w.paused(p)
	if w.err != nil {
		return nil, w.err
	}
	if reason := codec.Problem(w.out); reason != "" {
		return nil, &codec.Error{Reason: reason}
	}
	return w.out, nil
}

// A writer writes a document. After the first error it goes on and the result is of no use.
type writer struct {
	out   []byte
	depth int
	err   error
}

func (w *writer) paused(p *PausedWorkflow) {
	w.object(func() {
		w.text("run_id", p.RunID)
		w.key("workflow")
		w.workflow(&p.Workflow)
		w.text("paused_stage_id", p.PausedStageID)
		w.text("prompt", p.Prompt)
		w.key("fields")
		writeList(w, p.Fields, w.field)
		w.text("output_key", p.OutputKey)
		w.values("wf_state", p.WFState)
		w.key("stage_results")
		writeList(w, p.StageResults, w.result)
		w.texts("completed_stage_ids", p.CompletedStageIDs)
		w.number("iterations", uint64(p.Iterations))
		w.float("prior_duration_ms", p.PriorDurationMS)
		w.text("created_at", chrono.Text(p.CreatedAt, p.createdAtText))
	})
}

func (w *writer) workflow(f *Workflow) {
	w.object(func() {
		w.text("id", f.ID)
		w.text("name", f.Name)
		w.text("start", f.Start)
		w.optionalText("goal", f.Goal)
		w.key("stages")
		writeList(w, f.Stages, w.stage)
		w.key("edges")
		writeList(w, f.Edges, w.edge)
		w.number("max_iterations", uint64(f.MaxIterations))
		w.values("metadata", f.Metadata)
	})
}

func (w *writer) stage(s *Stage) {
	w.object(func() {
		w.text("id", s.ID)
		w.text("name", s.Name)
		w.raw("step", s.Step)
		if s.Compensation != nil {
			w.raw("compensation", s.Compensation)
		}
		if s.TimeoutMS != nil {
			w.number("timeout_ms", *s.TimeoutMS)
		}
		w.values("metadata", s.Metadata)
	})
}

func (w *writer) edge(e *Edge) {
	w.object(func() {
		w.text("from", e.From)
		w.text("to", e.To)
		w.key("conditions")
		writeList(w, e.Conditions, w.precondition)
		w.text("label", e.Label)
	})
}

func (w *writer) precondition(p *Precondition) {
	w.object(func() {
		w.text("key", p.Key)
		w.text("operator", p.Operator)
		w.raw("value", p.Value)
		w.text("description", p.Description)
	})
}

func (w *writer) field(f *ApprovalField) {
	w.object(func() {
		w.text("name", f.Name)
		w.text("label", f.Label)
		w.text("field_type", f.FieldType)
		if len(f.Options) > 0 {
			w.texts("options", f.Options)
		}
		w.key("required")
		w.out = strconv.AppendBool(w.out, f.Required)
	})
}

func (w *writer) result(r *StageResult) {
	w.object(func() {
		w.text("stage_id", r.StageID)
		w.text("stage_name", r.StageName)
		w.text("status", string(r.Status))
		w.raw("output", r.Output)
		w.float("duration_ms", r.DurationMS)
		w.optionalText("error", r.Error)
	})
}

func (w *writer) object(members func()) {
	w.open('{')
	members()
	w.close('}')
}

func writeList[T any](w *writer, list []T, write func(*T)) {
	w.open('[')
	for i := range list {
		w.item()
		write(&list[i])
	}
	w.close(']')
}

func (w *writer) open(c byte) {
	w.out = append(w.out, c)
	w.depth++
}

// item begins a member or element on a line of its own.
func (w *writer) item() {
	if last := w.out[len(w.out)-1]; last != '{' && last != '[' {
		w.out = append(w.out, ',')
	}
	w.line()
}

func (w *writer) close(c byte) {
	w.depth--
	if last := w.out[len(w.out)-1]; last != '{' && last != '[' {
		w.line()
	}
	w.out = append(w.out, c)
}

func (w *writer) line() {
	w.out = append(w.out, '\n')
	for range w.depth {
		w.out = append(w.out, ' ', ' ')
	}
}

func (w *writer) key(name string) {
	w.item()
	w.quoted(name)
	w.out = append(w.out, ':', ' ')
}

func (w *writer) quoted(s string) {
	if !utf8.ValidString(s) {
		w.fail(fmt.Errorf("%q is not valid UTF-8", s))
	}
	w.out = serdejson.AppendQuoted(w.out, s)
}

func (w *writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) text(name, s string) {
	w.key(name)
	w.quoted(s)
}

func (w *writer) optionalText(name string, s *string) {
	if s != nil {
		w.text(name, *s)
	}
}

func (w *writer) texts(name string, list []string) {
	w.key(name)
	writeList(w, list, func(s *string) { w.quoted(*s) })
}

func (w *writer) number(name string, n uint64) {
	w.key(name)
	w.out = strconv.AppendUint(w.out, n, 10)
}

func (w *writer) float(name string, f float64) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.fail(fmt.Errorf("%s is %v, which JSON can't hold", name, f))
	}
	w.key(name)
	w.out = serdejson.AppendFloat(w.out, f)
}

func (w *writer) values(name string, members map[string]json.RawMessage) {
	w.key(name)
	w.object(func() {
		for _, k := range slices.Sorted(maps.Keys(members)) {
			w.raw(k, members[k])
		}
	})
}

// raw writes a free-form value; nil is null.
func (w *writer) raw(name string, value json.RawMessage) {
	w.key(name)
	if len(value) == 0 {
		value = json.RawMessage("null")
	}
	if err := checkJSON(value); err != nil {
		w.fail(fmt.Errorf("%s: %w", name, err))
		return
	}
	w.out = append(w.out, bytes.TrimSpace(value)...)
}

func checkJSON(value []byte) error {
	if reason := serdejson.Check(value, 0); reason != "" {
		return &codec.Error{Reason: reason}
	}
	return nil
}

// deepest is the level from which on values keep their own line breaks: members that nobody knows
// may be nested to any depth, and the blanks before a line grow with it, as do the calls on the
// stack.
const deepest = 128

// pretty writes a document that was accepted with its own tokens and this writer's line breaks.
func (w *writer) pretty(value []byte) { w.prettyAt(value, serdejson.NewSkimmer(value), structured) }

// prettyAt writes the part of text before which s stands.
func (w *writer) prettyAt(text []byte, s *serdejson.Scanner, of form) {
	c := s.Peek()
	if c != '{' && c != '[' || of == freeForm || w.depth >= deepest {
		start := s.Pos()
		s.Ignore()
		w.out = append(w.out, text[start:s.Pos()]...)
		return
	}
	s.Enter()
	w.open(c)
	for first := true; ; first = false {
		var key []byte
		var more bool
		if c == '{' {
			key, more, _ = s.NextKey(first)
		} else {
			more, _ = s.NextElement(first)
		}
		if !more {
			w.close(c + 2) // in ASCII the closing character stands two behind the opening one
			return
		}
		w.item()
		inner := of
		if c == '{' {
			w.out = append(append(w.out, key...), ':', ' ')
			inner = of.member(func(name string) bool { return string(key) == `"`+name+`"` })
		}
		w.prettyAt(text, s, inner)
	}
}
