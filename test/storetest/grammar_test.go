package storetest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// grammar has every sentence of docs/grammar.md, and what shows it: the name of a fault, which the
// law that the fault names notices; "TestName in folder", for what another test shows; or "-" and
// the reason why it promises nothing that could be false.
var grammar = []struct {
	sentence string
	shown    []string
}{
	{"The same words mean the same in `runs`, `live`, `agents`, `checkpoints`, `workers` and `state`.", shown(
		"TestEveryStoreHasTheLaws in test/storetest")},
	{"Each store has its own names for its data (`RunRef`, `Filter`, the fields of a summary).", shown(
		"- it describes")},

	{"Get: reads one item; a missing one is `db.ErrNotFound`", shown(
		"a missing run is no error", "a missing run is another error")},
	{"Page: reads one part of the list, newest first (except for the orders that [CLI.md](CLI.md) promises), " +
		"from one snapshot", shown("the oldest come first", "a page is read in parts")},
	{"All: iterates over the whole list, page by page", shown("all is one page", "a loop is one transaction")},
	{"Find: finds the items whose name begins with a prefix, ordered by name", shown(
		"find gives the newest first", "find takes a prefix for the beginning of a range")},
	{"Follow: follows one item; the cursor `\"\"` is the beginning", shown("a follower begins at the end")},
	{"FollowAll: follows all items that pass the filter, from the call on", shown(
		"a filter is no filter", "who follows all begins at the beginning")},
	{"CursorBefore: returns the cursor before the last n items of a stream; for 0, the cursor at its end", shown(
		"the last n are one fewer", "the cursor at the end is one before")},
	{"Delete: removes one item and all that belongs to it.", shown(
		"a removal leaves the thing", "a name keeps what it had")},
	{"Delete: A run or live run that is held is `ErrConflict`.", shown("what is held can be deleted")},
	{"Delete: The holder of a deleted agent's thread or checkpoint loses its lease.", shown(
		"who held what was deleted holds on")},
	{
		"Delete: A missing item is `ErrNotFound`; in `agents` it is no error, as for the old registry's `Delete`",
		shown("a missing run can be deleted", "a missing agent can't be deleted"),
	},
	{"Prune: removes what the policy does not keep, in transactions of at most 50 ms", shown(
		"pruning takes what runs", "pruning keeps one more",
		"TestATransactionThatHasTakenLongLetsOthersIn in internal/stores")},
	{"Pin: protects an item from every limit; a pin belongs to a name.", shown(
		"a pin does nothing", "a pin saves from age alone", "a pin goes with its run")},
	{"Pin: Pinning a missing item is `db.ErrNotFound`; unpinning one is fine", shown(
		"a missing run can be pinned", "a failed pin calls itself a get", "a missing run can't be unpinned")},
	{"Recover: frees what only dead processes held, and ends nothing.", shown(
		"recovery leaves what the dead held", "recovery ends what the dead held")},
	{"Recover: It is safe at any time, from any process.", shown("recovery takes what the living hold")},
	{"Recover: Workers and values hold nothing that dies with a process, so `workers` and `state` have no " +
		"`Recover`; `maintenance.Recover` covers the whole file", shown(
		"TestGrammar_EveryCallHasAnExample in docs", "TestRecovery_TakesDeadSparesLiving in maintenance")},
	{"Begin: hold one item by a lease of `db`.", shown(
		"what was begun can be begun again", "what was begun is not held", "reservations are lost",
		"any epoch takes up a holding")},
	{"Begin: After the lease is lost, writes of the handle are refused.", shown(
		"a claim has the epoch of the one before", "what was released is not given up",
		"what was undone can be written under")},
	{"Begin: A run or live run that is held refuses the appends, ends and replacements of others: " +
		"`ErrConflict`, with a `*db.ReservedError` that names the holder.", shown("what is held takes writes")},
	{"Begin: `agents` begins with `TryLeaseThread`, `checkpoints` with `Claim`", shown(
		"TestGrammar_EveryCallHasAnExample in docs")},

	{"A call that reads or writes rows of one item has a form with `Tx` (`GetTx(rx, ref)`, " +
		"`DeleteTx(tx, ref)`) for a transaction of the caller.", shown(
		"TestEveryCallHasAFormForATransaction in docs", "the transaction given is not the one that is used")},
	{"So have `Page` and `Find`.", shown("a form with Tx answers otherwise")},
	{"A transaction of another file is `ErrInvalid`.", shown(
		"every handle has one file", "any transaction takes a thing",
		"TestEveryFormRefusesATransactionOfAnotherFile in docs")},
	{"`docs/tx_test.go` lists the calls without such a form, with the reasons.", shown(
		"TestEveryCallHasAFormForATransaction in docs")},

	{"A limit of 0 means 50.", shown("the limit 0 is that of a loop")},
	{"A limit above 1,000 or below 0 is `ErrInvalid`.", shown("a limit is taken as it comes")},
	{"A page also ends when it holds 1 MiB.", shown(
		"a page never ends at its bytes", "a page of a stream never ends at its bytes")},
	{"A single item is returned even if it is larger.", shown("what is too large for a page is left out")},
	{"`Page.Next` is `\"\"` at the end of the list, and only there.", shown(
		"the last page has a next one", "all is one page")},
	{"A list of a scope without data is empty, not an error.", shown("an empty list is an error")},

	{"Each page is one snapshot.", shown("a page is read in parts")},
	{"Over `All`, or over successive pages, an item that keeps its position is returned exactly once.", shown(
		"a cursor counts items", "an item at the edge of pages comes twice")},
	{"An item that is added, removed or moved meanwhile may be missed.", shown("- it allows")},
	{"An item that is moved may be returned twice.", shown("- it allows")},
	{"No transaction is open while a caller's loop runs.", shown("a loop is one transaction")},

	{"Cursors are text that callers store and pass back.", shown("a cursor is no text")},
	{"A cursor belongs to one list or one stream; any other refuses it with `ErrInvalid`.", shown(
		"any cursor is a cursor", "any cursor is a stream's")},
	{"A cursor into data that is gone (the run was removed or replaced, the file was restored from a backup) " +
		"is `ErrCursorExpired`: start over.", shown(
		"the cursor of what is gone begins again", "TestARestoredFileIsTheBackupWithAnotherGeneration in db")},

	{"A follower receives records (`db.Written`), changes of status (`db.StatusChanged`), and a `db.Gap` " +
		"where records were removed before it read them.", shown(
		"a record in five is lost", "a new status is not told", "a gap is not told")},
	{"Each value carries the cursor of its own stream, in `FollowAll` too.", shown("all have one cursor")},
	{"Values come in the order of the stream.", shown("items come in another order")},
	{"None comes twice.", shown("items come twice")},
	{"None is left out without a gap.", shown("a record in five is lost", "an event in five is lost")},
	{"When an item is removed, `FollowAll` reports a gap with `Gone` and continues.", shown(
		"a removal is not told", "a removal ends who follows all")},
	{"A `Follow` of it ends with `ErrCursorExpired`.", shown("a follower of what is removed waits")},
	{"Once an item passes the filter of `FollowAll`, it is followed until it is removed.", shown(
		"what passes no more is forgotten", "a filter is no filter")},
	{"`runs`, `live` and `workers` report every record and event.", shown(
		"a record in five is lost", "an event in five is lost")},
	{"`agents`, `checkpoints` and `state` have no log and report the state of the item: of several writes " +
		"between two polls, the last one is reported.", shown("the last state is not told")},
	{"An older state never follows a newer one.", shown("an older state comes behind a newer one")},
	{"`Follow` and `FollowAll` end when the caller leaves the loop, or with an error: the cause of the " +
		"context when the context ends, or `db.ErrClosed`.", shown(
		"the end of a follower's context is not its cause", "the end of a handle ends a follower without an error",
		"the end of the context is not its cause")},

	{"A zero time means the time of the transaction.", shown("a zero time is the zero time")},
	{"Errors wrap the sentinels of `db`, and have a hint when a person can act.", shown(
		"a missing run is another error", "an error helps nobody", "an error names another call",
		"TestWhatIsRefusedComesWithAHint in test/storetest")},
	{"`storetest`, the suite that every store passes on every engine, tests what this page says.", shown(
		"TestGrammar_EachSentenceHasACase in test/storetest", "TestEveryFaultIsNoticed in test/storetest")},
	{"Each call has an example in each store that has it (`ExampleStore_Page`, `ExampleRegistry_Page` …), " +
		"which the tests run.", shown("TestGrammar_EveryCallHasAnExample in docs")},
	{"`docs/examples_test.go` lists the calls that a store does not have, with the reasons.", shown(
		"TestGrammar_EveryCallHasAnExample in docs")},
	{"The calls of the old programs are in each store's `seed.go`, with their old names and behaviour.", shown(
		"TestParityNamesFunctionsAndTestsThatAreThere in docs")},
}

func shown(by ...string) []string { return by }

// sentences returns the sentences of the page's first part: a table row's are headed by its call.
func sentences(page string) (all []string) {
	page, _, _ = strings.Cut(page, "\n## ")
	var prose strings.Builder
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		cells := strings.Split(line, " | ")
		switch {
		case strings.HasPrefix(line, "# "), strings.HasPrefix(line, "| ---"), strings.HasPrefix(line, "| call |"):
		case strings.HasPrefix(line, "| ") && len(cells) == 2:
			call := regexp.MustCompile(`\w+`).FindString(cells[0])
			for _, s := range split(strings.TrimSuffix(cells[1], " |")) {
				all = append(all, call+": "+s)
			}
		default:
			prose.WriteString(line + " ")
		}
	}
	return append(all, split(boldHead.ReplaceAllString(prose.String(), "$1"))...)
}

// boldHead is what begins a paragraph, before its sentences; "Errors" is a word of one.
var boldHead = regexp.MustCompile(`\*\*(?:\w+\.|(\w+))\*\*`)

// split returns the sentences of a text. A sentence ends at a full stop before a capital or a code.
func split(text string) (all []string) {
	text = strings.Join(strings.Fields(text), " ")
	for begin, i := 0, 0; i < len(text); i++ {
		rest, stop := strings.CutPrefix(text[i:], ". ")
		next := []rune(rest + " ")[0]
		if i == len(text)-1 || stop && (unicode.IsUpper(next) || next == '`') {
			all = append(all, strings.TrimSpace(text[begin:i+1]))
			begin = i + 1
		}
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

func TestGrammar_EachSentenceHasACase(t *testing.T) {
	page, err := os.ReadFile("../../docs/grammar.md")
	must(t, err)
	listed := map[string]bool{}
	for _, g := range grammar {
		listed[g.sentence] = true
	}
	there := map[string]bool{}
	for _, s := range sentences(string(page)) {
		if there[s] = true; !listed[s] {
			t.Errorf("docs/grammar.md says %q, and nothing shows it. Give the suite a law for it, faults in "+
				"broken_test.go a fault that the law notices, and grammar in this file the sentence and that fault.", s)
		}
	}
	for _, g := range grammar {
		if !there[g.sentence] {
			t.Errorf("docs/grammar.md no longer says %q: change grammar in this file", g.sentence)
		}
		if len(g.shown) == 0 {
			t.Errorf("nothing shows %q", g.sentence)
		}
		for _, by := range g.shown {
			test, folder, other := strings.Cut(by, " in ")
			isFault := slices.ContainsFunc(faults, func(f fault) bool { return f.name == by })
			switch {
			case isFault, strings.HasPrefix(by, "- "):
			case !other || !strings.HasPrefix(test, "Test") || !hasTest(t, folder, test):
				t.Errorf("%q is shown by %q, which is neither a fault nor a test", g.sentence, by)
			}
		}
	}
	laws := map[string]bool{}
	for _, f := range faults {
		laws[f.law] = true
	}
	for _, s := range stores {
		for _, l := range s.laws {
			if !laws[l.name] {
				t.Errorf("no fault makes the law %q fail: add one to faults in broken_test.go", l.name)
				laws[l.name] = true
			}
		}
	}
}

// hasTest reports whether a folder's tests have one of that name.
func hasTest(t *testing.T, folder, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	must(t, err)
	return slices.ContainsFunc(files, func(name string) bool {
		text, err := os.ReadFile(name)
		must(t, err)
		return strings.Contains(string(text), "\nfunc "+test+"(")
	})
}

// A store that has lists, followers or holders is held to all laws of them.
func TestEveryStoreHasTheLaws(t *testing.T) {
	for first, without := range map[string][]string{
		"a thing that is missing is ErrNotFound": {"reservations"},
		"a cursor belongs to its stream":         {"workers", "reservations"},
		"of those who take one wins":             {"workers", "runtimes", "state"},
	} {
		for _, s := range stores {
			has := slices.ContainsFunc(s.laws, func(l law) bool { return l.name == first })
			if has == slices.Contains(without, s.name) {
				t.Errorf("%s is held to the law %q and its kind: %v", s.name, first, has)
			}
		}
	}
}
