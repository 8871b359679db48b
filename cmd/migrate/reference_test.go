package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/runs"
	"selvedge/runs/live"
)

var update = flag.Bool("update", false, "write the reference into docs/CLI.md")

const (
	cliDoc         = "../../docs/CLI.md"
	referenceBegin = "<!-- From here on made by: go generate ./cmd/migrate -->\n"
)

// answers are the values that commands print with --json, by command.
func answers() map[string]any {
	a := &app{stdout: os.Stdout, stderr: os.Stderr}
	byName := map[string]any{}
	for _, c := range commands(newRootCommand(a)) {
		if answer, ok := a.answers[c]; ok {
			byName[commandName(c)] = answer
		}
	}
	return byName
}

// agentFields are those of an entry.
var agentFields = []documented{
	{"session_id", "text", "the agent's id"},
	{"client_instance_id", "text", "client program; like all that follow but for those marked \"always\", " +
		"left out where nobody gave it"},
	{"native_actor_key", "text", "the harness's own name for the agent"},
	{"native_parent_actor_key", "text", "and for the one that started it"},
	{"native_instance_key", "text", "the harness's own name for its instance"},
	{"heddle_session_id", "text", "session of the program that kept the registry"},
	{"thread_id", "text", "id of the thread"},
	{"thread", "text", "the line of work it writes to; always"},
	{"pid", "number", "process whose death ends the agent"},
	{"boot_id", "text", "of the machine's start that pid belongs to"},
	{"liveness_path", "text", "a note"},
	{"heartbeat_at", "time", ""},
	{"anchor_state", "text", "state the work is anchored to"},
	{"anchor_root", "text", "its root"},
	{"reservation_token", "text", "a note"},
	{"path", "text", "worktree"},
	{"base_state", "text", "state the work began from; always"},
	{"started_at", "time", "always"},
	{"provider", "text", "of the model"},
	{"model", "text", "its name"},
	{"harness", "text", "program the agent runs in"},
	{"thinking_level", "text", "as the harness names it"},
	{"usage_summary", "object", "always"},
	{"usage_summary.input_tokens", "number", "tokens read; left out where nobody counted"},
	{"usage_summary.output_tokens", "number", "tokens written; left out where nobody counted"},
	{"usage_summary.reasoning_tokens", "number", "tokens of reasoning; left out where nobody counted"},
	{"usage_summary.tool_calls", "number", "calls of tools; left out where nobody counted"},
	{"usage_summary.cost_micros_usd", "number", "millionths of a US dollar"},
	{"last_progress_at", "time", ""},
	{"report_flush_state", "text", "as the harness bridge names it"},
	{"attach_reason", "text", "what the agent is for"},
	{"attach_precedence", "array", "texts: the rules that were tried; always"},
	{"winning_attach_rule", "text", "the rule that won"},
	{"probe_source", "text", "where the rule got its facts"},
	{"probe_confidence", "number", "0 to 1 by custom"},
	{"status", "text", "active, abandoned, complete or merged; always"},
	{"completed_at", "time", ""},
	{"context_queries", "array", "looks at context, in their order; always"},
	{"context_queries[].path", "text", "file that was looked at; always"},
	{"context_queries[].scope", "text", "part of it; left out for the whole"},
	{"context_queries[].queried_at", "time", "always"},
}

// written are the fields of types that write their own JSON.
var written = map[reflect.Type][]documented{
	reflect.TypeFor[runs.RunSummary](): {
		{"run_id", "text", "of the last started record"},
		{"agent_id", "text", "of the last started record"},
		{"intent", "text", "what the run was meant to achieve"},
		{"started_at", "time", ""},
		{"ended_at", "time", "left out while the run is open"},
		{"status", "text", "in_progress, completed, incomplete; from later versions of the original also " +
			"cancelled, cancellation_pending"},
		{"turn_count", "number", "turns in the trace"},
	},
	reflect.TypeFor[live.RunSnapshot](): {
		{"id", "text", "the run's id"},
		{"session_id", "text", "the session that the run belongs to"},
		{"status", "text", "created, planning, executing, verifying, completed, failed or cancelled"},
		{"prompt", "text", "what the run was asked to do"},
		{"created_at_ms", "number", "Unix milliseconds"},
		{"updated_at_ms", "number", "Unix milliseconds of the last event or mark"},
		{"result_text", "text", "what it answered; left out while there is nothing"},
		{"error", "text", "what went wrong; left out where nothing did"},
		{"event_count", "number", "events recorded in all, and the next one's sequence. Members of later " +
			"versions follow as they came"},
	},
	reflect.TypeFor[checkpoints.Summary](): {
		{"run_id", "text", "the run"},
		{"paused_stage_id", "text or null", "approval stage that it waits at; null where the document can't be " +
			"read, as in the next two"},
		{"prompt", "text or null", "what the person is asked"},
		{"created_at", "time or null", "when the run paused"},
		{"contested", "text", "what the old program did to the run since it was imported: it can't be claimed " +
			"until imports resolve; left out where nothing is to be decided"},
	},
	reflect.TypeFor[agents.Entry](): agentFields,
	reflect.TypeFor[agentItem](): append(slices.Clip(agentFields), documented{
		"contested", "text", "what the old program did to it since it was imported; left out where nothing is " +
			"to be decided",
	}),
}

// elsewhere says what the fields of types in other packages mean.
var elsewhere = map[string]string{
	"Report.source":      "the folder, absolute, links resolved",
	"Report.kind":        "what KIND calls it; auto for the sum of several",
	"Report.scope":       "the scope worked in; empty is the default one",
	"Report.counts":      "by kind of record",
	"Report.files":       "counts of files",
	"Report.quarantined": "what this call put into quarantine, or met there again",
	"Report.differs":     "what differs between folder and file, and was left as it is",
	"Report.followed": "what the old program has claimed, finished or removed since it was imported, " +
		"and so is here now",
	"Report.left_out": "what an export could not write, or the old program can't read, with line " +
		"and reason",
	"Report.apart": "live: files whose runs went into a scope of their own, since the tree has " +
		"others under their ids",
	"Report.ignored": "files of the folder that the old program does not read either",
	"Report.unknown": "verify: what lies in the folder and is in no store; of a folder nothing of " +
		"which is read only the folder",
	"Report.truncated": "further entries of the lists: each holds at most 1,000",
	"Report.proof":     "verify: what was proved; left out by the others",
	"Proof.sha256": "of a list with a line for each file that was read, sorted by path: its SHA-256 " +
		"in hex, its size in bytes and its path below source, with a space between each",
	"Proof.files":       "number of files in that list",
	"Proof.bytes":       "bytes of those files",
	"Proof.whole":       "all of the folder is in the file: nothing differs, is in quarantine or in no store",
	"Proof.line":        "the same in a sentence",
	"Count.read":        "records met; the sum of the other four",
	"Count.new":         "import: brought in; verify: not in the file; export: written",
	"Count.already":     "there, and the same",
	"Count.changed":     "differ from what was imported before",
	"Count.quarantined": "not taken as records",
	"Files.found":       "that hold, or should hold, records",
	"Files.new":         "not imported before; export: written",
	"Files.grown":       "have more records than when they were imported last",
	"Files.already":     "as they were",
	"Files.changed":     "differ from what was imported",
	"Files.refused":     "their id is there from elsewhere with other content: in quarantine",
	"Files.unreadable":  "could not be read, or not to the end",
	"Files.ignored":     "not read by the old program either",
	"Files.gone": "imported before and no longer in the folder; what was imported of runs, workers " +
		"and live runs stays",
	"Files.bytes":   "of the files read",
	"Remark.file":   "relative to the folder; bytes that are no UTF-8 are shown as \\xFF",
	"Remark.reason": "what is to be said about it",
	"Report.readable": "export: of every file, whether the old program can read it; those that it can't " +
		"are in left_out, too",
	"Readability.file":     "below the folder; bytes that are no UTF-8 are shown as \\xFF",
	"Readability.readable": "by the old program",
	"Readability.line":     "where it stumbles, from 1; 0 if it does not, or at the file as a whole",
	"Readability.reason":   "why it can't read the file",

	"Entry.id":     "number of the import, for imports show",
	"Entry.scope":  "the scope that it brought the tree into",
	"Entry.kind":   "kind of the tree",
	"Entry.source": "the folder, absolute",
	"Entry.outcome": "complete, partial (something was quarantined or differs), stopped (by its caller), " +
		"failed, running, or killed (its process is gone)",
	"Entry.began_at": "RFC 3339, UTC",
	"Entry.ended_at": "RFC 3339, UTC; null while it runs, and where it was killed",
	"Entry.pid":      "process that imported",
	"Entry.user":     "whose process it was",
	"Entry.program":  "name and version of that program",
	"Entry.counts":   "by kind of record, as the import answered; empty while it runs, and where it was killed",
	"Entry.files":    "counts of files, as the import answered",
	"Entry.error":    "what it failed with; empty where it did not",

	"Conflict.id":       "number of the conflict",
	"Conflict.scope":    "the scope of the import",
	"Conflict.kind":     "kind of the tree: agents or checkpoints",
	"Conflict.entity":   "the agent, or the run that paused",
	"Conflict.source":   "the folder, absolute",
	"Conflict.file":     "relative to the folder; bytes that are no UTF-8 are shown as \\xFF",
	"Conflict.import":   "number of the import that found it first, for imports show",
	"Conflict.reason":   "what the old program did since it was imported",
	"Conflict.found_at": "RFC 3339, UTC",
	"Conflict.decision": "null while nobody has decided",
	"Decision.take":     "whose version was taken: old or ours",
	"Decision.at":       "RFC 3339, UTC",
	"Decision.pid":      "process that decided",
	"Decision.user": "whose process it was; for a move that an import could follow after all, that of " +
		"the import",
	"Decision.program": "name and version of that program",

	"Item.value":   "as it was set, without the blanks between its parts",
	"Item.version": "names this write of the value, for set --if",

	"Retried.id":     "number of the piece",
	"Retried.file":   "relative to its folder; bytes that are no UTF-8 are shown as \\xFF",
	"Retried.taken":  "whether it was taken, and left the quarantine",
	"Retried.reason": "why not; empty where it was",

	"Quarantined.id":          "number of the piece, for quarantine show",
	"Quarantined.scope":       "the scope of the import",
	"Quarantined.kind":        "kind of the tree",
	"Quarantined.source":      "the folder, absolute",
	"Quarantined.file":        "relative to the folder; bytes that are no UTF-8 are shown as \\xFF",
	"Quarantined.byte_offset": "where in the file the piece begins",
	"Quarantined.what":        "line, tail (a line without its end), file, conflict or name",
	"Quarantined.reason":      "why it was not taken",
	"Quarantined.group":       "whose it would be: for a run its agent; null where that is not known",
	"Quarantined.entity":      "what it would belong to: for a run its id; null where that is not known",
	"Quarantined.bytes":       "how many bytes are kept",
	"Quarantined.found_at":    "when it was put there, RFC 3339, UTC",
}

type documented struct{ path, kind, meaning string }

// fieldsOf lists the members of a JSON answer, by their paths.
func fieldsOf(t reflect.Type, at string) []documented {
	if own, ok := written[t]; ok {
		var list []documented
		for _, f := range own {
			list = append(list, documented{at + f.path, f.kind, f.meaning})
		}
		return list
	}
	var list []documented
	for f := range t.Fields() {
		if f.Anonymous {
			list = append(list, fieldsOf(f.Type, at)...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		typeName, _, _ := strings.Cut(t.Name(), "[")
		meaning := cmp.Or(elsewhere[typeName+"."+name], fieldComments()[typeName+"."+name])
		if strings.Contains(options, "omitempty") && !strings.Contains(meaning, "only") {
			meaning += "; left out where it is empty"
		}
		word, inner, step := shape(f.Type)
		list = append(list, documented{at + name, word, meaning})
		if inner != nil && at+name != "parts" {
			list = append(list, fieldsOf(inner, at+name+step)...)
		}
	}
	return list
}

// fieldComments are the comments on the fields of answers, here and in the packages whose types they
// show, by type and name in JSON.
var fieldComments = sync.OnceValue(func() map[string]string {
	comments := map[string]string{}
	names, err := filepath.Glob("*.go")
	for _, shared := range []string{
		".", "agents", "checkpoints", "db", "internal/engine", "internal/moving", "legacy", "maintenance",
		"query", "search", "state", "web",
	} {
		more, _ := filepath.Glob("../../" + shared + "/*.go")
		names = append(names, more...)
	}
	for _, name := range names {
		var file *ast.File
		if file, err = parser.ParseFile(gotoken.NewFileSet(), name, nil, parser.ParseComments); err != nil {
			break
		}
		ast.Inspect(file, func(n ast.Node) bool {
			declared, isType := n.(*ast.TypeSpec)
			if !isType {
				return true
			}
			fields, isStruct := declared.Type.(*ast.StructType)
			if !isStruct {
				return false
			}
			for _, f := range fields.Fields.List {
				if f.Tag == nil {
					continue
				}
				tag, _ := strconv.Unquote(f.Tag.Value)
				member, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
				comments[declared.Name.Name+"."+member] = strings.Join(strings.Fields(f.Doc.Text()+f.Comment.Text()), " ")
			}
			return false
		})
	}
	if err != nil {
		panic(err)
	}
	return comments
})

// shape is the word for a type, and the type of what is inside with the step to it.
func shape(t reflect.Type) (word string, inner reflect.Type, step string) {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "time", nil, ""
	case t == reflect.TypeFor[[]byte]():
		return "text", nil, ""
	case t == reflect.TypeFor[json.RawMessage]():
		return "any", nil, ""
	case written[t] != nil:
		return "object", t, "."
	}
	switch t.Kind() {
	case reflect.Pointer:
		word, inner, step = shape(t.Elem())
		return word + " or null", inner, step
	case reflect.String:
		return "text", nil, ""
	case reflect.Bool:
		return "true or false", nil, ""
	case reflect.Slice:
		if e := t.Elem(); e.Kind() == reflect.Struct && e != reflect.TypeFor[time.Time]() {
			return "list", e, "[]."
		}
		return "list", nil, ""
	case reflect.Map:
		return "object", t.Elem(), ".NAME."
	case reflect.Struct:
		return "object", t, "."
	case reflect.Interface:
		return "any", nil, ""
	default:
		return "number", nil, ""
	}
}

// commands are those that do something, with the words that name them.
func commands(root *cobra.Command) (list []*cobra.Command) {
	for _, c := range root.Commands() {
		if c.HasSubCommands() {
			list = append(list, commands(c)...)
			continue
		}
		list = append(list, c)
	}
	return list
}

func commandName(c *cobra.Command) string { return strings.TrimPrefix(c.CommandPath(), "migrate ") }

// reference is the part of docs/CLI.md that is made from the program.
func reference() string {
	root := newRootCommand(&app{stdout: os.Stdout, stderr: os.Stderr})
	var b strings.Builder
	b.WriteString("\n## Every command\n\n### Flags that all have\n\n")
	writeFlags(&b, root.PersistentFlags())
	shown, answers := map[reflect.Type]string{}, answers()
	for _, g := range root.Groups() {
		for _, top := range root.Commands() {
			if top.GroupID != g.ID {
				continue
			}
			for _, c := range append(commands(top), top) {
				if c.HasSubCommands() {
					continue
				}
				writeCommand(&b, c, answers, shown)
			}
		}
	}
	b.WriteString("### An error with --json\n\n")
	writeAnswer(&b, errorAnswer{})
	return b.String()
}

// writeCommand tells the fields of an answer once; shown has the command where it did.
func writeCommand(
	b *strings.Builder, c *cobra.Command, answers map[string]any, shown map[reflect.Type]string,
) {
	fmt.Fprintf(b, "### migrate %s\n\n%s.\n\n    %s\n\n", commandName(c), c.Short, c.UseLine())
	if c.Long != "" {
		fmt.Fprintf(b, "%s\n\n", c.Long)
	}
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags = false
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && c.Root().PersistentFlags().Lookup(f.Name) == nil {
			own.AddFlag(f)
		}
	})
	if own.HasFlags() {
		writeFlags(b, own)
	}
	answer, ok := answers[commandName(c)]
	if !ok {
		b.WriteString("Its answer with `--json` is not known.\n\n") // a test says so
		return
	}
	if before, told := shown[reflect.TypeOf(answer)]; told {
		fmt.Fprintf(b, "With `--json`: as `%s`.\n\n", before)
		return
	}
	shown[reflect.TypeOf(answer)] = commandName(c)
	if c.Name() == "tail" {
		b.WriteString("With `--json`, each line:\n\n")
	} else {
		b.WriteString("With `--json`:\n\n")
	}
	writeAnswer(b, answer)
}

func writeFlags(b *strings.Builder, flags *pflag.FlagSet) {
	b.WriteString("| flag | meaning |\n| --- | --- |\n")
	flags.VisitAll(func(f *pflag.Flag) {
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		if !slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue) {
			usage += " (default: " + f.DefValue + ")"
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", name, usage)
	})
	b.WriteString("\n")
}

func writeAnswer(b *strings.Builder, answer any) {
	b.WriteString("| field | is | meaning |\n| --- | --- | --- |\n")
	for _, f := range fieldsOf(reflect.TypeOf(answer), "") {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.path, f.kind, f.meaning)
	}
	b.WriteString("\n")
}

func TestTheReferenceIsWhatTheProgramSays(t *testing.T) {
	text, err := os.ReadFile(cliDoc)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(text), referenceBegin)
	if !found {
		t.Fatalf("%s lacks the line %q", cliDoc, referenceBegin)
	}
	want := head + referenceBegin + strings.TrimRight(reference(), "\n") + "\n"
	if *update {
		if err := os.WriteFile(cliDoc, []byte(want), 0o644); err != nil { //nolint:gosec // a page of documentation
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("%s is behind the program; run: go generate ./cmd/migrate", cliDoc)
	}
}

func TestHelp_DocumentsEveryAnswerAndField(t *testing.T) {
	answers := answers()
	for _, c := range commands(newRootCommand(&app{stdout: os.Stdout, stderr: os.Stderr})) {
		name := commandName(c)
		answer, ok := answers[name]
		if !ok {
			t.Errorf("%s: wrap its cobra.Command in a.answering, with a value of what it prints with --json", name)
			continue
		}
		if c.Short == "" {
			t.Errorf("%s: its cobra.Command has no Short, which the help lists", name)
		}
		for _, f := range fieldsOf(reflect.TypeOf(answer), "") {
			if f.meaning == "" && f.kind != "time" {
				t.Errorf("%s: the field %s of %T has no comment", name, f.path, answer)
			}
		}
	}
}

// commandFirst relies on it: a flag takes a value in every command that has it, or in none.
func TestAFlagMeansTheSameEverywhere(t *testing.T) {
	root := newRootCommand(&app{stdout: os.Stdout, stderr: os.Stderr})
	takesValue := map[string]bool{}
	for _, c := range commands(root) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			takes := f.NoOptDefVal == ""
			if was, known := takesValue[f.Name]; known && was != takes {
				t.Errorf("%s: --%s takes a value here or elsewhere, not both", commandName(c), f.Name)
			}
			takesValue[f.Name] = takes
		})
	}
}
