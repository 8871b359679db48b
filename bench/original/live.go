package original

import (
	"cmp"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"selvedge/internal/serdejson"
	"selvedge/runs/live"
)

// A LiveStore is the original's store of live runs: memory, which its session saves as one file.
// One caller at a time.
type LiveStore struct {
	root string
	runs []*liveRun
	json []byte // of the last save: Go grows a text more slowly than Rust, so its room is used again
}

type liveRun struct {
	snapshot live.RunSnapshot
	events   []liveEvent
}

// A liveEvent is a piece of a model's answer, which most events are.
type liveEvent struct {
	sequence, timestampMs uint64
	text                  string
}

// NewLiveStore returns an empty store, whose files go into the folder root.
func NewLiveStore(root string) *LiveStore { return &LiveStore{root: root} }

// CreateRun adds a run, as it looks at its start; the answer names it to RecordEvent.
func (s *LiveStore) CreateRun(snapshot live.RunSnapshot) int {
	s.runs = append(s.runs, &liveRun{snapshot: snapshot})
	return len(s.runs) - 1
}

// RecordEvent adds a piece of an answer to a run, in memory.
func (s *LiveStore) RecordEvent(run int, nowMs uint64, text string) live.RunSnapshot {
	r := s.runs[run]
	r.events = append(r.events, liveEvent{sequence: uint64(len(r.events)), timestampMs: nowMs, text: text})
	r.snapshot.EventCount++
	r.snapshot.UpdatedAtMs = nowMs
	return r.snapshot
}

// Save writes all runs into the session's file, over its content: records made before are kept
// from then on. Nothing waits for the disk.
func (s *LiveStore) Save(sessionID string) error {
	s.json = appendRecords(s.json[:0], s.records())
	path := filepath.Join(s.root, "runs", safeName(sessionID)+".json")
	if err := createDirAll(filepath.Dir(path)); err != nil {
		return err
	}
	return writeFile(path, s.json, NoSync)
}

// safeName is the name of a session's file, without its extension.
func safeName(sessionID string) string {
	name := strings.NewReplacer("/", "_", `\`, "_").Replace(sessionID)
	return strings.ReplaceAll(name, "..", "_")
}

// records copies all runs, as the original does for every save, but for the strings.
func (s *LiveStore) records() []liveRun {
	list := make([]liveRun, 0, len(s.runs))
	for _, r := range s.runs {
		list = append(list, liveRun{snapshot: r.snapshot, events: slices.Clone(r.events)})
	}
	slices.SortStableFunc(list, func(a, b liveRun) int {
		return cmp.Compare(a.snapshot.CreatedAtMs,
			b.snapshot.CreatedAtMs)
	})
	return list
}

// appendRecords is pretty JSON, as the original writes it, with the layout in constants: the
// fastest that it can.
func appendRecords(dst []byte, list []liveRun) []byte {
	dst = append(dst, '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendSnapshot(append(dst, "\n  {\n    \"snapshot\": "...), &list[i].snapshot)
		dst = append(dst, ",\n    \"events\": ["...)
		for j := range list[i].events {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = appendLiveEvent(dst, &list[i].events[j])
		}
		dst = append(dst, "\n    ]\n  }"...)
	}
	return append(dst, "\n]"...)
}

func appendSnapshot(dst []byte, s *live.RunSnapshot) []byte {
	dst = serdejson.AppendQuoted(append(dst, "{\n      \"id\": "...), s.ID)
	dst = serdejson.AppendQuoted(append(dst, ",\n      \"session_id\": "...), s.SessionID)
	dst = serdejson.AppendQuoted(append(dst, ",\n      \"status\": "...), string(s.Status))
	dst = serdejson.AppendQuoted(append(dst, ",\n      \"prompt\": "...), s.Prompt)
	dst = strconv.AppendUint(append(dst, ",\n      \"created_at_ms\": "...), s.CreatedAtMs, 10)
	dst = strconv.AppendUint(append(dst, ",\n      \"updated_at_ms\": "...), s.UpdatedAtMs, 10)
	dst = strconv.AppendUint(append(dst, ",\n      \"event_count\": "...), s.EventCount, 10)
	return append(dst, "\n    }"...)
}

func appendLiveEvent(dst []byte, e *liveEvent) []byte {
	dst = strconv.AppendUint(append(dst, "\n      {\n        \"sequence\": "...), e.sequence, 10)
	dst = strconv.AppendUint(append(dst, ",\n        \"timestamp_ms\": "...), e.timestampMs, 10)
	dst = append(dst, ",\n        \"event\": {\n          \"type\": \"text_delta\",\n          \"text\": "...)
	return append(serdejson.AppendQuoted(dst, e.text), "\n        }\n      }"...)
}
