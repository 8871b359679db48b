package selvedge

import (
	"fmt"

	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/internal/usage"
)

// A Budget bounds what a run uses. Zero values bound nothing.
//
// Once a run has used its budget, the next Reply makes it wait with the question budget-1, before
// the model is called. The answer approved allows as much again, until budget-2. With another
// answer, Reply returns ErrOverBudget. If the budget bounds the cost, and a reply's cost is
// unknown, the question is budget-unknown; approved lets the run continue with such replies.
type Budget struct {
	Tokens  uint64  // of input and output
	CostUSD float64 // US dollars
	Tree    bool    // counts what the runs below it used, too
}

const (
	opBudget = "check budget"
	approved = "approved"

	// Replies of a run, and of the runs below it if the second parameter is 1, of unknown cost. Those that
	// a fork copied, of epoch 0, are its parent's.
	sqlUnpriced = `WITH RECURSIVE below (key) AS (SELECT key FROM runs WHERE key = ?
	UNION SELECT r.key FROM below AS b JOIN runs AS r ON r.parent = b.key WHERE ? = 1)
SELECT 1 FROM below AS b
WHERE (SELECT count(*) FROM run_steps AS s WHERE s.run = b.key AND s.kind = 'reply' AND s.epoch > 0)
	> (SELECT count(*) FROM usage_records AS u WHERE u.usage_run = 2 * b.key AND u.account = 'reply'
	AND u.cost_nanos IS NOT NULL) LIMIT 1`
)

func (b *Budget) check() error {
	if b.CostUSD < 0 || b.CostUSD != b.CostUSD {
		return txn.Invalid("use 0 for no bound", "a budget can't be %v dollars", b.CostUSD)
	}
	return nil
}

// afford returns an error if the run used its budget: it waits for a person, or was refused more.
func (r *Run) afford() error {
	b := r.store.o.Budget
	if b.Tokens == 0 && b.CostUSD == 0 {
		return nil
	}
	var used Usage
	unpriced := false
	err := b.check()
	if err == nil {
		err = r.store.db.Read(r.ctx, opBudget, func(rx *db.Rx) (err error) {
			tree := 0
			if b.Tree {
				tree = 1
			}
			if used, err = r.used(rx, b.Tree); err != nil || b.CostUSD == 0 {
				return err
			}
			unpriced, err = rx.Find(new(int64), sqlUnpriced, r.key, tree)
			return err
		})
	}
	if err != nil {
		return named(opBudget, r.ref, err)
	}
	if unpriced {
		err := r.allowed("budget-unknown", "The cost of a reply is unknown. Go on with such replies?")
		if err != nil {
			return err
		}
	}
	for n := uint64(1); b.over(used, n); n++ {
		if err := r.allowed(fmt.Sprint("budget-", n), b.question(n)); err != nil {
			return err
		}
	}
	return nil
}

// used returns what the run used, or the run and those below it.
func (r *Run) used(rx *db.Rx, tree bool) (Usage, error) {
	if tree {
		cost, err := r.store.CostTx(rx, r.ref)
		return cost.Tree, err
	}
	var own usage.Counts
	scope, _, err := rx.Store().Scope(r.store.o.Scope)
	if err != nil {
		return Usage{}, err
	}
	rows, err := usage.OfRun(rx, scope, r.ref.RunID)
	for i := range rows {
		own.Add(rows[i].Numbers)
	}
	return own.Usage(), err
}

// over reports whether as many budgets are used.
func (b *Budget) over(used Usage, budgets uint64) bool {
	var tokens uint64
	for _, n := range []*uint64{used.InputTokens, used.OutputTokens} {
		if n != nil {
			tokens += *n
		}
	}
	return b.Tokens != 0 && tokens >= b.Tokens*budgets ||
		b.CostUSD != 0 && used.CostUSD != nil && *used.CostUSD >= b.CostUSD*float64(budgets)
}

func (b *Budget) question(budgets uint64) string {
	switch {
	case b.CostUSD == 0:
		return fmt.Sprintf("The run used %d tokens. Allow %d more?", b.Tokens*budgets, b.Tokens)
	case b.Tokens == 0:
		return fmt.Sprintf("The run used $%g. Allow $%g more?", b.CostUSD*float64(budgets), b.CostUSD)
	}
	return fmt.Sprintf("The run used %d tokens or $%g. Allow as much again?", b.Tokens*budgets,
		b.CostUSD*float64(budgets))
}

// allowed asks a person, unless one was asked before: the budget may have been another one then.
func (r *Run) allowed(key, question string) error {
	row, found, err := r.step(opBudget, key, StepQuestion)
	if err != nil {
		return err
	}
	if found {
		question = or(row.Prompt)
	}
	answer, err := r.Ask(key, Question{Prompt: question})
	if err == nil && answer.Decision != approved {
		err = &db.Error{
			Op: opBudget, Entity: "run", ID: r.ref.RunID, Err: ErrOverBudget,
			Hint: "end the run: errors.Is(err, selvedge.ErrOverBudget)",
		}
	}
	return err
}
