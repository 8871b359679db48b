package runs_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// The views are for people with an sqlite3 of their distribution, so that is what asks here.
func TestViewsOnTheSystemsSQLite(t *testing.T) {
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{Now: dbtest.NewClock(start).Now})
	s := runs.NewStore(d, runs.Options{})
	importTrace(t, d, s, runs.RunRef{AgentID: "a", RunID: "done"}, strings.Join([]string{
		`{"record":"started","run_id":"done","agent_id":"a","intent":"i","started_at":"2021-03-01T08:00:00.5Z"}`,
		`{"record":"turn","index":4,"prompt":"p","tool":"sh","parameters":{"b": 1},"output":[true],"cli_outcome":{"kind":"exited","code":-1},"verifier_verdict":"fail","policy_rejected":{"rule":"no","param":"x"}}`,
		`{"record":"model_turn","index":5}`,
		`{"record":"turn","index":6,"verifier_verdict":"not_run"}`,
		`{"record":"ended","run_id":"done","agent_id":"a","termination":{"kind":"outcome","status":"failure","outcome":{"status":"done","timestamp":"2021-03-01T08:00:02Z"}},"ended_at":"2021-03-01T08:00:02.000001Z"}`,
	}, "\n")+"\n")
	importTrace(t, d, s, runs.RunRef{AgentID: "a", RunID: "odd"},
		`{"record":"started","run_id":"shown","agent_id":"also shown","intent":"","started_at":"1969-12-31T23:59:59.999999999Z"}`+"\n"+
			`{"record":"ended","run_id":"r","agent_id":"a","termination":{"kind":"incomplete"},"ended_at":"+12345-01-01T00:00:00Z"}`+"\n")
	scoped := runs.NewStore(d, runs.Options{Scope: "two"})
	must(t, scoped.WriteStarted(t.Context(), started("open", "b", start)))
	must(t, scoped.AppendTurns(t.Context(), "b", "open", []runs.Turn{turn(0, "p"), turn(1, "q")}))
	must(t, s.AppendTurns(t.Context(), "a", "no start", []runs.Turn{turn(0, "p")}))

	for query, want := range map[string]string{
		`SELECT scope, agent_id, run_id, intent, status, outcome, started_at, ended_at, seconds, turns,
		owner_pid IS NULL AS unowned
		 FROM v_runs ORDER BY run`: `[
			{"scope":"","agent_id":"a","run_id":"done","intent":"i","status":"completed","outcome":"failure","started_at":"2021-03-01T08:00:00.500000000Z","ended_at":"2021-03-01T08:00:02.000001000Z","seconds":1.5,"turns":2,"unowned":1},
			{"scope":"","agent_id":"also shown","run_id":"shown","intent":"","status":"incomplete","outcome":null,"started_at":"1969-12-31T23:59:59.999999999Z","ended_at":"2262-04-11T23:47:16.854775807Z","seconds":9223372036.855,"turns":0,"unowned":1},
			{"scope":"two","agent_id":"b","run_id":"open","intent":"do the thing","status":"in_progress","outcome":null,"started_at":"2026-05-04T08:00:00.000000000Z","ended_at":null,"seconds":null,"turns":2,"unowned":0}]`,
		`SELECT scope, agent_id, run_id, sequence, turn_index, prompt, tool, parameters, output, cli_kind,
		cli_code, verdict, policy_rule, policy_param
		 FROM v_turns WHERE agent_id = 'a' ORDER BY run, sequence`: `[
			{"scope":"","agent_id":"a","run_id":"done","sequence":2,"turn_index":4,"prompt":"p","tool":"sh","parameters":"{\"b\": 1}","output":"[true]","cli_kind":"exited","cli_code":-1,"verdict":"fail","policy_rule":"no","policy_param":"x"},
			{"scope":"","agent_id":"a","run_id":"done","sequence":4,"turn_index":6,"prompt":null,"tool":null,"parameters":null,"output":null,"cli_kind":null,"cli_code":null,"verdict":"not_run","policy_rule":null,"policy_param":null},
			{"scope":"","agent_id":"a","run_id":"no start","sequence":1,"turn_index":0,"prompt":"p","tool":"drive_cli","parameters":"{\"prompt\":\"p\"}","output":"{\"exit_code\":0}","cli_kind":null,"cli_code":null,"verdict":"not_run","policy_rule":null,"policy_param":null}]`,
		`SELECT * FROM v_agents_runs ORDER BY scope, agent_id`: `[
			{"scope":"","agent_id":"a","runs":2,"open":0,"completed":1,"failures":1,"incomplete":1,"cancelled":0,"last_started_at":"2021-03-01T08:00:00.500000000Z","last_started_at_ns":1614585600500000000},
			{"scope":"two","agent_id":"b","runs":1,"open":1,"completed":0,"failures":0,"incomplete":0,"cancelled":0,"last_started_at":"2026-05-04T08:00:00.000000000Z","last_started_at_ns":1777881600000000000}]`,
		`SELECT r.run_id, t.prompt FROM v_runs AS r JOIN v_turns AS t USING (run)
			WHERE r.status = 'in_progress' ORDER BY t.sequence`: `[
			{"run_id":"open","prompt":"p"},{"run_id":"open","prompt":"q"}]`,
	} {
		if got, want := compact(t, sqlite3(t, path, query)), compact(t, []byte(want)); got != want {
			t.Errorf("%s\ngives\n%s, not\n%s", query, got, want)
		}
	}
}

// sqlite3 asks the real program, and gives its JSON.
func sqlite3(t *testing.T, path, query string) []byte {
	t.Helper()
	program, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Fatal("this test needs the sqlite3 program: apt-get install sqlite3")
	}
	out, err := exec.Command(program, "-readonly", "-json", path, query).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", query, err, out)
	}
	return out
}

func compact(t *testing.T, text []byte) string {
	t.Helper()
	var value any
	must(t, json.Unmarshal(text, &value))
	out, err := json.Marshal(value)
	must(t, err)
	return string(out)
}
