package original

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A Record is any line of a trace. One type for the three kinds lets a line be decoded in one pass.
type Record struct {
	Record string `json:"record"`

	RunID              string    `json:"run_id"`
	AgentID            string    `json:"agent_id"`
	Intent             string    `json:"intent"`
	OutcomeDescription *string   `json:"outcome_description"`
	StartedAt          time.Time `json:"started_at"`

	Index           uint64          `json:"index"`
	Prompt          *string         `json:"prompt"`
	Tool            *string         `json:"tool"`
	Parameters      json.RawMessage `json:"parameters"`
	Output          json.RawMessage `json:"output"`
	CliOutcome      *CliOutcome     `json:"cli_outcome"`
	VerifierVerdict string          `json:"verifier_verdict"`
	PolicyRejected  *PolicyRejected `json:"policy_rejected"`

	Termination *Termination `json:"termination"`
	EndedAt     time.Time    `json:"ended_at"`
}

// CliOutcome is how a command line ended.
type CliOutcome struct {
	Kind string `json:"kind"`
	Code int64  `json:"code"`
}

// PolicyRejected is the policy that stopped a turn.
type PolicyRejected struct {
	Rule  string  `json:"rule"`
	Param *string `json:"param"`
}

// Termination is how a run ended.
type Termination struct {
	Kind    string   `json:"kind"`
	Status  string   `json:"status"`
	Outcome *Outcome `json:"outcome"`
}

// Outcome is an agent's account of its run.
type Outcome struct {
	Status   string     `json:"status"`
	Summary  string     `json:"summary"`
	Evidence []Evidence `json:"evidence"`
	Metrics  struct {
		Turns            uint32  `json:"turns"`
		ToolCalls        uint32  `json:"tool_calls"`
		DurationMs       float64 `json:"duration_ms"`
		Retries          uint32  `json:"retries"`
		ActionsSucceeded uint32  `json:"actions_succeeded"`
		ActionsFailed    uint32  `json:"actions_failed"`
	} `json:"metrics"`
	Timestamp time.Time `json:"timestamp"`
}

// Evidence is what an outcome rests on.
type Evidence struct {
	Kind        string          `json:"kind"`
	Description string          `json:"description"`
	Data        json.RawMessage `json:"data"`
}

// A Summary is a line of a list.
type Summary struct {
	RunID, AgentID, Intent, Status string
	StartedAt, EndedAt             time.Time
	TurnCount                      int
}

// Trace reads all records of a run.
func (s *RunStore) Trace(agentID, runID string) ([]Record, error) {
	return new(traceReader).read(s.path(agentID, runID))
}

// TraceInGo reads all records of a run as a Go program would: with encoding/json.
func (s *RunStore) TraceInGo(agentID, runID string) ([]Record, error) {
	file, err := os.Open(s.path(agentID, runID))
	if err != nil {
		return nil, err
	}
	records, err := decodeLines(bufio.NewReaderSize(file, 8192))
	return records, errors.Join(err, file.Close())
}

func (s *RunStore) path(agentID, runID string) string {
	return filepath.Join(s.root, sanitize(agentID), sanitize(runID)+".jsonl")
}

// List reads every file of the agent and lists its runs, newest first.
func (s *RunStore) List(agentID string) ([]Summary, error) {
	dir := filepath.Join(s.root, sanitize(agentID))
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := folder.Readdirnames(-1)
	if err = errors.Join(err, folder.Close()); err != nil {
		return nil, err
	}
	var list []Summary
	var reader traceReader
	for _, name := range names {
		if filepath.Ext(name) != ".jsonl" {
			continue
		}
		records, err := reader.read(dir + "/" + name)
		if err != nil {
			return nil, err
		}
		if summary, ok := summarize(records); ok {
			list = append(list, summary)
		}
	}
	slices.SortStableFunc(list, func(a, b Summary) int { return b.StartedAt.Compare(a.StartedAt) })
	return list, nil
}

func decodeLines(r *bufio.Reader) (list []Record, failed error) {
	for {
		line, err := r.ReadBytes('\n')
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return list, err
		}
		if !utf8.Valid(line) {
			return list, nil
		}
		var rec Record
		if strings.TrimSpace(string(line)) != "" && json.Unmarshal(line, &rec) == nil {
			list = append(list, rec)
		}
		if ended {
			return list, nil
		}
	}
}

func summarize(records []Record) (Summary, bool) {
	var started, ended *Record
	turns := 0
	for i := range records {
		switch records[i].Record {
		case "started":
			started = &records[i]
		case "ended":
			ended = &records[i]
		case "turn":
			turns++
		}
	}
	if started == nil {
		return Summary{}, false
	}
	s := Summary{ // copies, since the reader goes on with another file
		RunID: strings.Clone(started.RunID), AgentID: strings.Clone(started.AgentID),
		Intent: strings.Clone(started.Intent), Status: "in_progress",
		StartedAt: started.StartedAt, TurnCount: turns,
	}
	if ended != nil {
		s.EndedAt, s.Status = ended.EndedAt, "incomplete"
		if ended.Termination != nil && ended.Termination.Kind == "outcome" {
			s.Status = "completed"
		}
	}
	return s, true
}
