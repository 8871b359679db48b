package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"selvedge/agents"
	"selvedge/bench/original"
	"selvedge/checkpoints"
	"selvedge/db"
)

const (
	registered    = 10_000
	fewRegistered = 1000
)

// entry is an active agent, with what typical ones carry.
func entry(id, thread string) agents.Entry {
	text := func(s string) *string { return &s }
	e := agents.Entry{
		SessionID: id, Thread: thread, BaseState: "hd-0f96684059e9690b", StartedAt: epoch, Status: agents.Active,
		ClientInstanceID: text("client-" + id), NativeActorKey: text("claude:actor:" + id), ThreadID: &thread,
		Path: text("/srv/worktrees/" + thread), Provider: text("google"), Model: text("gemini-3-pro"),
		Harness:          text("claude-code"),
		AttachReason:     text("add device flow to the CLI"),
		AttachPrecedence: []string{"matched-current-session", "fallback-new"},
		HeartbeatAt:      &epoch,
	}
	for range 3 {
		e.ContextQueries = append(e.ContextQueries,
			agents.ContextQuery{Path: "src/auth/session.rs", Scope: text("file"), QueriedAt: epoch})
	}
	return e
}

// record is the same as the original keeps it.
func record(id, thread string) original.Entry {
	e := entry(id, thread)
	r := original.Entry{
		SessionID: id, Thread: thread, BaseState: e.BaseState, StartedAt: epoch, Status: string(e.Status),
		ClientInstanceID: e.ClientInstanceID, NativeActorKey: e.NativeActorKey, ThreadID: e.ThreadID, Path: e.Path,
		Provider: e.Provider, Model: e.Model, Harness: e.Harness, AttachReason: e.AttachReason,
		AttachPrecedence: e.AttachPrecedence, HeartbeatAt: e.HeartbeatAt,
	}
	for _, q := range e.ContextQueries {
		r.ContextQueries = append(r.ContextQueries,
			original.ContextQuery{Path: q.Path, Scope: q.Scope, QueriedAt: q.QueriedAt})
	}
	return r
}

// registries measures reserving a thread among many agents, and the heartbeat of one.
func registries(ctx context.Context, b *bench) ([]result, error) {
	many, err := b.stage(ctx, "agents", db.SyncNormal)
	if err != nil {
		return nil, err
	}
	few, err := b.stage(ctx, "few-agents", db.SyncNormal)
	if err != nil {
		return nil, many.close(err)
	}
	list, err := registryDuels(ctx, b, many, few)
	if err := few.close(many.close(err)); err != nil {
		return nil, err
	}
	durable, err := b.durableHeartbeat(ctx)
	return append(list, durable), err
}

// durableHeartbeat measures heartbeats that survive a power cut. The original's do: it syncs the
// file and then the folder.
func (b *bench) durableHeartbeat(ctx context.Context) (result, error) {
	s, err := b.stage(ctx, "durable-agents", db.SyncFull)
	if err != nil {
		return result{}, err
	}
	d, err := s.durableHeartbeatDuel(ctx, b)
	if err := s.close(err); err != nil {
		return result{}, err
	}
	return d.reported("heartbeat, FULL, against the rewrite with fsync of file and folder", calls(p50)), nil
}

func (s *stage) durableHeartbeatDuel(ctx context.Context, b *bench) (duel, error) {
	if err := s.fillWAL(ctx); err != nil {
		return duel{}, err
	}
	files := original.NewRegistry(filepath.Join(s.dir, "agents"), original.WithSync)
	if err := files.Save(record("agent-0", "leased")); err != nil {
		return duel{}, err
	}
	lease, out, err := agents.NewRegistry(s.file, agents.Options{}).TryLeaseThread(ctx, "leased",
		db.LeaseTerms{TTL: time.Hour},
		func(id string) (agents.Entry, error) { return entry(id, "leased"), nil })
	if err != nil || lease == nil {
		return duel{}, fmt.Errorf("lease: %v: %w", out, err)
	}
	return run(b.rounds, beat(files, b.n(300)), each(b.n(300), func(int, int) error { return lease.Renew(ctx) }))
}

// beat is the original's heartbeat: lock, read, parse, write beside, rename.
func beat(files *original.Registry, n int) side {
	return each(n, func(int, int) error {
		return files.Update("agent-0", func(e *original.Entry) { now := time.Now(); e.HeartbeatAt = &now })
	})
}

func registryDuels(ctx context.Context, b *bench, many, few *stage) ([]result, error) {
	ours, oursFew := agents.NewRegistry(many.file, agents.Options{}),
		agents.NewRegistry(few.file, agents.Options{})
	files := original.NewRegistry(filepath.Join(many.dir, "agents"), original.NoSync)
	for i := range registered {
		id, thread := fmt.Sprintf("agent-%d", i), fmt.Sprintf("thread-%d", i)
		e := entry(id, thread)
		err := errors.Join(files.Save(record(id, thread)), ours.Save(ctx, e))
		if i < fewRegistered {
			err = errors.Join(err, oursFew.Save(ctx, e))
		}
		if err != nil {
			return nil, err
		}
	}
	reserve := func(r *agents.Registry, name string) side {
		return each(100, func(number, i int) error {
			thread := fmt.Sprintf("new-%s-%d-%d", name, number, i)
			out, err := r.TryReserveThread(ctx, thread,
				func(id string) (agents.Entry, error) { return entry(id, thread), nil })
			if err == nil && out.Reserved == nil {
				err = fmt.Errorf("thread %s is held", thread)
			}
			return err
		})
	}
	scan := each(1, func(number, i int) error {
		name := fmt.Sprintf("new-%d-%d", number, i)
		return files.Reserve(record(name, name))
	})
	reserved, err := run(b.rounds, scan, reserve(ours, "a"))
	if err != nil {
		return nil, err
	}
	flat, err := run(b.rounds, reserve(oursFew, "b"), reserve(ours, "b"))
	if err != nil {
		return nil, err
	}
	lease, out, err := ours.TryLeaseThread(ctx, "leased", db.LeaseTerms{TTL: time.Hour},
		func(id string) (agents.Entry, error) { return entry(id, "leased"), nil })
	if err != nil || lease == nil {
		return nil, fmt.Errorf("lease: %v: %w", out, err)
	}
	n := b.n(2000)
	beats, err := run(b.rounds, beat(files, n), each(n, func(int, int) error { return lease.Renew(ctx) }))
	if err != nil {
		return nil, err
	}
	return []result{
		reserved.faster(fmt.Sprintf("reserve a thread among %d agents, against a scan as fast as Rust's",
			registered), calls(p50), 2000),
		flat.atMost(fmt.Sprintf("the same, %d agents against %d", registered, fewRegistered), calls(p50), flatness),
		beats.atMost("heartbeat, NORMAL, against the rewrite without fsync", calls(p50), 0.15),
	}, nil
}

// claims measures claiming a checkpoint of 20 KB, as fast as the original's and as durable as it never was.
func claims(ctx context.Context, b *bench) ([]result, error) {
	var list []result
	for _, c := range []struct {
		row    string
		level  db.Synchronous
		sync   original.Sync
		target float64
		n      int
	}{
		{"claim a 20 KB checkpoint, NORMAL, against rename and read", db.SyncNormal, original.NoSync, 1.7, 1000},
		{
			"claim a 20 KB checkpoint, FULL, against rename, fsync and read", db.SyncFull, original.WithSync, 1.0,
			300,
		},
	} {
		s, err := b.stage(ctx, "claims", c.level)
		if err != nil {
			return nil, err
		}
		d, err := s.claimDuel(ctx, b, b.n(c.n), c.sync)
		if err := s.close(err); err != nil {
			return nil, err
		}
		list = append(list, d.atMost(c.row, calls(p50), c.target))
	}
	s, err := b.stage(ctx, "structs", db.SyncNormal)
	if err != nil {
		return nil, err
	}
	d, err := s.structDuel(ctx, b)
	return append(list, d.atMost("save a 20 KB checkpoint from its struct, NORMAL, against from its bytes",
		calls(p50), 1.1)), s.close(err)
}

// structDuel measures saving a pause that was decoded against saving its bytes.
func (s *stage) structDuel(ctx context.Context, b *bench) (d duel, err error) {
	store, n := checkpoints.NewStore(s.file, checkpoints.Options{}), b.n(300)
	if err := s.fillWAL(ctx); err != nil {
		return d, err
	}
	document := func(side string, number, i int) []byte {
		return []byte(strings.ReplaceAll(paused, "RUN", runName(side, number, i)))
	}
	decoded := make([]*checkpoints.PausedWorkflow, (b.rounds+1)*n)
	for i := range decoded {
		if decoded[i], err = checkpoints.Decode(document("struct", i/n, i%n)); err != nil {
			return d, err
		}
	}
	return run(b.rounds,
		each(n, func(number, i int) error {
			return store.SaveDocument(ctx, runName("bytes", number, i), document("bytes", number, i))
		}),
		each(n, func(number, i int) error { return store.Save(ctx, decoded[number*n+i]) }))
}

func (s *stage) claimDuel(ctx context.Context, b *bench, n int, sync original.Sync) (duel, error) {
	if err := s.fillWAL(ctx); err != nil {
		return duel{}, err
	}
	files, err := original.OpenCheckpointStore(filepath.Join(s.dir, "checkpoints"))
	if err != nil {
		return duel{}, err
	}
	ours := checkpoints.NewStore(s.file, checkpoints.Options{})
	document := func(id string) []byte { return []byte(strings.ReplaceAll(paused, "RUN", id)) }
	for number := range b.rounds + 1 {
		for i := range n {
			id := runName(number, i)
			if err := errors.Join(files.Save(id, document(id)), ours.SaveDocument(ctx, id, document(id))); err != nil {
				return duel{}, err
			}
		}
	}
	same := func(id string, got []byte) error {
		if !bytes.Contains(got, []byte(id)) {
			return fmt.Errorf("run %s: a document of %d bytes that does not name it", id, len(got))
		}
		return nil
	}
	return run(b.rounds,
		each(n, func(number, i int) error {
			got, err := files.Claim(runName(number, i), sync)
			return errors.Join(err, same(runName(number, i), got))
		}),
		each(n, func(number, i int) error {
			claim, ok, err := ours.Claim(ctx, runName(number, i))
			if err != nil || !ok {
				return fmt.Errorf("claim: %v, %w", ok, err)
			}
			return same(claim.RunID(), claim.Document())
		}))
}

// paused is a checkpoint of 20 KB of the run RUN.
var paused = `{"run_id":"RUN","workflow":{"id":"wf","name":"WF","start":"gate","stages":[],"edges":[],` +
	`"max_iterations":100},` +
	`"paused_stage_id":"gate","prompt":"approve?","fields":[],"output_key":"approval","wf_state":{"notes":` +
	string(text(20_000)) + `},` +
	`"stage_results":[],"completed_stage_ids":[],"iterations":1,"prior_duration_ms":0.0,` +
	`"created_at":"2026-05-14T12:09:37Z"}`
