package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"selvedge"
	"selvedge/db"
	"selvedge/runs"
)

// modelTurn is a record that reports usage.
var modelTurn = runs.Unknown{
	Kind: "model_turn",
	Raw: json.RawMessage(`{"record":"model_turn","request_model":"m","usage":` +
		`{"input_tokens":1200,"output_tokens":80}}`),
}

// fronts measures package selvedge: a turn that has an effect, and what a run cost.
func fronts(ctx context.Context, b *bench) ([]result, error) {
	s, err := b.stage(ctx, "front", db.SyncFull)
	if err != nil {
		return nil, err
	}
	d, err := s.effectDuel(ctx, b)
	if err := s.close(err); err != nil {
		return nil, err
	}
	if s, err = b.stage(ctx, "cost", db.SyncNormal); err != nil {
		return nil, err
	}
	cost, err := s.costDuel(ctx, b)
	if err := s.close(err); err != nil {
		return nil, err
	}
	return []result{
		d.atMost("a turn of package selvedge that runs its effect, FULL, against two appends", calls(p50), 1.5),
		cost.atMost(fmt.Sprintf("what one run cost, among %d, against reading its model turns",
			b.n(flatUpTo)), calls(p50), 2),
	}, nil
}

// effectDuel measures turns with an effect. Each commits twice: before the effect, and with its outcome.
func (s *stage) effectDuel(ctx context.Context, b *bench) (d duel, err error) {
	store := selvedge.On(s.file, selvedge.Options{Agent: agent})
	r, err := store.Take(ctx, "front", selvedge.Start{Intent: "deploy"})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, r.Leave()) }()
	if err := errors.Join(s.fillWAL(ctx), s.begin(ctx, "appended")); err != nil {
		return d, err
	}
	big := turn(0, turnBytes)
	n := b.n(300)
	return run(b.rounds,
		each(n, func(_, i int) error {
			for k := range 2 {
				if err := s.store.AppendTurns(ctx, agent, "appended", []runs.Turn{at(big, 2*i+k)}); err != nil {
					return err
				}
			}
			return nil
		}),
		each(n, func(number, i int) error { return effectTurn(r, runName("turn", number, i), big.Output) }))
}

// effectTurn records a turn whose effect has that output.
func effectTurn(r *selvedge.Run, key string, output json.RawMessage) error {
	_, err := r.DoTurn(key, selvedge.Effect{Tool: "push"}, selvedge.Turn{},
		func(context.Context, string) (json.RawMessage, error) { return output, nil })
	return err
}

// costDuel measures the cost of a run of 20 model turns against a read of those.
func (s *stage) costDuel(ctx context.Context, b *bench) (d duel, err error) {
	const id = "bill"
	if err := s.addBills(ctx, 0, b.n(flatUpTo)); err != nil {
		return d, err
	}
	if err := s.addBill(ctx, id); err != nil {
		return d, err
	}
	store := selvedge.On(s.file, selvedge.Options{Agent: agent})
	return run(b.rounds,
		each(200, func(int, int) error {
			read := 0
			for _, err := range s.store.Trace(ctx, runs.RunRef{AgentID: agent, RunID: id}) {
				if err != nil {
					return err
				}
				read++
			}
			return expect(read, billTurns+1, nil)
		}),
		each(200, func(int, int) error { return costOf(ctx, store, id) }))
}

const billTurns = 20

func costOf(ctx context.Context, store *selvedge.Store, id string) error {
	cost, err := store.Cost(ctx, selvedge.Ref{AgentID: agent, RunID: id})
	if err == nil && (cost.Own.InputTokens == nil || *cost.Own.InputTokens != 1200*billTurns) {
		err = fmt.Errorf("run %s cost %+v", id, cost)
	}
	return err
}

// addBill adds a run with 20 records that report usage.
func (s *stage) addBill(ctx context.Context, id string) error {
	records := []runs.Record{started(agent, id, 0)}
	for range billTurns {
		records = append(records, modelTurn)
	}
	return s.store.AppendRecords(ctx, agent, id, records)
}

// addBills adds runs of one record that reports usage each, from one number to before another.
func (s *stage) addBills(ctx context.Context, from, to int) error {
	return inParts(ctx, s.file, to-from, func(tx *db.Tx, i int) error {
		i += from
		agentID, id := fmt.Sprintf("agent-%d", i/100), runName("bill", i)
		_, err := s.store.AppendTx(tx, runs.Batch{
			AgentID: agentID, RunID: id,
			Records: []runs.Record{started(agentID, id, i%100), modelTurn, ended(agentID, id, i%100)},
		})
		return err
	})
}
