// Package night fills a database with the runs of made-up agents, for tests of what people look at.
package night

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"selvedge"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
)

// Few makes a run that succeeded, with a child that failed, one that waits for a person, one with an effect
// of unknown outcome, one that is being worked on, and one that stalled. The returned run is held.
func Few(ctx context.Context, d *db.DB) (*selvedge.Run, error) {
	s := selvedge.On(d, selvedge.Options{Agent: "deployer"})
	if err := succeed(ctx, s); err != nil {
		return nil, err
	}
	waits, err := s.Take(ctx, "nightly-waits", selvedge.Start{Intent: "deploy to the shop"})
	if err != nil {
		return nil, err
	}
	if _, err := waits.Ask("gate", selvedge.Question{Prompt: "Deploy on a Friday?"}); !errors.Is(err,
		selvedge.ErrWaiting) {
		return nil, err
	}
	unknown, err := s.Take(ctx, "nightly-unknown", selvedge.Start{Intent: "send the bill"})
	if err != nil {
		return nil, err
	}
	bill := selvedge.Effect{
		Tool: "mail",
		Args: json.RawMessage(`{"to": "a customer", "total": 9007199254740993}`),
	}
	_, err = unknown.Do("bill", bill, func(context.Context, string) (json.RawMessage, error) {
		return nil, errors.New("timed out")
	})
	if !errors.Is(err, selvedge.ErrUnknown) {
		return nil, err
	}
	old := runs.NewStore(d, runs.Options{})
	hour := time.Now().Add(-time.Hour)
	err = old.WriteStarted(ctx, runs.Started{
		RunID: "nightly-stalls", AgentID: "old",
		Intent: "scan", StartedAt: hour,
	})
	if err != nil {
		return nil, err
	}
	// As after an hour without a word.
	err = d.Write(ctx, "age", func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE run_records SET recorded_at = recorded_at - 3600000000000, checksum = NULL
			WHERE id > (SELECT key << 24 FROM runs WHERE run_id = 'nightly-stalls')
			AND id < (SELECT (key + 1) << 24 FROM runs WHERE run_id = 'nightly-stalls')`)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.Take(ctx, "nightly-works", selvedge.Start{Intent: "tidy up"})
}

func succeed(ctx context.Context, s *selvedge.Store) error {
	run, err := s.Take(ctx, "nightly-done", selvedge.Start{Intent: "deploy the build"})
	if err != nil {
		return err
	}
	for n := range 2 {
		reply, err := run.Reply(fmt.Sprint("reply-", n), Model)
		if err != nil {
			return err
		}
		if err := run.Say(reply.Text); err != nil {
			return err
		}
		post := selvedge.Effect{Tool: "http", Args: json.RawMessage(`{"n": 1}`)}
		_, err = run.DoTurn(fmt.Sprint("post-", n), post, selvedge.Turn{Reply: reply},
			func(context.Context, string) (json.RawMessage, error) { return json.RawMessage(`"ok"`), nil })
		if err != nil {
			return err
		}
	}
	child, err := run.Child("tester", "nightly-child", selvedge.Start{Intent: "test the build"})
	if err != nil {
		return err
	}
	if _, err := child.Reply("reply", Model); err != nil {
		return err
	}
	if err := child.End(selvedge.FailedWith("two tests are red")); err != nil {
		return err
	}
	return run.End(selvedge.Succeeded("deployed"))
}

// Model stands for a model, whose every answer costs $0.25.
func Model(context.Context) (selvedge.Reply, error) {
	return selvedge.Reply{Text: "I post it. ", Tool: "http", Usage: selvedge.Usage{
		Provider: new("acme"), ResponseModel: new("large"), InputTokens: new(uint64(100)),
		OutputTokens: new(uint64(10)), CostUSD: new(0.25),
	}}, nil
}

// Many makes so many runs of 20 agents over the last 30 days, with so many turns each. Every tenth failed,
// and every thousandth is open.
func Many(ctx context.Context, d *db.DB, count, turns int) error {
	s := runs.NewStore(d, runs.Options{})
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same runs each time
	const group = 500
	now := time.Now().Add(-10 * time.Minute) // so that all have ended
	for from := 0; from < count; from += group {
		err := d.Write(ctx, "make runs", func(tx *db.Tx) error {
			for n := from; n < min(count, from+group); n++ {
				started := now.Add(-30 * 24 * time.Hour / time.Duration(count) * time.Duration(count-n))
				if _, err := s.AppendTx(tx, one(random, n, turns, started)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	l := live.NewStore(d, live.Options{})
	for n := range min(count, 200) {
		id := fmt.Sprint("live-", n)
		if _, err := l.CreateRunWithID(ctx, id, fmt.Sprint("session-", n%10), "watch the build"); err != nil {
			return err
		}
		if _, _, err := l.RecordEvent(ctx, id, live.AgentStart("watch the build"), live.TextDelta("it "),
			live.TextDelta("runs"), live.AgentEnd("it ran")); err != nil {
			return err
		}
	}
	return nil
}

func one(random *rand.Rand, n, turns int, started time.Time) runs.Batch {
	agent, id := fmt.Sprintf("agent-%02d", n%20), fmt.Sprintf("%08x-%d", random.Uint32(), n)
	batch := runs.Batch{AgentID: agent, RunID: id, Records: []runs.Record{runs.Started{
		RunID: id, AgentID: agent, Intent: fmt.Sprint("change part ", n%97, " of the shop"), StartedAt: started,
	}}}
	for i := range turns {
		turn := runs.Turn{
			Index: uint64(i), Prompt: new(fmt.Sprint("step ", i)), Tool: new("shell"),
			Parameters: json.RawMessage(`{"command": "go test ./..."}`),
			Output:     json.RawMessage(`"ok\tshop\t0.3s\nok\tshop/cart\t1.2s"`),
			CliOutcome: &runs.CliOutcome{Kind: runs.CliExited},
		}
		used, err := runs.ParseRecord(fmt.Appendf(nil, `{"record":"model_turn","usage":{"input_tokens":%d,`+
			`"output_tokens":%d},"model":"large","cost_usd":0.01,"recorded_at":%q}`, random.IntN(5000),
			random.IntN(900), started.UTC().Format(time.RFC3339)))
		if err != nil {
			panic(err)
		}
		batch.Records = append(batch.Records, used, turn)
	}
	ended := runs.Ended{RunID: id, AgentID: agent, EndedAt: started.Add(time.Duration(1+n%300) * time.Second)}
	outcome := runs.AgentOutcome{Status: runs.OutcomeSuccess, Summary: "done"}
	if n%10 == 0 {
		outcome = runs.AgentOutcome{Status: runs.OutcomeFailure, Summary: "the tests are red"}
	}
	ended.Termination.Outcome = &outcome
	if n%1000 != 999 {
		batch.Records = append(batch.Records, ended)
	}
	return batch
}
