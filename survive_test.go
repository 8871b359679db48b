package selvedge_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"selvedge"
	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// A service is the world outside: it counts what it did for each idempotency key.
type service struct {
	mu     sync.Mutex
	dedups bool
	done   map[string][]string // bodies, by key
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	pause(rand.IntN(10))
	s.mu.Lock()
	key := r.Header.Get("Idempotency-Key")
	if s.done[key] == nil || !s.dedups {
		s.done[key] = append(s.done[key], string(body))
	}
	s.mu.Unlock()
	pause(rand.IntN(10))
	fmt.Fprint(w, `"ok"`)
}

// pause lets some milliseconds pass, in which the program goes on.
func pause(ms int) { <-time.After(time.Duration(ms) * time.Millisecond) }

func (s *service) times(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.done[key])
}

// survive builds the program of docs/survive.md.
func survive(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "survive")
	build := exec.Command("go", "build", "-o", program, "./examples/survive")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// TestSurvive_KillsLoseAndRepeatNothing kills the program at random moments. A person answers, and
// others recover what it left, meanwhile. SELVEDGE_LONG kills ten times as often.
func TestSurvive_KillsLoseAndRepeatNothing(t *testing.T) {
	program := survive(t)
	kills := 12
	if os.Getenv("SELVEDGE_LONG") != "" {
		kills *= 10
	}
	for _, policy := range []selvedge.Policy{selvedge.Retry, selvedge.Ask, selvedge.GiveUp} {
		t.Run(string(policy), func(t *testing.T) {
			outside := &service{dedups: policy == selvedge.Retry, done: map[string][]string{}}
			server := httptest.NewServer(outside)
			defer server.Close()
			path := dbtest.Path(t)
			s := selvedge.On(dbtest.OpenAt(t, path, db.Options{}), selvedge.Options{Agent: "deployer"})
			killed, left := 0, 0
			for run := 0; killed < kills; run++ {
				id := fmt.Sprint("run-", run)
				if out, err := exec.Command(program, path, "submit", id).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				ref := selvedge.Ref{RunID: id}
				for ended(t, s, id) == "" {
					var workers []*dbtest.Process
					for range 2 {
						command := exec.Command(program, path, "work", server.URL)
						command.Env = append(os.Environ(), "POLICY="+string(policy))
						workers = append(workers, dbtest.StartCommand(t, command))
					}
					deadline := time.Now().Add(time.Duration(20+rand.IntN(200)) * time.Millisecond)
					for time.Now().Before(deadline) && ended(t, s, id) == "" {
						person(t, s, ref, outside)
						pause(3)
					}
					for _, worker := range workers {
						worker.Kill()
						killed++
					}
					others(t, s)
				}
				left += judge(t, s, ref, policy, outside)
			}
			t.Logf("%d kills, %d effects not done", killed, left)
		})
	}
}

// ended returns the outcome of a run, or "".
func ended(t *testing.T, s *selvedge.Store, id string) string {
	t.Helper()
	r, err := runs.NewStore(s.DB(), runs.Options{}).Get(ctx, selvedge.Ref{AgentID: "deployer", RunID: id})
	ok(t, err)
	if r.EndedAt == nil {
		return ""
	}
	return string(r.Status)
}

// person answers what waits: about an effect, by what the service did.
func person(t *testing.T, s *selvedge.Store, ref selvedge.Ref, outside *service) {
	t.Helper()
	needs, err := s.NeedsMe(ctx, selvedge.Filter{}, db.At{})
	ok(t, err)
	for _, step := range needs.Items {
		answer := selvedge.Answer{Decision: "approved", By: "ann"}
		if step.Kind == selvedge.StepEffect {
			// The killed program's request may still be on its way.
			pause(30)
			switch answer.Decision = "retry"; {
			case outside.times(step.IdempotencyKey) > 0:
				answer.Decision, answer.Fields = "done", json.RawMessage(`"seen"`)
			case rand.IntN(2) == 0:
				answer.Decision = "give_up"
			}
		}
		ok(t, s.Answer(ctx, ref, step.Key, answer))
	}
}

// others does what other programs do meanwhile.
func others(t *testing.T, s *selvedge.Store) {
	t.Helper()
	traces := runs.NewStore(s.DB(), runs.Options{})
	_, err := traces.Recover(ctx)
	ok(t, err)
	_, err = traces.AdoptOrphans(ctx)
	ok(t, err)
	_, err = maintenance.Recover(ctx, s.DB())
	ok(t, err)
}

// judge compares what is recorded of a run with what the service did. It returns how many effects
// were not done.
func judge(t *testing.T, s *selvedge.Store, ref selvedge.Ref, policy selvedge.Policy, outside *service,
) (left int) {
	t.Helper()
	records, _, err := runs.NewStore(s.DB(), runs.Options{}).GetRunTrace(ctx, ref.RunID)
	ok(t, err)
	if len(records) != 10 {
		t.Fatalf("%s has %d records, want a start, 8 turns and an end", ref.RunID, len(records))
	}
	steps := map[string]selvedge.Step{}
	page, err := s.Steps(ctx, ref, db.At{})
	ok(t, err)
	for _, step := range page.Items {
		steps[step.Key] = step
	}
	if len(steps) != 17 {
		t.Errorf("%s has %d steps, want 8 replies, 8 effects and a question", ref.RunID, len(steps))
	}
	for n := range 8 {
		turn := records[n+1].(runs.Turn)
		var reply selvedge.Reply
		ok(t, json.Unmarshal(steps[fmt.Sprint("turn-", n)].Result, &reply))
		effect := steps[fmt.Sprint("post-", n)]
		if turn.Index != uint64(n) || string(turn.Parameters) != string(reply.Args) ||
			string(effect.Request) != string(reply.Args) || reply.Usage.InputTokens == nil {
			t.Errorf("%s: turn %d has %s, its reply %s, its effect %s", ref.RunID, n, turn.Parameters, reply.Args,
				effect.Request)
		}
		times := outside.times(effect.IdempotencyKey)
		switch {
		case effect.State == selvedge.StepGivenUp && times <= 1 && policy != selvedge.Retry:
			left += 1 - times
		case effect.State != selvedge.StepDone || times != 1:
			t.Errorf("%s: effect %d is %s and was done %d times", ref.RunID, n, effect.State, times)
		}
		if got := outside.done[effect.IdempotencyKey]; len(got) == 1 && got[0] != string(reply.Args) {
			t.Errorf("%s: effect %d sent %s", ref.RunID, n, got[0])
		}
	}
	if gate := steps["gate"]; gate.Decision != "approved" || gate.SettledBy != "ann" {
		t.Errorf("%s: the gate is %+v", ref.RunID, gate)
	}
	return left
}
