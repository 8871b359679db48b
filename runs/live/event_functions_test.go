package live_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"selvedge/db"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

func counted(input, output uint64, cacheRead, cacheWrite *uint64) db.Usage {
	return db.Usage{
		InputTokens: &input, OutputTokens: &output,
		CacheReadInputTokens: cacheRead, CacheWriteInputTokens: cacheWrite,
	}
}

// constructed are events with the values of testdata/legacy/live/events.jsonl, which the original wrote.
var constructed = []live.Event{
	live.AgentStart("fix tests"),
	live.EventOf(live.AgentModeChanged{Mode: "plan", Agent: "planner", Description: "plans before it edits"}),
	live.TurnStart(1),
	live.TextDelta("I will look at the parser.\n\"quoted\" \a😀"),
	live.ReasoningDelta("the buffer is copied twice"),
	live.ToolStart("toolu_01", "read"),
	live.ToolInputDelta(`{"file_path":"src/pa`),
	live.EventOf(live.ToolEnd{ID: "toolu_01", Name: "read", Output: "fn main() {}\n"}),
	live.EventOf(live.ToolEnd{
		ID: "toolu_02", Name: "bash", Output: "error: no such file\n", ExitCode: -1,
		Metadata: json.RawMessage(` {"after":{"a":[1,2.5,null],"b":1},"cwd":"workspace"} `),
	}),
	live.EventOf(live.ToolOutputDelta{ID: "toolu_02", Name: "bash", Delta: "Compiling\n"}),
	live.TurnEnd(1, counted(2410, 188, new(uint64(1200)), new(uint64(0)))),
	live.AgentEnd("done"),
	live.EventOf(fullEnd),
	live.ErrorEvent("rate limited"),
	live.EventOf(live.ConfirmationRequired{
		ToolID: "toolu_03", ToolName: "write", Args: json.RawMessage(`{"content":"x","path":"a.txt"}`),
		TimeoutMs: 30000,
	}),
	live.EventOf(live.ConfirmationReceived{ToolID: "toolu_03", Approved: true}),
	live.EventOf(live.ConfirmationReceived{ToolID: "toolu_03", Reason: new("not now")}),
	live.ConfirmationTimeout("toolu_03", "rejected"),
	live.EventOf(live.ExternalTaskPending{
		TaskID: "ext-1", SessionID: "session-1", Lane: "Execute", CommandType: "bash",
		Payload: json.RawMessage(`{"command":"make"}`), TimeoutMs: 60000,
	}),
	live.EventOf(live.ExternalTaskPending{
		TaskID: "ext-2", SessionID: "session-1", Lane: "Control", CommandType: "pause",
	}),
	live.EventOf(live.ExternalTaskPending{
		TaskID: "ext-3", SessionID: "session-1", Lane: "Query", CommandType: "grep",
		Payload: json.RawMessage(`[]`), TimeoutMs: 1,
	}),
	live.EventOf(live.ExternalTaskPending{
		TaskID: "ext-4", SessionID: "session-1", Lane: "Generate", CommandType: "llm",
		Payload: json.RawMessage(`"x"`), TimeoutMs: math.MaxUint64,
	}),
	live.EventOf(live.ExternalTaskCompleted{TaskID: "ext-1", SessionID: "session-1", Success: true}),
	live.EventOf(live.PermissionDenied{
		ToolID: "toolu_04", ToolName: "bash", Args: json.RawMessage(`{"command":"rm -rf /"}`),
		Reason: "denied by policy",
	}),
	live.ContextResolving("memory", "files"),
	live.ContextResolved(4, 1800),
	live.EventOf(live.CommandDeadLettered{
		CommandID: "cmd-1", CommandType: "bash", Lane: "execute", Error: "timeout", Attempts: 3,
	}),
	live.EventOf(live.CommandRetry{
		CommandID: "cmd-1", CommandType: "bash", Lane: "execute", Attempt: 1, DelayMs: 250,
	}),
	live.EventOf(live.QueueAlert{Level: "warning", AlertType: "depth", Message: "queue depth 40"}),
	live.TaskUpdated("session-1",
		live.Task{ID: "1", Content: "read", Status: "pending", Priority: "medium"},
		live.Task{ID: "2", Content: "edit", Status: "completed", Priority: "low"},
		live.Task{ID: "3", Content: "skip", Status: "skipped", Priority: "medium"},
		live.Task{ID: "4", Content: "fail", Status: "failed", Priority: "medium"},
		live.Task{ID: "5", Content: "stop", Status: "cancelled", Priority: "medium"}),
	live.EventOf(live.MemoryStored{
		MemoryID: "mem-1", MemoryType: "semantic", Importance: 0.8, Tags: []string{"rust"},
	}),
	live.EventOf(live.MemoryRecalled{
		MemoryID: "mem-1", Content: "the parser is hand-written", Relevance: 0.9123457,
	}),
	live.EventOf(live.MemoriesSearched{Query: new("parser"), ResultCount: 2}),
	live.EventOf(live.MemoriesSearched{Tags: []string{"rust"}}),
	live.MemoryCleared("short_term", 12),
	live.EventOf(live.SubagentStart{
		TaskID: "task-1", SessionID: "session-1-sub", ParentSessionID: "session-1", Agent: "explore",
		Description: "find the callers",
	}),
	live.EventOf(live.SubagentProgress{
		TaskID: "task-1", SessionID: "session-1-sub", Status: "running",
		Metadata: json.RawMessage(`{"files":12}`),
	}),
	live.EventOf(live.SubagentEnd{
		TaskID: "task-1", SessionID: "session-1-sub", Agent: "explore", Output: "3 callers", Success: true,
	}),
	live.PlanningStart("fix tests"),
	live.PlanningEnd(live.Plan{
		Goal: "make the parser stream", Steps: []live.Task{
			{ID: "step-1", Content: "read the parser", Status: "pending", Priority: "medium"},
			{
				ID: "step-2", Content: "replace the buffer", Status: "in_progress", Priority: "high", Tool: "edit",
				Dependencies: []string{"step-1"}, SuccessCriteria: "tests pass",
			},
		}, Complexity: "Medium", RequiredTools: []string{"edit", "bash"}, EstimatedSteps: 2,
	}, 2),
	live.PlanningEnd(live.Plan{Goal: "nothing", Complexity: "VeryComplex"}, 0),
	live.EventOf(live.StepStart{StepID: "step-1", Description: "read the parser", StepNumber: 1, TotalSteps: 2}),
	live.EventOf(live.StepEnd{StepID: "step-1", Status: "completed", StepNumber: 1, TotalSteps: 2}),
	live.GoalExtracted(goal),
	live.GoalExtracted(reached),
	live.EventOf(live.GoalProgress{Goal: "stream the parser", Progress: 0.5, CompletedSteps: 1, TotalSteps: 2}),
	live.EventOf(live.GoalAchieved{Goal: "stream the parser", TotalSteps: 2, DurationMs: 90500}),
	live.EventOf(live.ContextCompacted{
		SessionID: "session-1", BeforeMessages: 80, AfterMessages: 12, PercentBefore: 0.83,
	}),
	live.EventOf(live.PersistenceFailed{SessionID: "session-1", Operation: "save", Error: "disk full"}),
	live.EventOf(live.BtwAnswer{
		Question: "which file?", Answer: "src/parser.rs", Usage: counted(10, 5, nil, nil),
	}),
}

var (
	fullEnd = live.End{
		Text: "done",
		Usage: db.Usage{
			Provider: new("anthropic"), RequestModel: new("claude-sonnet"), ResponseModel: new("claude-sonnet"),
			InputTokens: new(uint64(2410)), OutputTokens: new(uint64(188)),
			CacheReadInputTokens: new(uint64(1200)), CacheWriteInputTokens: new(uint64(0)),
		},
		Verification: live.Verification{
			Status: "needs_review", ReportCount: 2, RequiredCheckCount: 3, PendingRequiredCheckCount: 1,
			FailedCheckCount: 1, ResidualRiskCount: 1,
			PendingSubjects: []string{"src/parser.rs"}, FailedSubjects: []string{"cargo test"},
		},
		Meta: live.ResponseMeta{
			RequestURL: "https://example.invalid/v1/messages", ResponseID: "msg_01", ResponseObject: "message",
			FirstTokenMs: new(uint64(412)), DurationMs: new(uint64(5120)),
		},
	}
	goal = live.Goal{
		Description: "stream the parser", SuccessCriteria: []string{"tests pass", "memory is flat"},
		Progress: 0.25, CreatedAt: 1780000000,
	}
	reached = live.Goal{
		Description: goal.Description, SuccessCriteria: goal.SuccessCriteria, Progress: 0.25,
		CreatedAt: 1780000000, AchievedAt: new(int64(1780000100)),
	}
)

func TestEvents_EqualTheOriginalsBytes(t *testing.T) {
	written, err := os.ReadFile("../../testdata/legacy/live/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(written)) {
		if !strings.Contains(line, `"meta":{}`) { // End leaves an empty meta out
			want = append(want, strings.TrimSpace(line))
		}
	}
	if len(want) != len(constructed) {
		t.Fatalf("%d events, want %d", len(constructed), len(want))
	}
	for i, e := range constructed {
		if got := string(e.JSON()); got != want[i] {
			t.Errorf("constructed: %s\noriginal:    %s", got, want[i])
		}
	}
}

func TestEvents_EveryTypeHasAConstructor(t *testing.T) {
	known, members := live.EventMembers(), map[string][]string{}
	for _, e := range constructed {
		again, err := live.NewEvent(e.JSON())
		if err != nil || again.Type() != e.Type() {
			t.Errorf("%s: NewEvent reads a %s, %v", e.JSON(), again.Type(), err)
		}
		var seen map[string]any
		if err := json.Unmarshal(e.JSON(), &seen); err != nil {
			t.Fatal(err)
		}
		names := slices.DeleteFunc(slices.Clone(known[e.Type()]), func(name string) bool {
			_, there := seen[name]
			return !there
		})
		if len(seen) != 1+len(names) {
			t.Errorf("%s has unknown members", e.JSON())
		}
		if len(names) >= len(members[e.Type()]) {
			members[e.Type()] = names
		}
	}
	for kind, names := range known {
		if !slices.Equal(members[kind], names) || len(names) == 0 {
			t.Errorf("%s: the constructor writes %v, want %v", kind, members[kind], names)
		}
	}
}

func TestEvent_WrongValueIsRefused(t *testing.T) {
	store := live.NewStore(dbtest.Open(t, db.Options{}), live.Options{})
	if _, err := store.ReserveRunWithID(t.Context(), "r", "s", ""); err != nil {
		t.Fatal(err)
	}
	deep := json.RawMessage(strings.Repeat("[", 124) + strings.Repeat("]", 124))
	for name, e := range map[string]live.Event{
		"unknown word":     live.EventOf(live.StepEnd{StepID: "s", Status: "gone"}),
		"invalid UTF-8":    live.ToolStart("\xff", "read"),
		"delta's UTF-8":    live.ReasoningDelta("\xff"),
		"two JSON values":  live.EventOf(live.PermissionDenied{Args: json.RawMessage(`1,"args":2`)}),
		"no JSON":          live.EventOf(live.ToolEnd{Metadata: json.RawMessage("{")}),
		"nested too deep":  live.EventOf(live.ToolEnd{Metadata: deep}),
		"a cost of NaN":    live.TurnEnd(1, db.Usage{CostUSD: new(math.NaN())}),
		"no type":          {},
		"turn of no delta": live.AgentStart("x").In(1, 1),
		"turn of UTF-8":    live.TextDelta("\xff").In(1, 1),
		"turn of nothing":  live.Event{}.In(1, 1),
		"turn twice":       live.TextDelta("x").In(1, 1).In(2, 1),
		"turn of an error": live.EventOf(live.ToolOutputDelta{ID: "\xff"}).In(2, 1),
	} {
		_, err := store.Append(t.Context(), "r", live.Batch{Events: []live.Event{live.TurnStart(1), e}})
		if e, ok := errors.AsType[*db.Error](err); !errors.Is(err, db.ErrInvalid) || !ok || e.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := json.Marshal(e); e.JSON() == nil && e.Type() != "" && !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%s: as JSON: %v", name, err)
		}
	}
}

// Usage that an event is made with is what it reports.
func TestEventUsage_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count, text := rapid.Ptr(rapid.Uint64(), true), rapid.Ptr(rapid.String(), true)
		u := db.Usage{
			Provider: text.Draw(t, "provider"), RequestModel: text.Draw(t, "request"),
			ResponseModel: text.Draw(t, "response"),
			InputTokens:   count.Draw(t, "in"), OutputTokens: count.Draw(t, "out"),
			CacheReadInputTokens: count.Draw(t, "read"), CacheWriteInputTokens: count.Draw(t, "write"),
			ReasoningOutputTokens: count.Draw(t, "reasoning"),
			CostUSD:               rapid.Ptr(rapid.Float64(), true).Draw(t, "cost"),
		}
		if u.CostUSD != nil {
			u.CostSource = "reported"
		}
		for _, e := range []live.Event{
			live.TurnEnd(1, u), live.EventOf(live.End{Usage: u}),
			live.EventOf(live.End{Usage: u, Meta: live.ResponseMeta{ResponseID: "x"}}),
		} {
			if got := e.Usage(); !reflect.DeepEqual(got, u) {
				t.Fatalf("%s", e.JSON())
			}
		}
	})
}

func TestDelta_CarriesItsTurnAndAttempt(t *testing.T) {
	for _, e := range []live.Event{
		live.TextDelta("a"), live.ReasoningDelta("b"), live.ToolInputDelta("c"),
		live.EventOf(live.ToolOutputDelta{ID: "t", Name: "bash", Delta: "d"}),
	} {
		if _, _, ok := e.Turn(); ok {
			t.Errorf("%s has a turn", e.JSON())
		}
		in := e.In(3, 1<<63)
		if turn, attempt, ok := in.Turn(); !ok || turn != 3 || attempt != 1<<63 {
			t.Errorf("%s: %d, %d, %v", in.JSON(), turn, attempt, ok)
		}
		if other := e.In(4, 2); string(in.JSON()) == string(other.JSON()) || in.Type() != e.Type() {
			t.Errorf("%s and %s", in.JSON(), other.JSON())
		}
	}
	for _, text := range []string{
		`{"type":"text_delta","text":"a","turn":1}`, `{"type":"text_delta","text":"a","turn":1,"attempt":-1}`,
		`{"type":"text_delta","text":"a","turn":"1","attempt":1}`, `{"type":"other","turn":1,"attempt":1}`,
	} {
		e, err := live.NewEvent([]byte(text))
		if _, _, ok := e.Turn(); ok || err != nil {
			t.Errorf("%s: a turn, %v", text, err)
		}
	}
}
