package workers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
)

// The two snapshots of the old program: runtime.json and worker.json.

const (
	schemaVersion = 1
	backendMemory = "memory"
	backendFile   = "fs_store"
)

var (
	runtimeJSON = sync.OnceValue(structureFor[runtimeSnapshot])
	workerJSON  = sync.OnceValue(structureFor[workerSnapshot])
)

// A runtimeSnapshot is a runtime.json.
type runtimeSnapshot struct {
	SchemaVersion      uint32              `json:"schema_version"`
	RuntimeID          RuntimeID           `json:"runtime_id"`
	DisplayName        *string             `json:"display_name"`
	Backend            string              `json:"backend" serde:"memory|fs_store"`
	Status             RuntimeStatus       `json:"status" serde:"running|stopped"`
	Limits             RuntimeLimits       `json:"limits"`
	NextWorkerSequence uint64              `json:"next_worker_sequence"`
	NextEventID        uint64              `json:"next_event_id"`
	NextDiagnosticID   uint64              `json:"next_diagnostic_id"`
	Diagnostics        []RuntimeDiagnostic `json:"diagnostics"`

	diagnosed [][]byte // the diagnostics as they are in the document; nil: encode them
}

// readRuntimeSnapshot reads a runtime.json. wrong is why the old program refuses one that can be
// read; "" if it accepts it.
func readRuntimeSnapshot(text []byte) (s runtimeSnapshot, wrong string, err error) {
	if s, err = decode[runtimeSnapshot](runtimeJSON(), text); err != nil {
		return s, "", err
	}
	for _, d := range membersOf(runtimeJSON().Read(trimBlanks(text)).Values[len(runtimeJSON().Names)-1]) {
		s.diagnosed = append(s.diagnosed, d.Value)
	}
	if wrong = wrongVersion(s.SchemaVersion); wrong == "" && s.Backend != backendFile {
		wrong = "runtime snapshot backend is Memory"
	}
	return s, wrong, nil
}

func wrongVersion(version uint32) string {
	if version == schemaVersion {
		return ""
	}
	return fmt.Sprintf("unsupported schema version %d, expected %d", version, schemaVersion)
}

func (s *runtimeSnapshot) members() []byte {
	empty := *s
	empty.SchemaVersion, empty.Backend, empty.Diagnostics = schemaVersion, backendFile, []RuntimeDiagnostic{}
	dst := bytes.TrimSuffix(encode(empty), []byte("]}"))
	for i, d := range s.Diagnostics {
		if i > 0 {
			dst = append(dst, ',')
		}
		if i < len(s.diagnosed) && s.diagnosed[i] != nil {
			dst = append(dst, s.diagnosed[i]...)
		} else {
			dst = append(dst, encode(d)...)
		}
	}
	return append(dst, `]}`...)
}

// A workerSnapshot is a worker.json.
type workerSnapshot struct {
	SchemaVersion          uint32              `json:"schema_version"`
	WorkerRef              WorkerRef           `json:"worker_ref"`
	WorkerID               WorkerID            `json:"worker_id"`
	Status                 WorkerStatus        `json:"status" serde:"running|stopped|cancelled"`
	Request                CreateWorkerRequest `json:"request"`
	NextTranscriptSequence uint64              `json:"next_transcript_sequence"`
	LastEventID            uint64              `json:"last_event_id"`
}

// readWorkerSnapshot reads a worker.json. wrong is why the old program refuses one that can be
// read; "" if it accepts it.
func readWorkerSnapshot(text []byte) (s workerSnapshot, wrong string, err error) {
	if s, err = decode[workerSnapshot](workerJSON(), text); err != nil {
		return s, "", err
	}
	if wrong = wrongVersion(s.SchemaVersion); wrong == "" && s.WorkerRef.WorkerID != s.WorkerID {
		wrong = fmt.Sprintf("worker_ref id %s does not match worker_id %s", s.WorkerRef.WorkerID, s.WorkerID)
	}
	return s, wrong, nil
}

func (s *workerSnapshot) members() []byte {
	s.SchemaVersion = schemaVersion
	return encode(*s)
}

// pretty formats a document as the old program does: two blanks a level, a line feed at the end. A
// document that is nested too deeply for json.Indent stays as it is.
func pretty(members []byte) []byte {
	var out bytes.Buffer
	if err := json.Indent(&out, members, "", "  "); err != nil {
		return append(members, '\n')
	}
	return append(out.Bytes(), '\n')
}

// merged is the document with these members, followed by those of the earlier document that the old
// program doesn't know.
func (st *structure) merged(members, earlier []byte) []byte {
	for _, m := range membersOf(trimBlanks(earlier)) {
		if m.Key == nil || st.at(m.Key) >= 0 { // an element, or a known member
			continue
		}
		members = slices.Concat(members[:len(members)-1], []byte{','}, m.Key, []byte{':'}, m.Value, []byte{'}'})
	}
	return pretty(members)
}

// ParseRecord reads a document or a line of the old program's files, as strictly as that program.
// The record is a pointer to a struct whose tags name the members, such as a *RuntimeEvent. Unlike
// the old program it reads events of unknown kinds.
func ParseRecord(text []byte, record any) error {
	v := reflect.ValueOf(record).Elem()
	return structureOf(v.Type()).parse(text, v)
}
