package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"selvedge/runs"
)

const words = "the agent reads a file, changes a line and runs the tests; two of them fail with a message " +
	"that it keeps. "

func prose(n int) string { return strings.Repeat(words, n/len(words)+1)[:n] }

// turn makes a turn whose trace line has about size bytes, most of them in the output, as real ones have.
func turn(index uint64, size int) runs.Turn {
	tool := "drive_cli"
	if size < 400 {
		t := runs.Turn{Index: index, Tool: &tool, VerifierVerdict: runs.VerdictPass}
		t.Output = text(max(size-80, 2))
		return t
	}
	prompt := prose(size / 5)
	return runs.Turn{
		Index: index, Prompt: &prompt, Tool: &tool,
		Parameters:      json.RawMessage(`{"prompt":` + string(text(size/5)) + `,"timeout_ms":120000}`),
		Output:          json.RawMessage(`{"exit_code":0,"stdout":` + string(text(size*3/5-220)) + `}`),
		CliOutcome:      &runs.CliOutcome{Kind: runs.CliExited},
		VerifierVerdict: runs.VerdictPass,
	}
}

// at returns the same turn with another index: making its texts again would be measured with it.
func at(t runs.Turn, index int) runs.Turn {
	t.Index = uint64(index)
	return t
}

func text(n int) json.RawMessage {
	quoted, err := json.Marshal(prose(n))
	if err != nil {
		panic(err) // a string always has JSON
	}
	return quoted
}

// epoch is where the times of made-up runs begin: recent, so that no retention takes them.
var epoch = time.Now().UTC().Add(-24 * time.Hour).Truncate(time.Second)

func started(agentID, runID string, number int) runs.Started {
	return runs.Started{
		RunID: runID, AgentID: agentID, Intent: "fix the build",
		StartedAt: epoch.Add(time.Duration(number) * time.Second / 4),
	}
}

func ended(agentID, runID string, number int) runs.Ended {
	at := epoch.Add(time.Duration(number)*time.Second/4 + time.Minute)
	return runs.Ended{
		RunID: runID, AgentID: agentID, EndedAt: at,
		Termination: runs.Termination{Outcome: &runs.AgentOutcome{
			Status: runs.OutcomeSuccess, Summary: "done",
			Timestamp: at,
		}},
	}
}

// lines are records as the original writes them.
func lines(records ...runs.Record) ([]byte, error) {
	var all []byte
	for _, r := range records {
		line, err := r.MarshalJSON()
		if err != nil {
			return nil, err
		}
		all = append(append(all, line...), '\n')
	}
	return all, nil
}

func runName(parts ...any) string {
	return "run" + strings.ReplaceAll(fmt.Sprintf("-%v", parts), " ", "-")
}
