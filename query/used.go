package query

import (
	"cmp"
	"context"
	"slices"
	"time"

	"selvedge/db"
	"selvedge/internal/usage"
)

// A Used is what one model used for an agent on a day.
type Used struct {
	Day      string // as in 2026-05-04, UTC; "": imported without a time
	Agent    string // or the session of a live run without a trace
	Provider string // of the model; "": not recorded
	Model    string // that answered, or was asked for; "": not recorded
	Usage    db.Usage
}

const (
	sqlUsed = `SELECT coalesce(substr(recorded_at, 1, 10), '') AS day,
	coalesce(agent_id, session_id, '') AS agent, coalesce(provider, '') AS model_provider,
	coalesce(response_model, request_model, '') AS model,
	CAST(sum(input_tokens) AS BIGINT) AS input_tokens,
	CAST(sum(cache_read_input_tokens) AS BIGINT) AS cache_read_input_tokens,
	CAST(sum(cache_write_input_tokens) AS BIGINT) AS cache_write_input_tokens,
	CAST(sum(output_tokens) AS BIGINT) AS output_tokens,
	CAST(sum(reasoning_output_tokens) AS BIGINT) AS reasoning_output_tokens,
	CAST(sum(cost_nanos) AS BIGINT) AS cost_nanos
FROM v_usage WHERE scope = ?`
	sqlUsedGroups = ` GROUP BY 1, 2, 3, 4`
)

type usedRow struct {
	Day      string `db:"day"`
	Agent    string `db:"agent"`
	Provider string `db:"model_provider"`
	Model    string `db:"model"`
	usage.Numbers
}

// Used returns what was used by day, agent and model, at or after since and before until, removed runs
// included: the latest day first, and then the most expensive. No use is counted twice. A zero time is
// no bound; without bounds, what was imported without a time counts too.
func (s *Store) Used(ctx context.Context, since, until time.Time) (list []Used, err error) {
	rows, err := s.used(ctx, since, until)
	slices.SortFunc(rows, func(x, y usedRow) int {
		return cmp.Or(cmp.Compare(y.Day, x.Day), cmp.Compare(nanos(y.CostNanos), nanos(x.CostNanos)),
			cmp.Compare(x.Agent, y.Agent), cmp.Compare(x.Provider, y.Provider), cmp.Compare(x.Model, y.Model))
	})
	for _, r := range rows {
		list = append(list, Used{r.Day, r.Agent, r.Provider, r.Model, usage.Counts{Numbers: r.Numbers}.Usage()})
	}
	return list, err
}

// nanos is a cost for sorting: unknown comes last.
func nanos(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

func (s *Store) used(ctx context.Context, since, until time.Time) (rows []usedRow, err error) {
	query, args := sqlUsed, []any{s.scope}
	if !since.IsZero() {
		query, args = query+` AND recorded_at_ns >= ?`, append(args, db.Nanos(since))
	}
	if !until.IsZero() {
		query, args = query+` AND recorded_at_ns < ?`, append(args, db.Nanos(until))
	}
	err = s.db.Read(ctx, "add up what runs used", func(rx *db.Rx) error {
		rows = nil
		return rx.Select(&rows, query+sqlUsedGroups, args...)
	})
	return rows, err
}

// total returns what was used between two times.
func (s *Store) total(ctx context.Context, since, until time.Time) (db.Usage, error) {
	rows, err := s.used(ctx, since, until)
	var sum usage.Counts
	for _, r := range rows {
		sum.Add(r.Numbers)
	}
	return sum.Usage(), err
}

// A Day counts the runs that started on a day.
type Day struct {
	Day     string  `db:"day"`     // as in 2026-05-04, UTC
	Runs    int64   `db:"runs"`    // that started
	Failed  int64   `db:"failed"`  // of these, ended without achieving their intent
	Seconds float64 `db:"seconds"` // mean time from start to end; 0: none has ended
}

const sqlDays = `SELECT substr(started_at, 1, 10) AS day, count(*) AS runs, count(error_type) AS failed,
	coalesce(avg(seconds), 0) AS seconds
FROM v_runs WHERE scope = ? AND started_at_ns >= ? GROUP BY 1 ORDER BY 1`

// Days returns the runs of each day since a time, the first day first. It reads the rows of these
// runs.
func (s *Store) Days(ctx context.Context, since time.Time) (list []Day, err error) {
	err = s.db.Read(ctx, "count runs by day", func(rx *db.Rx) error {
		list = nil
		return rx.Select(&list, sqlDays, s.scope, db.Nanos(since))
	})
	return list, err
}

// Spent are the counts of a usage as JSON. What nobody counted is null.
type Spent struct {
	Input      *uint64  `json:"input_tokens"`             // tokens read, those from a cache included
	CacheRead  *uint64  `json:"cache_read_input_tokens"`  // of these, read from a cache
	CacheWrite *uint64  `json:"cache_write_input_tokens"` // of these, written to a cache
	Output     *uint64  `json:"output_tokens"`            // tokens answered
	Reasoning  *uint64  `json:"reasoning_output_tokens"`  // of these, for reasoning
	CostUSD    *float64 `json:"cost_usd"`                 // US dollars
}

// SpentOf returns the counts of a usage.
func SpentOf(u db.Usage) Spent {
	return Spent{
		u.InputTokens, u.CacheReadInputTokens, u.CacheWriteInputTokens, u.OutputTokens, u.ReasoningOutputTokens,
		u.CostUSD,
	}
}
