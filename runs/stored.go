package runs

import (
	"encoding/json"

	traces "selvedge/internal/runs"
)

// What callers see of records, and what the tables and the lines of traces hold of them: each way,
// field by field.

func (s Started) stored() traces.Record {
	return traces.Started{
		RunID: s.RunID, AgentID: s.AgentID, Intent: s.Intent, OutcomeDescription: s.OutcomeDescription,
		StartedAt: s.StartedAt, StartedAtText: s.startedAtText, From: s.from,
	}
}

func (t Turn) stored() traces.Record {
	out := traces.Turn{
		Index: t.Index, Prompt: t.Prompt, Tool: t.Tool, Parameters: t.Parameters, Output: t.Output,
		VerifierVerdict: traces.Verdict(t.VerifierVerdict),
		PolicyRejected:  (*traces.PolicyRejection)(t.PolicyRejected), From: t.from,
	}
	if o := t.CliOutcome; o != nil {
		out.CliOutcome = &traces.CliOutcome{Kind: string(o.Kind), Code: o.Code}
	}
	return out
}

func (e Ended) stored() traces.Record {
	out := traces.Ended{
		RunID: e.RunID, AgentID: e.AgentID, EndedAt: e.EndedAt, EndedAtText: e.endedAtText, From: e.from,
		Termination: traces.Termination{Status: string(e.Termination.Status)},
	}
	if o := e.Termination.Outcome; o != nil {
		outcome := &traces.AgentOutcome{
			Status: string(o.Status), Summary: o.Summary, Metrics: traces.OutcomeMetrics(o.Metrics),
			Timestamp: o.Timestamp, TimestampText: o.timestampText,
		}
		for _, e := range o.Evidence {
			outcome.Evidence = append(outcome.Evidence,
				traces.Evidence{Kind: string(e.Kind), Description: e.Description, Data: e.Data})
		}
		out.Termination.Outcome = outcome
	}
	return out
}

func (u Unknown) stored() traces.Record {
	return traces.Unknown{Kind: u.Kind, Raw: u.Raw, From: u.from}
}

// shown is the other way; nil stays nil.
func shown(r traces.Record) Record {
	switch r := r.(type) {
	case traces.Started:
		return Started{
			RunID: r.RunID, AgentID: r.AgentID, Intent: r.Intent, OutcomeDescription: r.OutcomeDescription,
			StartedAt: r.StartedAt, startedAtText: r.StartedAtText, from: r.From,
		}
	case traces.Turn:
		out := Turn{
			Index: r.Index, Prompt: r.Prompt, Tool: r.Tool, Parameters: r.Parameters, Output: r.Output,
			VerifierVerdict: Verdict(r.VerifierVerdict), PolicyRejected: (*PolicyRejection)(r.PolicyRejected),
			from: r.From,
		}
		if o := r.CliOutcome; o != nil {
			out.CliOutcome = &CliOutcome{Kind: CliOutcomeKind(o.Kind), Code: o.Code}
		}
		return out
	case traces.Ended:
		out := Ended{
			RunID: r.RunID, AgentID: r.AgentID, EndedAt: r.EndedAt, endedAtText: r.EndedAtText, from: r.From,
			Termination: Termination{Status: OutcomeStatus(r.Termination.Status)},
		}
		if o := r.Termination.Outcome; o != nil {
			outcome := &AgentOutcome{
				Status: OutcomeStatus(o.Status), Summary: o.Summary, Metrics: OutcomeMetrics(o.Metrics),
				Timestamp: o.Timestamp, timestampText: o.TimestampText,
			}
			for _, e := range o.Evidence {
				outcome.Evidence = append(outcome.Evidence,
					Evidence{Kind: EvidenceKind(e.Kind), Description: e.Description, Data: e.Data})
			}
			out.Termination.Outcome = outcome
		}
		return out
	case traces.Unknown:
		return Unknown{Kind: r.Kind, Raw: json.RawMessage(r.Raw), from: r.From}
	}
	return nil
}
