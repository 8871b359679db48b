package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
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
	sqlSums = `CAST(sum(input_tokens) AS BIGINT) AS input_tokens,
	CAST(sum(cache_read_input_tokens) AS BIGINT) AS cache_read_input_tokens,
	CAST(sum(cache_write_input_tokens) AS BIGINT) AS cache_write_input_tokens,
	CAST(sum(output_tokens) AS BIGINT) AS output_tokens,
	CAST(sum(reasoning_output_tokens) AS BIGINT) AS reasoning_output_tokens,
	CAST(sum(cost_nanos) AS BIGINT) AS cost_nanos`
	sqlNumbers = `input_tokens, cache_read_input_tokens, cache_write_input_tokens, output_tokens,
	reasoning_output_tokens, cost_nanos`
	// The records of the finest account, as in v_usage, which has the rest. They are added up by run
	// first: the view has a row for each record, and to sort a million of these takes three times as long.
	sqlUsed = `SELECT day, agent, coalesce(provider, '') AS model_provider, coalesce(model, '') AS model, ` +
		sqlSums + ` FROM (
	SELECT u.day, coalesce(w.agent_id, w.session_id) AS agent,
		coalesce(u.provider, (SELECT max(e.provider) FROM usage_records AS e WHERE ` + sqlEnd + `)) AS provider,
		coalesce(u.response_model, (SELECT max(e.response_model) FROM usage_records AS e WHERE ` + sqlEnd + `),
			u.request_model, (SELECT max(e.request_model) FROM usage_records AS e WHERE ` + sqlEnd + `)) AS model,
		` + sqlNumbers + `
	FROM (
		SELECT usage_run, account,
			recorded_at / %[1]d - CASE WHEN recorded_at %% %[1]d < 0 THEN 1 ELSE 0 END AS day,
			provider, request_model, response_model, ` + sqlSums + `
		FROM usage_records WHERE account <> 'agent_end'%[2]s
		GROUP BY 1, 2, 3, 4, 5, 6
	) AS u JOIN usage_runs AS w ON w.id = u.usage_run
	WHERE w.scope = ? AND CASE WHEN w.agent_id IS NULL THEN NOT EXISTS (SELECT 1 FROM usage_runs AS t
			WHERE t.run_id = w.run_id AND t.scope = w.scope AND t.agent_id IS NOT NULL)
		ELSE NOT EXISTS (SELECT 1 FROM usage_records AS f WHERE f.usage_run = u.usage_run
			AND (f.account = 'reply' AND u.account <> 'reply' OR f.account = 'model_turn' AND u.account = 'turn'))
		END
	UNION ALL
	SELECT recorded_at_ns / %[1]d - CASE WHEN recorded_at_ns %% %[1]d < 0 THEN 1 ELSE 0 END,
		coalesce(agent_id, session_id, ''), provider, coalesce(response_model, request_model), ` + sqlNumbers + `
	FROM v_usage WHERE scope = ? AND kind IN ('run', 'agent', 'removed')%[3]s
) AS used GROUP BY 1, 2, 3, 4`
	sqlEnd = `u.account = 'turn_end' AND e.usage_run = u.usage_run AND e.account = 'agent_end'`
)

const dayNanos = 24 * 60 * 60 * 1_000_000_000

type usedRow struct {
	Day      *int64 `db:"day"` // since 1970
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
	for _, r := range rows {
		u := Used{"", r.Agent, r.Provider, r.Model, usage.Counts{Numbers: r.Numbers}.Usage()}
		if r.Day != nil {
			u.Day = db.Time(*r.Day * dayNanos).Format(time.DateOnly)
		}
		list = append(list, u)
	}
	slices.SortFunc(list, func(x, y Used) int {
		return cmp.Or(cmp.Compare(y.Day, x.Day), cmp.Compare(dollars(y), dollars(x)),
			cmp.Compare(x.Agent, y.Agent), cmp.Compare(x.Provider, y.Provider), cmp.Compare(x.Model, y.Model))
	})
	return list, err
}

// dollars is a cost for sorting: unknown comes last.
func dollars(u Used) float64 {
	if u.Usage.CostUSD == nil {
		return -1
	}
	return *u.Usage.CostUSD
}

func (s *Store) used(ctx context.Context, since, until time.Time) (rows []usedRow, err error) {
	within, bounds := "", []any(nil)
	if !since.IsZero() {
		within, bounds = ` AND recorded_at >= ?`, append(bounds, db.Nanos(since))
	}
	if !until.IsZero() {
		within, bounds = within+` AND recorded_at < ?`, append(bounds, db.Nanos(until))
	}
	query := fmt.Sprintf(sqlUsed, dayNanos, within, strings.ReplaceAll(within, "at ", "at_ns "))
	err = s.db.Read(ctx, "add up what runs used", func(rx *db.Rx) error {
		rows = nil
		scope, there, err := s.scopeIn(rx)
		if err != nil || !there {
			return err
		}
		args := slices.Concat(bounds, []any{scope, s.scope}, bounds)
		return rx.Select(&rows, query, args...)
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
