//go:build postgres

package docs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/runs"
)

// values are what a member may be, in JSON, of which two engines might think differently.
var values = []string{
	`0`, `-0`, `-0.0`, `1.0`, `0.1`, `1e2`, `1E+2`, `1.5e-7`, `1e300`, `-1e300`, `1e-400`, `1e400`,
	`100000000000000000`, `0.30000000000000004`, `123456.7890123456789`,
	`9007199254740993`, `9223372036854775807`, `9223372036854775808`, `-9223372036854775808`,
	`-9223372036854775809`, `123456789012345678901234567890`,
	`""`, `" "`, `"1"`, `"text"`, `"a\u0000b"`, `"\ud800"`, `"\ude00x"`, `"\ud83d\ude00"`, `"\u00e9\n\"\\"`,
	`"é😀"`, "\"\xff\"", "\"a\xc3\"", "\"\xed\xa0\x80\"", `"\\u0000"`,
	`"2026-05-04T01:02:03Z"`, `"2026-05-04T01:02:03.999999999+02:00"`, `"2026-05-04T01:02:03.9996Z"`,
	`"1969-12-31T23:59:59.9999999Z"`, `"2026-05-04 01:02"`, `"2026-02-30T00:00:00Z"`,
	`true`, `false`, `null`, `[]`, `{}`, `[1, 2.0, 1e2, "a b", "\u00e9"]`, `{"a": 1, "a": 2}`,
	`{"type": "x", "z": [ true ]}`,
}

// otherwise are values of which a file shows something else, as docs/postgres.md says.
var otherwise = []string{`"1"`, `true`, `false`, `"a\u0000b"`, `"\ud800"`, `"\ude00x"`, "\"\xed\xa0\x80\""}

// noExitCodes have a fraction, or are beyond a column of whole numbers. noTimes are days that no month has.
var (
	noExitCodes = []string{
		`0.1`, `1.5e-7`, `1e300`, `-1e300`, `1e400`, `0.30000000000000004`,
		`123456.7890123456789`, `9223372036854775808`, `-9223372036854775809`, `123456789012345678901234567890`,
	}
	noTimes = []string{`"2026-02-30T00:00:00Z"`}
)

// documents are whole ones.
var documents = []string{
	``, ` `, `{}`, `[]`, `null`, `1`, `"x"`, `{"provider":"first","provider":"last"}`,
	`{"usage":{"input_tokens":1},"usage":{"input_tokens":2}}`,
	`{"provider":"x",}`, `{provider:"x"}`, `{'provider':'x'}`, `{"provider":"x"} `, ` {"provider":"x"}`,
	`{"provider":"x"}x`, "\ufeff{\"provider\":\"x\"}", `{"provider":+1}`, `{"provider":.5}`, `{"provider":5.}`,
	`{"provider":01}`, `{"provider":NaN}`, `{"provider":Infinity}`, `{"provider":0x10}`,
	"{\"provider\":\"a\tb\"}", "{\"provider\":\"a\x00b\"}", `{"pro\u0076ider":"escaped"}`,
	`{"":1,"provider":"x"}`,
	`{"meta":{"provider":"m"},"provider":null}`, `{"meta":[{"provider":"m"}]}`, `[{"provider":"x"}]`,
	`{"token_usage":null,"usage":{"input_tokens":3}}`, `{"token_usage":{},"usage":{"input_tokens":3}}`,
	`{"usage":{"total_tokens":30,"output_tokens":10,"input_tokens":15,"cache_read_tokens":5}}`,
	`{"usage":{"total_tokens":"30","output_tokens":10,"input_tokens":15,"cache_read_tokens":5}}`,
	`{"usage":{"total_tokens":30.0,"completion_tokens":1e1,"prompt_tokens":15,"cache_read_tokens":5}}`,
	`{"deep":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `,"provider":"deep"}`,
	`{"deep":` + strings.Repeat("[", 999) + strings.Repeat("]", 999) + `,"provider":"deep"}`,
	`{"deep":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `,"provider":"deeper"}`,
	`{"deep":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `,"provider":"deepest"}`,
	"\xff\xfe", "{\"provider\":\"\xff\"}",
}

// members are where views look.
var members = []string{
	`{"provider":%s}`, `{"meta":{"provider":%s}}`, `{"request_model":%s,"response_model":%[1]s}`,
	`{"model_id":%s}`, `{"action_id":%s,"action_duration_ms":%[1]s}`,
	`{"usage":{"input_tokens":%s,"output_tokens":%[1]s}}`,
	`{"token_usage":{"prompt_tokens":%s,"cache_read_tokens":2,"cache_write_tokens":%[1]s}}`,
	`{"usage":{"total_tokens":%s,"output_tokens":1,"input_tokens":2}}`,
	`{"usage":{"reasoning_tokens":%s,"cost_usd":%[1]s}}`, `{"cost_usd":%s}`,
	`{"tool_name":%s,"tool_call_id":%[1]s,"error_type":%[1]s}`, `{"recorded_at":%s}`,
	`{"name":%s,"id":%[1]s}`, `{"id":"c","exit_code":%s}`, `{"id":"c","error_kind":%s}`,
	`{"text":%s,"summary":%[1]s,"message":%[1]s}`,
}

// looked are the texts of all members and values, and the documents: those of which both engines
// think alike, or all of them.
func looked(alike bool) (all []string) {
	for _, member := range members {
		for _, value := range values {
			number := strings.ContainsAny(value[:1], "-0123456789")
			if alike && (slices.Contains(otherwise, value) ||
				strings.Contains(member, "exit_code") && slices.Contains(noExitCodes, value) ||
				strings.Contains(member, "recorded_at") && (number || slices.Contains(noTimes, value))) {
				continue
			}
			counts := strings.Contains(member, "usage") || strings.Contains(member, "cost_usd")
			if alike && counts && !number {
				continue // what is no number counts in a file
			}
			all = append(all, fmt.Sprintf(member, value))
		}
	}
	for _, text := range documents {
		if !alike || strings.Count(text, "[") < 999 &&
			strings.Count(text, `"provider":`)+strings.Count(text, `"usage":`) < 2 && !strings.Contains(text, `"30"`) {
			all = append(all, text)
		}
	}
	return all
}

// awkward leaves every text in every place where there may be JSON: as a record of a trace, a turn,
// and live events.
func (n *night) awkward(all []string) {
	n.t.Helper()
	n.append(runs.Batch{AgentID: "a", RunID: "r"}, runs.Started{Intent: ""})
	n.create("live", "session")
	n.must(n.db.Write(n.t.Context(), "leave what is awkward", func(tx *db.Tx) error {
		var run, liveRun int64
		if err := tx.Get(&run, `SELECT key FROM runs`); err != nil {
			return err
		}
		if err := tx.Get(&liveRun, `SELECT key FROM live_runs`); err != nil {
			return err
		}
		for i, text := range all {
			if text == "" {
				continue
			}
			id := run<<24 + 2*int64(i)
			if _, err := tx.Exec(`INSERT INTO run_records (id, kind, unknown_kind, raw, exact)
				VALUES (?, 'unknown', 'model_turn', ?, 1)`, id+2, []byte(text)); err != nil {
				return err
			}
			if _, err := tx.Exec(`INSERT INTO run_records (id, kind, turn_index, prompt, tool, parameters, output,
			cli_kind, cli_code, verdict, raw, exact, recorded_at)
VALUES (?, 'turn', ?, ?, ?, ?, ?, 'exited', ?, 'fail', ?, 1,
	?)`, id+3, i, text, text, []byte(text), []byte(text), i%3-1, []byte(text), -int64(i)*1e15); err != nil {
				return err
			}
			kinds := []string{"turn_end", "agent_end", "message"}
			if strings.Contains(text, `"id":`) {
				kinds = []string{"tool_start", "tool_end"}
			}
			for k, kind := range kinds {
				if _, err := tx.Exec(`INSERT INTO live_events (id, sequence, type, recorded_at, event)
					VALUES (?, ?, ?, ?, ?)`, liveRun<<32+int64(10*i+k), 10*i+k, kind, i*k, []byte(text)); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

func TestPostgresAnswersWhatIsAwkwardAsAFile(t *testing.T) {
	for _, alike := range []bool{true, false} {
		n, server := besideAServer(t)
		n.awkward(looked(alike))
		if alike {
			sameAnswers(t, n.db, server, map[string]int{})
			continue
		}
		copied(t, n.db, server)
		for _, view := range views(t, server) { // nobody fails
			rowsOf(t, server, "SELECT * FROM "+view)
		}
	}
}
