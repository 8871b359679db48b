package migrations

import (
	"fmt"
	"maps"
	"strings"
)

// usageWords maps the words of v_usage and v_usage_tree to their SQL, as viewWords does. u is a row of
// usage_records, w one of usage_runs, a an agent of the registry and r a run.
var usageWords = func() map[string]string {
	accounts := []string{"reply", "model_turn", "turn", "turn_end"} // the finest first
	var sums, finest, isFinest strings.Builder
	for i, account := range accounts {
		fmt.Fprintf(&sums, `coalesce(sum(?) FILTER (WHERE u.account = '%s'), -1), `, account)
		fmt.Fprintf(&finest, ` WHEN bool_or(u.account = '%[1]s') THEN sum(?) FILTER (WHERE u.account = '%[1]s')`,
			account)
		if i == 0 {
			fmt.Fprintf(&isFinest, `?.account = '%s'`, account)
			continue
		}
		fmt.Fprintf(&isFinest, ` OR ?.account = '%s' AND NOT EXISTS (SELECT 1 FROM usage_records AS x `+
			`WHERE x.usage_run = ?.usage_run AND x.account IN ('%s'))`, account, strings.Join(accounts[:i], `', '`))
	}
	return map[string]string{
		// What the account with the largest sum counts. An agent_end is a sum itself.
		"most_of(": `nullif(greatest(` + sums.String() +
			`coalesce(max(?) FILTER (WHERE u.account = 'agent_end'), -1)), -1)`,
		// What the finest account counts, and whether a row is one of it.
		"finest_of(": `CASE` + finest.String() + ` END`,
		"is_finest(": `(` + isFinest.String() + `)`,
		// What the largest account counts beyond the finest one.
		"beyond(": `CASE WHEN finest_? IS NULL THEN most_? WHEN most_? > finest_? THEN most_? - finest_? END`,
		// The provider or model of a record. A turn_end leaves it to the agent_end.
		"named_by(": `coalesce(u.?, CASE u.account WHEN 'turn_end' THEN (SELECT max(x.?) FROM usage_records AS x ` +
			`WHERE x.usage_run = u.usage_run AND x.account = 'agent_end') END)`,
		// That of a run, if all of its records agree.
		"model_of(": `coalesce(max(u.?) FILTER (WHERE u.account = 'agent_end'), ` +
			`CASE WHEN min(u.?) = max(u.?) THEN max(u.?) END)`,
		// What an agent's entry counts beyond its runs, those that were removed too.
		"beyond_runs(": `CASE WHEN a.? IS NOT NULL THEN nullif(greatest(a.? - coalesce((SELECT sum(b.n) FROM (
SELECT most_of(u.?) AS n FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
WHERE w.scope = a.scope AND w.agent_id = a.session_id GROUP BY w.id
UNION ALL
SELECT most_of(u.?) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
WHERE w.scope = a.scope AND w.session_id = a.session_id AND (w.agent_id IS NULL OR w.agent_id <> a.session_id)
GROUP BY w.id
UNION ALL
SELECT d.? FROM usage_days AS d WHERE d.scope = a.scope AND d.agent_id = a.session_id
UNION ALL
SELECT d.? FROM usage_days AS d WHERE d.scope = a.scope AND d.session_id = a.session_id AND d.session_id <> ''
	AND d.agent_id <> a.session_id
) AS b), 0), 0), 0) END`,
		"used_by_run(": `(SELECT most_of(u.?) FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
WHERE w.run_id = r.run_id AND w.scope = r.scope)`,
		"used_by_tree(": `(WITH RECURSIVE below (key) AS (SELECT r.key UNION
	SELECT c.key FROM below AS b JOIN runs AS c ON c.parent = b.key)
SELECT sum(m.n) FROM (SELECT most_of(u.?) AS n FROM below AS b JOIN runs AS c ON c.key = b.key
	JOIN usage_runs AS w ON w.run_id = c.run_id AND w.scope = c.scope
	JOIN usage_records AS u ON u.usage_run = w.id GROUP BY w.id) AS m)`,
	}
}()

// sqliteWords are the words of SQLite's views. SQLite calls greatest and bool_or max.
var sqliteWords = func() map[string]string {
	all := maps.Clone(viewWords)
	for word, sql := range usageWords {
		all[word] = strings.NewReplacer("greatest(", "max(", "bool_or(", "max(").Replace(sql)
	}
	return all
}()

// viewWords maps words of SQLite's views to their SQL; ? is what stands in the parentheses.
var viewWords = map[string]string{
	// RFC 3339 in UTC, always with nine digits of fraction, so that times sort as text. In SQL the
	// remainder of a negative number is negative.
	"utc(": `strftime('%Y-%m-%dT%H:%M:%S', ? / 1000000000 - (? % 1000000000 < 0), 'unixepoch') || ` +
		`printf('.%09dZ', (? % 1000000000 + 1000000000) % 1000000000)`,
	// Programs that read a text as C does end it at a NUL, and replace() finds none. In JSON a NUL
	// is \u0000, which no other text is once backslashes are replaced by another character.
	"shown(": `CASE WHEN instr(?, char(0)) THEN replace(json_extract(replace(json_quote(replace(?, '\', ` +
		`char(65534))), '\u0000', char(65533)), '$'), char(65534), '\') ELSE ? END`,
	// A text that is not JSON, as damage leaves some, must not end a query over all rows.
	"doc(": `CASE WHEN json_valid(CAST(? AS TEXT)) THEN CAST(? AS TEXT) END`,

	// Versions and providers name the counts in several ways. Package usage reads the same in Go.
	"counts_of(": `CASE WHEN json_type(?, '$.token_usage') = 'object' THEN '$.token_usage' ` +
		`WHEN json_type(?, '$.usage') = 'object' THEN '$.usage' ELSE '$.usageMetadata' END`,
	"provider_of(": `coalesce(json_extract(?.j, '$.provider'), json_extract(?.j, '$.meta.provider'))`,
	"request_model_of(": `coalesce(json_extract(?.j, '$.request_model'), ` +
		`json_extract(?.j, '$.meta.request_model'))`,
	"response_model_of(": `coalesce(json_extract(?.j, '$.response_model'), json_extract(?.j, '$.model_id'), ` +
		`json_extract(?.j, '$.meta.response_model'), json_extract(?.j, '$.model'))`,
	// Some records count cached tokens apart from the input tokens, and some among them. The total
	// shows which. Anthropic's counts have no total, and are apart.
	"input_tokens_of(": `CASE WHEN json_extract(?.j, ?.u || '.total_tokens') - output_tokens_of(?) - ` +
		`prompt_tokens_of(?) = coalesce(cache_read_of(?), 0) + coalesce(cache_write_of(?), 0) THEN ` +
		`json_extract(?.j, ?.u || '.total_tokens') - output_tokens_of(?) ` +
		`WHEN json_extract(?.j, ?.u || '.total_tokens') IS NULL AND json_extract(?.j, ?.u || '.input_tokens') ` +
		`+ json_extract(?.j, ?.u || '.cache_creation_input_tokens') IS NOT NULL THEN ` +
		`prompt_tokens_of(?) + coalesce(cache_read_of(?), 0) + coalesce(cache_write_of(?), 0) ` +
		`ELSE prompt_tokens_of(?) END`,
	"prompt_tokens_of(": `coalesce(json_extract(?.j, ?.u || '.input_tokens'), ` +
		`json_extract(?.j, ?.u || '.prompt_tokens'), json_extract(?.j, ?.u || '.promptTokenCount') + ` +
		`coalesce(json_extract(?.j, ?.u || '.toolUsePromptTokenCount'), 0))`,
	"cache_read_of(": `coalesce(json_extract(?.j, ?.u || '.cache_read_input_tokens'), ` +
		`json_extract(?.j, ?.u || '.cache_read_tokens'), ` +
		`json_extract(?.j, ?.u || '.prompt_tokens_details.cached_tokens'), ` +
		`json_extract(?.j, ?.u || '.input_tokens_details.cached_tokens'), ` +
		`json_extract(?.j, ?.u || '.cachedContentTokenCount'))`,
	"cache_write_of(": `coalesce(json_extract(?.j, ?.u || '.cache_write_input_tokens'), ` +
		`json_extract(?.j, ?.u || '.cache_creation_input_tokens'), ` +
		`json_extract(?.j, ?.u || '.cache_write_tokens'))`,
	"output_tokens_of(": `coalesce(json_extract(?.j, ?.u || '.output_tokens'), ` +
		`json_extract(?.j, ?.u || '.completion_tokens'), json_extract(?.j, ?.u || '.candidatesTokenCount') + ` +
		`coalesce(json_extract(?.j, ?.u || '.thoughtsTokenCount'), 0), ` +
		`json_extract(?.j, ?.u || '.thoughtsTokenCount'))`,
	"reasoning_of(": `coalesce(json_extract(?.j, ?.u || '.reasoning_output_tokens'), ` +
		`json_extract(?.j, ?.u || '.reasoning_tokens'), ` +
		`json_extract(?.j, ?.u || '.completion_tokens_details.reasoning_tokens'), ` +
		`json_extract(?.j, ?.u || '.output_tokens_details.reasoning_tokens'), ` +
		`json_extract(?.j, ?.u || '.thoughtsTokenCount'))`,
	"cost_of(": `coalesce(json_extract(?.j, '$.cost_usd'), json_extract(?.j, ?.u || '.cost_usd'))`,
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
