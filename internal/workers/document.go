package workers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"selvedge/internal/serdejson"
)

// The two snapshots of the original: runtime.json and worker.json.

const schemaVersion = 1

var (
	runtimeDocument = structure{"struct RuntimeSnapshot", []string{
		"schema_version", "runtime_id", "display_name", "backend", "status", "limits",
		"next_worker_sequence", "next_event_id", "next_diagnostic_id", "diagnostics",
	}, 10, map[string]shape{"limits": {of: &limitsDocument}, "diagnostics": {&diagnosticStructure, true}}}
	limitsDocument = structure{
		"struct RuntimeLimits",
		[]string{"max_transcript_projection_items", "max_event_batch_items"},
		2, nil,
	}
	workerDocument = structure{"struct WorkerSnapshot", []string{
		"schema_version", "worker_ref", "worker_id", "status", "request",
		"next_transcript_sequence", "last_event_id",
	}, 7, map[string]shape{"worker_ref": {of: &refStructure}, "request": {of: &requestStructure}}}
)

// A RuntimeSnapshot is a runtime.json.
type RuntimeSnapshot struct {
	RuntimeID          string
	DisplayName        *string
	Status             string
	Limits             Limits
	NextWorkerSequence uint64
	NextEventID        uint64
	NextDiagnosticID   uint64
	Diagnostics        []Diagnostic

	diagnosed [][]byte // the diagnostics as they stand in the document
}

// ReadRuntimeSnapshot reads a runtime.json. wrong says why the original refuses one that can be
// read all the same; "" if it doesn't. What can't be read is a *DecodeError.
func ReadRuntimeSnapshot(text []byte) (s RuntimeSnapshot, wrong string, err error) {
	if err := runtimeDocument.check(text); err != nil {
		return s, "", err
	}
	f := runtimeDocument.read(trimBlanks(text))
	version := f.Uint(0, math.MaxUint32, "u32")
	s = RuntimeSnapshot{RuntimeID: f.Text(1), DisplayName: f.OptionalText(2)}
	backend := f.word(3, backendWords)
	s.Status = f.word(4, lifecycleWords)
	if limits := f.Need(5); limits != nil {
		inner := limitsDocument.read(limits)
		s.Limits = Limits{
			Transcript: inner.Uint(0, math.MaxUint64, "usize"),
			Events:     inner.Uint(1, math.MaxUint64, "usize"),
		}
		f.Keep(inner.Err)
	}
	s.NextWorkerSequence, s.NextEventID, s.NextDiagnosticID = f.Uint(6, math.MaxUint64, "u64"),
		f.Uint(7, math.MaxUint64, "u64"), f.Uint(8, math.MaxUint64, "u64")
	if f.Need(9) != nil {
		s.Diagnostics = decodeList(&f, 9, func(text []byte) (Diagnostic, error) {
			s.diagnosed = append(s.diagnosed, text)
			return decodeDiagnostic(text)
		})
	}
	switch {
	case f.Err != nil:
		return RuntimeSnapshot{}, "", f.Err
	case version != schemaVersion:
		wrong = fmt.Sprintf("unsupported schema version %d, expected %d", version, schemaVersion)
	case backend != backendFolder:
		wrong = "runtime snapshot backend is Memory"
	}
	return s, wrong, nil
}

func (s *RuntimeSnapshot) members() []byte {
	dst := appendNumber(nil, `{"schema_version":`, schemaVersion)
	dst = appendText(dst, `,"runtime_id":`, s.RuntimeID)
	if s.DisplayName == nil {
		dst = append(dst, `,"display_name":null`...)
	} else {
		dst = appendText(dst, `,"display_name":`, *s.DisplayName)
	}
	dst = appendText(dst, `,"backend":`, backendFolder)
	dst = appendText(dst, `,"status":`, s.Status)
	dst = appendNumber(dst, `,"limits":{"max_transcript_projection_items":`, s.Limits.Transcript)
	dst = append(appendNumber(dst, `,"max_event_batch_items":`, s.Limits.Events), '}')
	dst = appendNumber(dst, `,"next_worker_sequence":`, s.NextWorkerSequence)
	dst = appendNumber(dst, `,"next_event_id":`, s.NextEventID)
	dst = appendNumber(dst, `,"next_diagnostic_id":`, s.NextDiagnosticID)
	dst = append(dst, `,"diagnostics":[`...)
	for i, d := range s.Diagnostics {
		if i > 0 {
			dst = append(dst, ',')
		}
		if i < len(s.diagnosed) && s.diagnosed[i] != nil {
			dst = append(dst, s.diagnosed[i]...)
		} else {
			dst = appendDiagnostic(dst, d)
		}
	}
	return append(dst, `]}`...)
}

// A WorkerSnapshot is a worker.json.
type WorkerSnapshot struct {
	Worker                 Ref
	WorkerID               string
	Status                 string
	Request                Request
	NextTranscriptSequence uint64
	LastEventID            uint64
}

// ReadWorkerSnapshot reads a worker.json. wrong says why the original refuses one that can be read
// all the same; "" if it doesn't. What can't be read is a *DecodeError.
func ReadWorkerSnapshot(text []byte) (s WorkerSnapshot, wrong string, err error) {
	if err := workerDocument.check(text); err != nil {
		return s, "", err
	}
	f := workerDocument.read(trimBlanks(text))
	version := f.Uint(0, math.MaxUint32, "u32")
	s = WorkerSnapshot{Worker: f.ref(1), WorkerID: f.Text(2), Status: f.word(3, statusWords)}
	if request := f.Need(4); request != nil {
		s.Request, err = decodeRequest(request)
		f.Keep(err)
	}
	s.NextTranscriptSequence, s.LastEventID = f.Uint(5, math.MaxUint64, "u64"), f.Uint(6, math.MaxUint64, "u64")
	switch {
	case f.Err != nil:
		return WorkerSnapshot{}, "", f.Err
	case version != schemaVersion:
		wrong = fmt.Sprintf("unsupported schema version %d, expected %d", version, schemaVersion)
	case s.Worker.WorkerID != s.WorkerID:
		wrong = fmt.Sprintf("worker_ref id %s does not match worker_id %s", s.Worker.WorkerID, s.WorkerID)
	}
	return s, wrong, nil
}

func (s *WorkerSnapshot) members() []byte {
	dst := appendNumber(nil, `{"schema_version":`, schemaVersion)
	dst = appendRef(dst, `,"worker_ref":`, s.Worker)
	dst = appendText(dst, `,"worker_id":`, s.WorkerID)
	dst = appendText(dst, `,"status":`, s.Status)
	dst = appendRequest(append(dst, `,"request":`...), s.Request)
	dst = appendNumber(dst, `,"next_transcript_sequence":`, s.NextTranscriptSequence)
	return append(appendNumber(dst, `,"last_event_id":`, s.LastEventID), '}')
}

// pretty writes a document as the original does: two blanks a level, a line feed at the end. What
// is nested deeper than json.Indent goes stays as it is: members that the original only skips may
// be.
func pretty(members []byte) []byte {
	var out bytes.Buffer
	if err := json.Indent(&out, members, "", "  "); err != nil {
		return append(members, '\n')
	}
	return append(out.Bytes(), '\n')
}

// merged is the document with these members, and behind them those of the earlier document that the
// original doesn't know.
func (st *structure) merged(members, earlier []byte) []byte {
	list, array := membersOf(trimBlanks(earlier))
	for _, m := range list {
		if array || slices.ContainsFunc(st.fields, func(name string) bool { return serdejson.KeyIs(m.key, name) }) {
			continue
		}
		members = append(members[:len(members)-1], ',')
		members = append(append(append(members, m.key...), ':'), m.value...)
		members = append(members, '}')
	}
	return pretty(members)
}
