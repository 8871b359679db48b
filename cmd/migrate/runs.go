package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"selvedge/db"
	reading "selvedge/internal/usage"
	"selvedge/maintenance"
	"selvedge/runs"
)

// runAnswer is the shape of runs show --json. The records are written as they are read.
type runAnswer struct {
	Summary *runs.RunSummary `json:"summary"` // as in runs list; null for a run without a started record
	// every record of the trace as it was written but for escapes of control characters, those of later
	// versions too; one that came through the API in the original's own encoding. Lines that are no
	// records are left out: quarantine has them
	Records []any `json:"records"`
}

var _ = register("Look:", 30, func(a *app) *cobra.Command {
	return a.group(runNoun, "Look at run traces, pin them, and end those that nobody writes to",
		a.runsListCommand(), a.runsShowCommand(), a.runsTailCommand(), a.runsAdoptCommand())
})

const runWritten = "%[1]s --agent %[2]s"

var runNoun = noun{
	store: maintenance.StoreRuns, entity: "run", some: "a run", written: runWritten,
	owner: "agent", ownerUsage: "the run of the agent `ID`",
	open: func(a *app, d *db.DB) verbs {
		s := a.runStore(d)
		return verbs{
			find:   findOwned(s.Find, func(r runs.RunRef) thing { return thing{r.RunID, r.AgentID} }),
			listed: listedRuns(s),
			pin:    by(runRef, s.Pin), unpin: by(runRef, s.Unpin), remove: by(runRef, s.Delete), recover: s.Recover,
		}
	},
	recovers: &recovery{
		"run", "Give back runs whose lease is over",
		`recover gives back the runs whose holder is gone, or whose lease has ended, so that another process can
resume them. It ends none: adopt does.`,
	},
}

func (a *app) runStore(d *db.DB) *runs.Store { return runs.NewStore(d, runs.Options{Scope: a.scope}) }

func runRef(t thing) runs.RunRef { return runs.RunRef{AgentID: t.owner, RunID: t.id} }

// listedRuns finds runs by the id that lists show. It differs if a started record names another id.
func listedRuns(s *runs.Store) func(context.Context, string, *string) ([]candidate, error) {
	return func(ctx context.Context, prefix string, agent *string) (list []candidate, err error) {
		for r, err := range s.All(ctx, runs.Filter{}) {
			if err != nil {
				return nil, err
			}
			if strings.HasPrefix(r.RunID, prefix) &&
				(agent == nil || r.AgentID == *agent || r.Ref.AgentID == *agent) {
				list = append(list, newCandidate(runWritten, r.RunID, r.AgentID, thing{r.Ref.RunID, r.Ref.AgentID}))
			}
		}
		return list, nil
	}
}

func (a *app) runsListCommand() *cobra.Command {
	filter := runs.Filter{}
	c := &cobra.Command{
		Use: "list [--agent ID] [--status WORD] [--outcome WORD] [--since TIME] [--limit N] [--after CURSOR] " +
			"[--all]",
		Short: "List runs, newest first",
		Long: `list shows the runs of the scope that have a started record, the newest first. Filters add up: a
run must pass all of them. --status and --outcome may be repeated, and mean any of the words then.`,
	}
	a.textFlag(c, &filter.Agent, "agent", "only runs of the agent `ID`")
	wordsFlag(a, c, &filter.Statuses, "status", "only runs in this `STATUS`: ", runStatuses)
	wordsFlag(a, c, &filter.Outcomes, "outcome", "only completed runs with this `OUTCOME`: ", runOutcomes)
	a.sinceFlag(c, &filter.Since, "only runs that started")
	return list(a, c, listing[runs.RunSummary]{
		noun: &runNoun,
		page: func(ctx context.Context, d *db.DB, _ string, at db.At) (db.Page[runs.RunSummary], error) {
			return a.runStore(d).Page(ctx, filter, at)
		},
		grid: grid{
			header: []string{"run", "agent", "started", "took", "status", "turns", "intent", "why"},
			right:  []int{3, 5},
			times:  []int{2}, ids: []int{0, 1}, texts: []int{6, 7}, least: []int{5, 3, 1, 6, 7},
		},
		row: func(s runs.RunSummary) []string {
			return []string{
				s.RunID, s.AgentID, instant(s.StartedAt), duration(s), statusWords(s), strconv.Itoa(s.TurnCount),
				cut(s.Intent, 60), cut(s.Summary, 60),
			}
		},
	})
}

var (
	runStatuses = []runs.RunStatus{
		runs.StatusInProgress, runs.StatusWaiting, runs.StatusCompleted, runs.StatusIncomplete,
		runs.StatusCancelled, runs.StatusCancellationPending,
	}
	runOutcomes = []runs.OutcomeStatus{
		runs.OutcomeSuccess, runs.OutcomePartialSuccess, runs.OutcomeGiveUp, runs.OutcomeTimeout,
		runs.OutcomeFailure, runs.OutcomeDone,
	}
)

// took returns how long an ended run took.
func duration(s runs.RunSummary) string {
	if s.EndedAt == nil {
		return ""
	}
	return s.EndedAt.Sub(s.StartedAt).Round(time.Second).String()
}

func statusWords(s runs.RunSummary) string {
	if s.Outcome == "" {
		return string(s.Status)
	}
	return string(s.Status) + ": " + string(s.Outcome)
}

func (a *app) runsShowCommand() *cobra.Command {
	return a.answering(a.one(runNoun, toRead, &cobra.Command{
		Use:   "show ID",
		Short: "Show a run and its trace",
		Long: `show takes the id of a run, or the beginning of one where no other begins so. Where several agents
have a run of that id, --agent says whose.`,
	}, func(ctx context.Context, d *db.DB, t thing) error {
		store, ref := a.runStore(d), runRef(t)
		summary, err := store.Get(ctx, ref)
		if err != nil {
			return err
		}
		shown := &summary
		if summary.Unstarted {
			shown = nil
		}
		if a.json {
			return a.runJSON(store.Lines(ctx, ref), shown)
		}
		used, err := a.usedBy(ctx, d, ref.RunID)
		if err != nil {
			return err
		}
		return a.printRun(store.Lines(ctx, ref), ref, shown, used)
	}), runAnswer{})
}

// runJSON writes the records as they are in the trace: a JSON encoder would remove blanks and
// change escapes.
func (a *app) runJSON(lines iter.Seq2[runs.TraceRecord, error], summary *runs.RunSummary) error {
	text, err := encodeJSON(summary)
	if err != nil {
		return err
	}
	record := func(line runs.TraceRecord) ([]byte, error) {
		if line.Record == nil {
			return nil, nil
		}
		return line.Line, nil
	}
	return stream(a, fmt.Sprintf(`{"summary":%s,"records":`, text), lines, record, endObject)
}

func (a *app) printRun(lines iter.Seq2[runs.TraceRecord, error], ref runs.RunRef, s *runs.RunSummary,
	used []string,
) error {
	facts := []string{"run", ref.RunID, "agent", ref.AgentID}
	if s != nil {
		ended := "no"
		if s.EndedAt != nil {
			ended = a.when(*s.EndedAt) + ", after " + duration(*s)
		}
		facts = []string{
			"run", s.RunID, "agent", s.AgentID, "intent", s.Intent, "status", statusWords(*s),
			"started", a.when(s.StartedAt), "ended", ended, "turns", strconv.Itoa(s.TurnCount),
		}
	}
	var why string
	g := &grid{header: []string{"line", "record", "tool", "result", "text"}, right: []int{0}, least: []int{0}}
	for line, err := range lines {
		if err != nil {
			return err
		}
		g.add(lineCells(line)...)
		if r, ended := line.Record.(runs.Ended); ended {
			why = ""
			if r.Termination.Outcome != nil {
				why = r.Termination.Outcome.Summary
			}
		}
	}
	if why != "" {
		facts = append(facts, "summary", why)
	}
	a.printSheet(append(facts, used...), g)
	return a.failed
}

// modelTurn is the kind under which later versions record a model's answer.
const modelTurn = "model_turn"

// textWidth is how much of a prompt or a summary people see.
const textWidth = 80

// lineCells returns line, record, tool, result and text of a line of a trace.
func lineCells(line runs.TraceRecord) []string {
	return append([]string{strconv.FormatInt(line.Sequence, 10)}, describeLine(line)...)
}

// describeLine returns record, tool, result and text of a line of a trace.
func describeLine(line runs.TraceRecord) []string {
	switch r := line.Record.(type) {
	case runs.Started:
		return []string{"started", "", "", cut(r.Intent, textWidth)}
	case runs.Turn:
		return []string{
			"turn " + strconv.FormatUint(r.Index, 10), value(r.Tool), turnResult(r),
			cut(value(r.Prompt), textWidth),
		}
	case runs.Ended:
		if r.Termination.Outcome == nil {
			return []string{"ended", "", "incomplete", ""}
		}
		return []string{
			"ended", "", string(cmp.Or(r.Termination.Status, r.Termination.Outcome.Status)),
			cut(r.Termination.Outcome.Summary, textWidth),
		}
	case runs.Unknown:
		if r.Kind == modelTurn {
			u := reading.Of(r.Raw)
			if words := usedOf(u).words(); words != "" {
				return []string{r.Kind, "", value(cmp.Or(u.ResponseModel, u.RequestModel)), words}
			}
		}
		return []string{r.Kind, "", "", cut(string(r.Raw), textWidth)}
	}
	if len(bytes.TrimSpace(line.Line)) == 0 {
		return []string{"(blank)", "", "", ""}
	}
	return []string{"(no record)", "", "", cut(string(line.Line), textWidth)}
}

func turnResult(t runs.Turn) string {
	var words []string
	if o := t.CliOutcome; o != nil {
		word := o.Kind
		if o.Kind == runs.CliExited {
			word = "exit " + strconv.FormatInt(o.Code, 10)
		}
		words = append(words, word)
	}
	if t.VerifierVerdict != runs.VerdictNotRun {
		words = append(words, t.VerifierVerdict.String())
	}
	if t.PolicyRejected != nil {
		words = append(words, "rejected")
	}
	return strings.Join(words, ", ")
}

// value formats what a pointer points at; nil is "".
func value[T any](p *T) string {
	if p == nil {
		return ""
	}
	return fmt.Sprint(*p)
}

// pinAnswer is the shape of pin and unpin --json for runs.
type pinAnswer struct {
	RunID   string `json:"run_id"`   // the run
	AgentID string `json:"agent_id"` // its agent
	Pinned  bool   `json:"pinned"`   // whether it is pinned now
}

type adoptAnswer struct {
	Adopted int `json:"adopted"` // runs that were ended as incomplete
}

func (a *app) runsAdoptCommand() *cobra.Command {
	return a.counting(&cobra.Command{
		Use:   "adopt",
		Short: "End the open runs that nobody writes to any more",
		Long: `adopt ends, as incomplete, the open runs whose process is gone, and those that an import brought.
Runs of processes that still run, stopped ones too, stay with them. Runs that were ever held by a lease, or
that wait for somebody, are left alone: they can be resumed.`,
	}, func(n int) any { return adoptAnswer{n} }, "adopted", "run",
		func(ctx context.Context, d *db.DB) (int, error) { return a.runStore(d).AdoptOrphans(ctx) })
}

// runItem is a line of runs tail --json. The record is written as it is read.
type runItem struct {
	AgentID  string `json:"agent_id"` // agent, as the calls that wrote the run named it
	RunID    string `json:"run_id"`   // run, as they named it
	Sequence int64  `json:"sequence"` // the record's place in the trace, from 1
	Record   any    `json:"record"`   // as in runs show
	Cursor   string `json:"cursor"`   // give it to --from, with the run's ID, to go on behind this record
}

func (a *app) runsTailCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "tail [ID] [--agent ID] [--lines N | --all | --from CURSOR]",
		Short: "Follow a run, or all of them, as records are written",
		Long: `tail prints the last records of a run, and then each as any process writes it, until it is
interrupted; also behind the run's end. Without ID it follows every run of the scope, or of --agent, and
begins with what is new: in each run in the order of its trace. Where several agents have a run of that id,
--agent says whose.

Each record has a cursor, and the hint at the end has that of the last one: --from goes on behind it, in the
same run. A run that is removed, or replaced by an import, ends its tail; all of them together end only
where records went unseen.`,
	}
	c.Flags().String("agent", "", "the run of the agent `ID`; without a run's ID, all of its runs")
	tailCommand(a, c, "records", runNoun.needsID, func(
		ctx context.Context, d *db.DB, args []string, _ tailFlags,
	) (t tailing[runs.RunRef, runs.TraceRecord], err error) {
		store, agent := a.runStore(d), given(c, "agent")
		t = tailing[runs.RunRef, runs.TraceRecord]{
			columns: []column{{"line", 5}, {"record", 9}, {"tool", 16}, {"result", 12}, {"text", 0}},
			row:     lineCells, json: runItemJSON,
		}
		if len(args) == 0 {
			t.follow = func(ctx context.Context, _ string) iter.Seq2[runs.Followed, error] {
				return store.FollowAll(ctx, runs.Filter{Agent: agent})
			}
			t.owners = []column{{"agent", 16}, {"run", 24}}
			t.owner = func(ref runs.RunRef) []string { return []string{ref.AgentID, ref.RunID} }
			t.expired = "a run was removed before all its records were printed; start again to follow those " +
				"that are there"
			return t, nil
		}
		found, err := runNoun.find(ctx, runNoun.open(a, d), args[0], agent)
		ref := runRef(found)
		t.follow = func(ctx context.Context, from string) iter.Seq2[runs.Followed, error] {
			return store.Follow(ctx, ref, from)
		}
		t.before = func(ctx context.Context, n int64) (string, error) { return store.CursorBefore(ctx, ref, n) }
		t.words = []string{"runs", "tail", ref.RunID, "--agent", ref.AgentID}
		t.expired = "retention or an import removed the run; what there is now: " + a.commandLine("runs", "list")
		return t, err
	})
	return a.answering(c, runItem{})
}

func runItemJSON(r runs.Followed) ([]byte, error) {
	line := appendJSON([]byte(`{"agent_id":`), r.Of.AgentID)
	line = appendJSON(append(line, `,"run_id":`...), r.Of.RunID)
	line = strconv.AppendInt(append(line, `,"sequence":`...), r.Item.Sequence, 10)
	line = append(append(line, `,"record":`...), r.Item.Line...)
	return append(appendJSON(append(line, `,"cursor":`...), r.Cursor), '}'), nil
}
