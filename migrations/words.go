package migrations

import (
	"maps"
	"strings"
	"sync"
)

// usageWords maps the words of v_usage and v_usage_tree to their SQL, as viewWords does. u is a row of
// usage_records, w and x are rows of usage_runs, a is an agent of the registry and r a run.
var usageWords = map[string]string{
	// The account of a row of usage_runs whose records v_usage has; NULL: those of a trace count more
	// finely.
	"finest_account(": `CASE WHEN ?.agent_id IS NULL THEN CASE WHEN NOT EXISTS (SELECT 1 FROM usage_runs AS y ` +
		`WHERE y.run_id = ?.run_id AND y.scope = ?.scope AND y.agent_id IS NOT NULL) THEN 'turn_end' END ` +
		`WHEN EXISTS (SELECT 1 FROM usage_records AS y WHERE y.usage_run = ?.id AND y.account = 'reply') ` +
		`THEN 'reply' WHEN EXISTS (SELECT 1 FROM usage_records AS y WHERE y.usage_run = ?.id ` +
		`AND y.account = 'model_turn') THEN 'model_turn' ELSE 'turn' END`,
	// What an account counts. An agent_end is a sum itself.
	"sum_of(": `CASE u.account WHEN 'agent_end' THEN max(u.?) ELSE sum(u.?) END`,
	// Of the records of a row of usage_runs: what the largest account counts, and what the finest does.
	"largest_of(": `nullif(greatest(coalesce(sum(?) FILTER (WHERE u.account = 'reply'), -1), ` +
		`coalesce(sum(?) FILTER (WHERE u.account = 'model_turn'), -1), ` +
		`coalesce(sum(?) FILTER (WHERE u.account IN ('turn', 'turn_end')), -1), ` +
		`coalesce(max(?) FILTER (WHERE u.account = 'agent_end'), -1)), -1)`,
	"finest_of(": `CASE WHEN bool_or(u.account = 'reply') THEN sum(?) FILTER (WHERE u.account = 'reply') ` +
		`WHEN bool_or(u.account = 'model_turn') THEN sum(?) FILTER (WHERE u.account = 'model_turn') ` +
		`ELSE sum(?) FILTER (WHERE u.account IN ('turn', 'turn_end')) END`,
	// What the largest account of w counts, and that of x.
	"most_of(": `(SELECT sum_of(?) FROM usage_records AS u WHERE u.usage_run = w.id GROUP BY u.account ` +
		`ORDER BY 1 DESC NULLS LAST LIMIT 1)`,
	"most_of_trace(": `(SELECT sum_of(?) FROM usage_records AS u WHERE u.usage_run = x.id GROUP BY u.account ` +
		`ORDER BY 1 DESC NULLS LAST LIMIT 1)`,
	// What the traces of the live run w count.
	"traces_of(": `(SELECT sum(most_of_trace(?)) FROM usage_runs AS x WHERE x.run_id = w.run_id ` +
		`AND x.scope = w.scope AND x.agent_id IS NOT NULL)`,
	// What w counts: a trace all of it, a live run what the traces with its id do not count.
	"worth_of(": `greatest(coalesce(most_of(?), 0) - CASE WHEN w.agent_id IS NULL ` +
		`THEN coalesce(traces_of(?), 0) ELSE 0 END, 0)`,
	// What the largest account counts beyond the records that v_usage has: those of the finest account
	// of a trace; the turn_ends of a live run, or its traces.
	"beyond(": `CASE WHEN w.finest_? IS NULL THEN w.most_? WHEN w.most_? > w.finest_? ` +
		`THEN w.most_? - w.finest_? END`,
	"live_beyond(": `(SELECT CASE WHEN base IS NULL THEN most WHEN most > base THEN most - base END FROM (` +
		`SELECT most_of(?) AS most, CASE WHEN t.id IS NOT NULL THEN traces_of(?) ELSE (SELECT sum(u.?) ` +
		`FROM usage_records AS u WHERE u.usage_run = w.id AND u.account = 'turn_end') END AS base) AS m)`,
	// The session of a run: that of its live run.
	"session_of(": `coalesce(w.session_id, (SELECT max(y.session_id) FROM usage_runs AS y ` +
		`WHERE y.run_id = w.run_id AND y.scope = w.scope), (SELECT l.session_id FROM live_runs AS l ` +
		`WHERE l.run_id = w.run_id AND l.scope = w.scope))`,
	// The provider or model of a record. A turn_end leaves it to the agent_end.
	"named_by(": `coalesce(u.?, CASE u.account WHEN 'turn_end' THEN (SELECT max(y.?) FROM usage_records AS y ` +
		`WHERE y.usage_run = u.usage_run AND y.account = 'agent_end') END)`,
	// That of a run, if all of its records agree.
	"model_of(": `(SELECT coalesce(max(u.?) FILTER (WHERE u.account = 'agent_end'), ` +
		`CASE WHEN min(u.?) = max(u.?) THEN max(u.?) END) ` +
		`FROM usage_runs AS x JOIN usage_records AS u ON u.usage_run = x.id ` +
		`WHERE x.run_id = w.run_id AND x.scope = w.scope)`,
	// What an agent's entry counts beyond its runs, those that were removed too: its traces and their
	// live runs, and the live runs of its session and their traces.
	"beyond_runs(": `CASE WHEN a.? IS NOT NULL THEN nullif(greatest(a.? - coalesce((
SELECT sum(worth_of(?)) FROM usage_runs AS w WHERE w.scope = a.scope AND w.id IN (
	SELECT l.id FROM usage_runs AS t JOIN usage_runs AS l ON l.run_id = t.run_id AND l.scope = t.scope
		AND (l.agent_id IS NULL OR l.agent_id = t.agent_id) WHERE t.agent_id = a.session_id UNION
	SELECT l.id FROM usage_runs AS t JOIN usage_runs AS l ON l.run_id = t.run_id AND l.scope = t.scope
		WHERE t.session_id = a.session_id)), 0) - coalesce((
SELECT sum(d.?) FROM usage_days AS d WHERE d.scope = a.scope AND (d.agent_id = a.session_id
	OR d.session_id = a.session_id AND d.session_id <> '')), 0), 0), 0) END`,
	"used_by_run(": `(SELECT sum(most_of(?)) FROM usage_runs AS w WHERE w.run_id = r.run_id ` +
		`AND w.scope = r.scope GROUP BY w.agent_id IS NULL ORDER BY 1 DESC NULLS LAST LIMIT 1)`,
	"used_by_tree(": `(WITH RECURSIVE below (key) AS (SELECT r.key UNION
	SELECT c.key FROM below AS b JOIN runs AS c ON c.parent = b.key)
SELECT sum(used_by_run(?)) FROM (
	SELECT DISTINCT c.scope, c.run_id FROM below AS b JOIN runs AS c ON c.key = b.key) AS r)`,
}

// sqliteWords are the words of SQLite's views. SQLite calls greatest and bool_or max.
var sqliteWords = sync.OnceValue(func() map[string]string {
	all := maps.Clone(viewWords)
	for word, sql := range usageWords {
		all[word] = strings.NewReplacer("greatest(", "max(", "bool_or(", "max(").Replace(sql)
	}
	return all
})

// viewWords maps words of SQLite's views to their SQL; ? is what stands in the parentheses.
var viewWords = map[string]string{
	// RFC 3339 in UTC, always with nine digits of fraction, so that times sort as text. In SQL the
	// remainder of a negative number is negative.
	"utc(": `strftime('%Y-%m-%dT%H:%M:%S', ? / 1000000000 - (? % 1000000000 < 0), 'unixepoch') || ` +
		`printf('.%09dZ', (? % 1000000000 + 1000000000) % 1000000000)`,
	// Programs that read a text as C does end it at a NUL, and replace() finds none. In JSON a NUL
	// is \u0000, which no other text is once backslashes are replaced by another character.
	"shown(": `CASE WHEN instr(?, "char"(0)) THEN replace(json_extract(replace(json_quote(replace(?, '\', ` +
		"'\uFFFE')), '\\u0000', '\uFFFD'), '$'), '\uFFFE', '\\') ELSE ? END",
	// A text that is not JSON, as damage leaves some, must not end a query over all rows.
	"doc(": `CASE WHEN json_valid(CAST(? AS TEXT)) THEN CAST(? AS TEXT) END`,

	// Of a record j: the path of the object with its counts, and, with that path as u, what it holds about
	// the use of a model. Versions and providers name the counts in several ways. Package usage reads the
	// same in Go.
	"counts_of(": `CASE WHEN json_type(?, '$.token_usage') = 'object' THEN '$.token_usage' ` +
		`WHEN json_type(?, '$.usage') = 'object' THEN '$.usage' ELSE '$.usageMetadata' END`,
	"use_of_model(": `coalesce(json_extract(j, '$.provider'), ` +
		`json_extract(j, '$.meta.provider')) AS provider, ` +
		`coalesce(json_extract(j, '$.request_model'), json_extract(j, '$.meta.request_model')) AS request_model, ` +
		`coalesce(json_extract(j, '$.response_model'), json_extract(j, '$.model_id'), ` +
		`json_extract(j, '$.meta.response_model'), json_extract(j, '$.model')) AS response_model, ` +
		`count_of(total_tokens) AS total_tokens, ` +
		`count_of(input_tokens) + count_of(cache_creation_input_tokens) AS anthropic_tokens, ` +
		`coalesce(count_of(input_tokens), count_of(prompt_tokens), count_of(promptTokenCount) + ` +
		`coalesce(count_of(toolUsePromptTokenCount), 0)) AS prompt_tokens, ` +
		`coalesce(count_of(cache_read_input_tokens), count_of(cache_read_tokens), ` +
		`count_of(prompt_tokens_details.cached_tokens), count_of(input_tokens_details.cached_tokens), ` +
		`count_of(cachedContentTokenCount)) AS cache_read, ` +
		`coalesce(count_of(cache_write_input_tokens), count_of(cache_creation_input_tokens), ` +
		`count_of(cache_write_tokens), count_of(prompt_tokens_details.cache_write_tokens), ` +
		`count_of(input_tokens_details.cache_write_tokens)) AS cache_write, ` +
		`coalesce(count_of(output_tokens), count_of(completion_tokens), count_of(candidatesTokenCount) + ` +
		`coalesce(count_of(thoughtsTokenCount), 0), count_of(thoughtsTokenCount)) AS output_tokens, ` +
		`coalesce(count_of(reasoning_output_tokens), count_of(reasoning_tokens), ` +
		`count_of(completion_tokens_details.reasoning_tokens), ` +
		`count_of(output_tokens_details.reasoning_tokens), ` +
		`count_of(output_tokens_details.thinking_tokens), count_of(thoughtsTokenCount)) AS reasoning_tokens, ` +
		`coalesce(json_extract(j, '$.cost_usd'), count_of(cost_usd)) AS cost_usd`,
	"count_of(": `json_extract(j, u || '.?')`,
	// Some records count cached tokens apart from the input tokens, and some among them. The total
	// shows which. Anthropic's counts have no total, and are apart.
	"input_tokens_of(": `CASE WHEN ?.total_tokens - ?.output_tokens - ?.prompt_tokens = ` +
		`coalesce(?.cache_read, 0) + coalesce(?.cache_write, 0) THEN ?.total_tokens - ?.output_tokens ` +
		`WHEN ?.total_tokens IS NULL AND ?.anthropic_tokens IS NOT NULL THEN ` +
		`?.prompt_tokens + coalesce(?.cache_read, 0) + coalesce(?.cache_write, 0) ELSE ?.prompt_tokens END`,
}

// writtenOut returns a script with the SQL of each word.
func writtenOut(script string, words map[string]string) string {
	var out strings.Builder
	for {
		paren := strings.IndexByte(script, '(')
		if paren < 0 {
			out.WriteString(script)
			return out.String()
		}
		inside := paren + 1
		word := 1 + strings.LastIndexFunc(script[:paren], func(c rune) bool {
			return c != '_' && (c < 'a' || c > 'z')
		})
		sql, known := words[script[word:inside]]
		if !known {
			out.WriteString(script[:inside])
			script = script[inside:]
			continue
		}
		out.WriteString(script[:word])
		end := inside
		for depth := 1; depth > 0; end++ {
			switch script[end] {
			case '(':
				depth++
			case ')':
				depth--
			}
		}
		out.WriteString(writtenOut(strings.ReplaceAll(sql, "?", script[inside:end-1]), words))
		script = script[end:]
	}
}
