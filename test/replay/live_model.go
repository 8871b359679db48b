package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The names of deliberate_differences in the heads of live transcripts.
const (
	CancelledIsFinal      = "cancelled_is_final"
	StoredSequenceCounter = "stored_sequence_counter"
	EventCountKeepsLarger = "event_count_keeps_larger"
	UnknownEventsKept     = "unknown_events_kept"
	DurableWithoutSave    = "durable_without_save"
	IDsKept               = "ids_kept"
	Salvage               = "salvage"
)

// A LiveModel is the original's store of live runs in plain Go, with a switch for each difference
// that Selvedge makes on purpose. With all switches off it returns the recorded answers.
type LiveModel struct {
	switches map[string]bool
	runs     []*LiveRun
}

// A LiveRun is a run in the model.
type LiveRun struct {
	ID, SessionID, Status, Prompt string
	Created, Updated              uint64
	Result, Error                 *string
	Count                         uint64
	Events                        []LiveRecord
}

// A LiveRecord is an event in the model.
type LiveRecord struct {
	Sequence, At uint64
	Event        map[string]any
}

// NewLiveModel returns an empty store in which these differences are switched on.
func NewLiveModel(on ...string) *LiveModel {
	m := &LiveModel{switches: map[string]bool{}}
	for _, name := range on {
		m.switches[name] = true
	}
	return m
}

// On reports whether a difference is switched on.
func (m *LiveModel) On(name string) bool { return m.switches[name] }

// Find returns the run of an id, or nil.
func (m *LiveModel) Find(id string) *LiveRun {
	for _, r := range m.runs {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// Create adds a run; the id is the caller's, because the original's are random.
func (m *LiveModel) Create(id, session, prompt string, now uint64) *LiveRun {
	r := &LiveRun{ID: id, SessionID: session, Status: "created", Prompt: prompt, Created: now, Updated: now}
	m.runs = append(m.runs, r)
	return r
}

// Record is record_event: nil for an unknown run, an error for an event that is not read.
func (m *LiveModel) Record(id string, event any, now uint64) (*LiveRun, error) {
	read, err := m.event(event)
	if err != nil {
		return nil, err
	}
	r := m.Find(id)
	if r == nil {
		return nil, nil
	}
	sequence := uint64(len(r.Events))
	if m.On(StoredSequenceCounter) || m.On(EventCountKeepsLarger) {
		sequence = r.Count
	}
	r.Events = append(r.Events, LiveRecord{Sequence: sequence, At: now, Event: read})
	if !(m.On(CancelledIsFinal) && r.Status == "cancelled") {
		r.apply(read)
	}
	r.Count++
	r.Updated = now
	return r, nil
}

func (m *LiveModel) event(value any) (map[string]any, error) {
	read, known, err := LiveEvent(value)
	if !m.On(UnknownEventsKept) && !m.On(Salvage) {
		return read, err
	}
	object, isObject := value.(map[string]any)
	if !isObject {
		return nil, fmt.Errorf("the event is no object")
	}
	if _, typed := object["type"].(string); typed && !known {
		return object, nil
	}
	return read, err
}

func (r *LiveRun) apply(event map[string]any) {
	text := func(name string) *string {
		value, _ := event[name].(string)
		return &value
	}
	switch event["type"] {
	case "agent_start":
		r.Status = "executing"
		if r.Prompt == "" {
			r.Prompt = *text("prompt")
		}
	case "planning_start":
		r.Status = "planning"
	case "step_start", "tool_start", "turn_start":
		if r.Status != "planning" {
			r.Status = "executing"
		}
	case "agent_end":
		if r.Status != "cancelled" {
			r.Status, r.Result, r.Error = "completed", text("text"), nil
		}
	case "error":
		if r.Status != "cancelled" {
			r.Status, r.Error = "failed", text("message")
		}
	}
}

// Fail is mark_failed.
func (m *LiveModel) Fail(id, message string, now uint64) *LiveRun {
	r := m.Find(id)
	if r != nil && r.Status != "cancelled" {
		r.Status, r.Error, r.Updated = "failed", &message, now
	}
	return r
}

// Cancel is mark_cancelled.
func (m *LiveModel) Cancel(id string, now uint64) *LiveRun {
	r := m.Find(id)
	if r != nil {
		r.Status, r.Updated = "cancelled", now
	}
	return r
}

// List returns the runs in the order of their creation, those of one millisecond by id.
func (m *LiveModel) List() []*LiveRun {
	list := slices.Clone(m.runs)
	slices.SortFunc(list, func(a, b *LiveRun) int {
		switch {
		case a.Created < b.Created:
			return -1
		case a.Created > b.Created:
			return 1
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list
}

// Replace is replace_records.
func (m *LiveModel) Replace(records []*LiveRun) {
	m.runs = nil
	for _, given := range records {
		r := given.clone()
		count := uint64(len(r.Events))
		if m.On(EventCountKeepsLarger) {
			count = max(count, r.Count)
			if n := len(r.Events); n > 0 {
				last := r.Events[n-1].Sequence
				count = max(count, last, last+1) // there is nothing behind the last number
			}
		}
		r.Count = count
		m.runs = slices.DeleteFunc(m.runs, func(other *LiveRun) bool { return other.ID == r.ID })
		m.runs = append(m.runs, r)
	}
}

// Records is records: copies, in the order of List.
func (m *LiveModel) Records() []*LiveRun {
	var list []*LiveRun
	for _, r := range m.List() {
		list = append(list, r.clone())
	}
	return list
}

func (r *LiveRun) clone() *LiveRun {
	other := *r
	other.Events = slices.Clone(r.Events)
	return &other
}

// Snapshot is the run as JSON.
func (r *LiveRun) Snapshot() map[string]any {
	out := map[string]any{
		"id": r.ID, "session_id": r.SessionID, "status": r.Status, "prompt": r.Prompt,
		"created_at_ms": r.Created, "updated_at_ms": r.Updated, "event_count": r.Count,
	}
	if r.Result != nil {
		out["result_text"] = *r.Result
	}
	if r.Error != nil {
		out["error"] = *r.Error
	}
	return out
}

// EventList is the run's events as JSON.
func (r *LiveRun) EventList() []any {
	out := []any{}
	if r == nil {
		return out
	}
	for _, e := range r.Events {
		out = append(out, map[string]any{"sequence": e.Sequence, "timestamp_ms": e.At, "event": e.Event})
	}
	return out
}

// RecordList is a list of runs with their events as JSON.
func RecordList(runs []*LiveRun) []any {
	out := []any{}
	for _, r := range runs {
		out = append(out, map[string]any{"snapshot": r.Snapshot(), "events": r.EventList()})
	}
	return out
}

// ReadRecords reads records from decoded JSON as the original does.
func (m *LiveModel) ReadRecords(value any) ([]*LiveRun, error) {
	list, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("the records are no array")
	}
	var runs []*LiveRun
	for _, element := range list {
		read, err := liveObject("snapshot snapshot events *event", element)
		if err != nil {
			return nil, err
		}
		snapshot := read["snapshot"].(map[string]any)
		r := &LiveRun{}
		number := func(v any) uint64 {
			var n uint64
			_ = json.Unmarshal([]byte(v.(json.Number)), &n) // liveValue has seen that it fits
			return n
		}
		text := func(name string) *string {
			if value, ok := snapshot[name].(string); ok {
				return &value
			}
			return nil
		}
		r.ID, r.SessionID, r.Status, r.Prompt = *text("id"), *text("session_id"), *text("status"), *text("prompt")
		r.Created, r.Updated, r.Count = number(snapshot["created_at_ms"]), number(snapshot["updated_at_ms"]),
			number(snapshot["event_count"])
		r.Result, r.Error = text("result_text"), text("error")
		for _, record := range read["events"].([]any) {
			members := record.(map[string]any)
			event, err := m.event(members["event"])
			if err != nil {
				return nil, err
			}
			r.Events = append(r.Events, LiveRecord{
				Sequence: number(members["sequence"]),
				At:       number(members["timestamp_ms"]), Event: event,
			})
		}
		runs = append(runs, r)
	}
	return runs, nil
}
