package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
)

const (
	agent  = "agent"
	intent = "fix the build"
)

type selvedge struct {
	file   *db.DB
	runs   *runs.Store
	paused *checkpoints.Store
}

func openSelvedge(ctx context.Context, dir string, o options) (store, error) {
	level := db.SyncNormal
	if o.full {
		level = db.SyncFull
	}
	d, err := db.Open(ctx, filepath.Join(dir, "selvedge.db"), db.Options{Synchronous: level})
	if err != nil {
		return nil, err
	}
	s := &selvedge{
		file: d, runs: runs.NewStore(d, runs.Options{}), paused: checkpoints.NewStore(d, checkpoints.Options{}),
	}
	if _, started, err := s.runs.AgentForRun(ctx, name(0)); err != nil || started {
		return s, err
	}
	return s, s.start(ctx, 0, mostCallers)
}

func name(run int) string { return fmt.Sprint("run-", run) }

// start starts the runs from one number to before another.
func (s *selvedge) start(ctx context.Context, from, to int) error {
	for run := from; run < to; run++ {
		err := s.runs.WriteStarted(ctx, runs.Started{
			RunID: name(run), AgentID: agent, Intent: intent, StartedAt: time.Unix(int64(run), 0),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *selvedge) Append(ctx context.Context, run, i int, body []byte) error {
	return s.runs.AppendTurns(ctx, agent, name(run), []runs.Turn{{
		Index: uint64(i), Output: json.RawMessage(body), VerifierVerdict: runs.VerdictPass,
	}})
}

func (s *selvedge) Cycle(ctx context.Context, id string, body []byte) error {
	document := strings.ReplaceAll(paused, "RUN", id)
	document = strings.ReplaceAll(document, "BODY", string(body))
	if err := s.paused.SaveDocument(ctx, id, []byte(document)); err != nil {
		return err
	}
	claim, ok, err := s.paused.Claim(ctx, id)
	if err == nil && !ok {
		err = fmt.Errorf("the run %s is not paused", id)
	}
	if err != nil {
		return err
	}
	return claim.Complete(ctx)
}

// paused is a checkpoint of the run RUN with the text BODY.
const paused = `{"run_id":"RUN","workflow":{"id":"wf","name":"WF","start":"gate","stages":[],"edges":[],` +
	`"max_iterations":100},"paused_stage_id":"gate","prompt":"approve?","fields":[],` +
	`"output_key":"approval","wf_state":{"notes":"BODY"},"stage_results":[],"completed_stage_ids":[],` +
	`"iterations":1,"prior_duration_ms":0.0,"created_at":"2026-05-14T12:09:37Z"}`

func (s *selvedge) Fill(ctx context.Context, n int) error { return s.start(ctx, mostCallers, n) }

func (s *selvedge) List(ctx context.Context) (int, error) {
	list, err := s.runs.Page(ctx, runs.Filter{Agent: new(agent)}, db.At{Limit: page})
	return len(list.Items), err
}

func (s *selvedge) Follow(ctx context.Context, heard func() error) error {
	started := false
	for item, err := range s.runs.Follow(ctx, runs.RunRef{AgentID: agent, RunID: name(0)}, "") {
		if err != nil {
			return err
		}
		if item.What == db.Written && started {
			if err := heard(); err != nil {
				return err
			}
		}
		started = true
	}
	return nil
}

func (s *selvedge) Close() error { return s.file.Close() }
