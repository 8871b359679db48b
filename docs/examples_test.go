package docs_test

import (
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/state"
	"selvedge/workers"
)

// A stored is a type that speaks the grammar, and where its package lies.
type stored struct {
	of     reflect.Type
	folder string
}

var speakers = []stored{
	{reflect.TypeFor[*runs.Store](), "../runs"},
	{reflect.TypeFor[*live.Store](), "../runs/live"},
	{reflect.TypeFor[*agents.Registry](), "../agents"},
	{reflect.TypeFor[*checkpoints.Store](), "../checkpoints"},
	{reflect.TypeFor[*workers.Runtime](), "../workers"},
	{reflect.TypeFor[*workers.Runtimes](), "../workers"},
	{reflect.TypeFor[*state.Store](), "../state"},
}

// withoutVerb are the calls of the grammar that a store does not have, and why.
var withoutVerb = map[string]string{
	"agents.Registry.Begin":   "its word is TryLeaseThread",
	"agents.Registry.Resume":  "an agent that lost its thread reserves it anew",
	"checkpoints.Store.Begin": "its word is Claim", "checkpoints.Store.Resume": "its word is Claim",
	"workers.Runtime.Begin": "nothing is held", "workers.Runtime.Resume": "nothing is held",
	"workers.Runtime.Reattach": "nothing is held",
	"workers.Runtime.Recover":  "nothing is held", "workers.Runtimes.Recover": "nothing is held",
	"workers.Runtimes.Begin": "nothing is held", "workers.Runtimes.Resume": "nothing is held",
	"workers.Runtimes.Reattach":     "nothing is held",
	"workers.Runtimes.Follow":       "one log is followed by its Runtime",
	"workers.Runtimes.CursorBefore": "one log is followed by its Runtime",
	"workers.Runtime.FollowAll":     "all logs are followed by Runtimes",
	"workers.Runtime.Prune":         "a policy is the scope's: Runtimes has it",
	"state.Store.Begin":             "nothing is held", "state.Store.Resume": "nothing is held",
	"state.Store.Reattach": "nothing is held", "state.Store.Recover": "nothing is held",
	"workers.Runtime.Pin": "Runtimes has it", "workers.Runtime.Unpin": "Runtimes has it",
}

// examplesOf gives the examples of a package, by name, that are run.
func examplesOf(t *testing.T, folder string) map[string]*doc.Example {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*doc.Example{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\nfunc Example") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, example := range doc.Examples(file) {
			if example.Output != "" {
				found[example.Name] = example
			}
		}
	}
	return found
}

func TestGrammar_EveryCallHasAnExample(t *testing.T) {
	page, err := os.ReadFile("grammar.md")
	if err != nil {
		t.Fatal(err)
	}
	var verbs []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(string(page), -1) {
		for _, call := range regexp.MustCompile("`(\\w+)").FindAllStringSubmatch(row[1], -1) {
			verbs = append(verbs, call[1])
		}
	}
	if len(verbs) < 15 {
		t.Fatalf("the grammar has %q", verbs)
	}
	for _, s := range speakers {
		examples := examplesOf(t, s.folder)
		for _, verb := range verbs {
			call := s.of.String()[1:] + "." + verb
			switch _, has := s.of.MethodByName(verb); {
			case has && withoutVerb[call] != "":
				t.Errorf("there is a %s: leave it out of the list", call)
			case !has && withoutVerb[call] == "":
				t.Errorf("there is no %s, and no reason why", call)
			case has && examples[s.of.Elem().Name()+"_"+verb] == nil:
				t.Errorf("there is no example of %s that is run", call)
			}
		}
	}
}
