package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/legacy"
)

// autoKind is the KIND with which the program recognises trees itself.
const autoKind = legacy.Auto

// treeAnswer is what import, verify and export end with.
type treeAnswer struct {
	legacy.Report
	// only with auto: what was recognised in the folder and below it
	Saw []legacy.Found `json:"saw,omitempty"`
	// only where auto saw several trees: the report of each, in this shape
	Parts []legacy.Report `json:"parts,omitempty"`
}

// A treeWork is the work of a command on a kind of tree: legacy.Import, legacy.Verify or
// legacy.Export.
type treeWork func(ctx context.Context, d *db.DB, k legacy.Kind, dir string,
	o legacy.Options) (legacy.Report, error)

func followLinksFlag(c *cobra.Command, follow *bool) {
	c.Flags().BoolVar(follow, "follow-links", false,
		"follow links that lead out of the tree, which are only named without it")
}

func kindNames() string { return join(legacy.Kinds()) }

// completeTree completes KIND, then a folder.
func completeTree(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return append(texts(legacy.Kinds()), autoKind), cobra.ShellCompDirectiveNoFileComp
}

func kindByName(name string) (legacy.Kind, error) {
	k, err := legacy.ParseKind(name)
	if err != nil {
		return "", &fault{kind: kindUsage, hint: "KIND is one of: " + kindNames(), err: err}
	}
	return k, nil
}

// sources returns the trees that a command works on. It examines the folder before the file is
// opened or created.
func (a *app) sources(name, dir string, follow bool) (trees, saw []legacy.Found, err error) {
	const hint = "DIR is the folder that the old program was given"
	info, err := os.Stat(dir)
	if err != nil {
		return nil, nil, withHint(err, hint)
	}
	if !info.IsDir() {
		return nil, nil, fail(kindUsage, hint, "%s is not a folder", dir)
	}
	if name != autoKind {
		k, err := kindByName(name)
		return []legacy.Found{{Kind: k, Dir: dir}}, nil, err
	}
	if trees, err = legacy.Recognise(dir, legacy.Options{FollowLinks: follow}); err != nil {
		return nil, nil, err
	}
	if len(trees) == 0 {
		return nil, nil, fail(kindNotFound,
			"name the kind if you know better: "+a.retyped(autoKind, string(legacy.Kinds()[0])),
			"%s holds nothing that this program recognises", dir)
	}
	return trees, trees, nil
}

// workTrees does the work for each tree and returns one answer for all those in dir. Even with an
// error, the answer reports how far it came.
func (a *app) workTrees(ctx context.Context, d *db.DB, trees []legacy.Found, dir string, o legacy.Options,
	work treeWork,
) (treeAnswer, error) {
	var reports []legacy.Report
	for _, t := range trees {
		bar := a.newProgress(string(t.Kind), "")
		o.Scope, o.Progress = a.scope, bar.update
		report, err := work(ctx, d, t.Kind, t.Dir, o)
		bar.finish()
		reports = append(reports, report)
		if err != nil {
			return answerOf(dir, reports), err
		}
	}
	return answerOf(dir, reports), nil
}

func answerOf(dir string, reports []legacy.Report) treeAnswer {
	if len(reports) == 1 {
		return treeAnswer{Report: reports[0]}
	}
	return treeAnswer{Report: legacy.Sum(dir, reports), Parts: reports}
}

// finishTrees writes the answer. If something was quarantined or left out, or differs, the command
// ends with exit code 3.
func (a *app) finishTrees(answer treeAnswer, done string) error {
	err := a.answer(answer, func() { a.printTrees(answer, done) })
	if err != nil || !answer.Partial() {
		return err
	}
	var what []string
	add := func(n int, noun string) {
		if n > 0 {
			what = append(what, count(n, noun))
		}
	}
	add(len(answer.Quarantined), "quarantined piece")
	add(len(answer.Differs), "difference")
	add(len(answer.LeftOut), "left-out remark")
	hint := ""
	if len(answer.Quarantined) > 0 {
		hint = "see what lies in quarantine: migrate quarantine list"
	}
	return fail(kindPartial, hint, "%s, but not all of it: %s", done, strings.Join(what, ", "))
}

// shownRemarks is how many remarks of a kind people see; --json has them all.
const shownRemarks = 20

func (a *app) printTrees(answer treeAnswer, done string) {
	for _, s := range answer.Saw {
		a.print("saw %s: %s, in %s\n", string(s.Kind), s.Description, s.Dir)
	}
	a.printCounts(answer.Counts)
	show := func(title string, remarks []legacy.Remark) { a.printRemarks(title, 1000, remarks) }
	show("in quarantine", each(answer.Quarantined, func(q legacy.Quarantined) legacy.Remark {
		return legacy.Remark{
			File:   fmt.Sprintf("%s at byte %d", q.File, q.ByteOffset),
			Reason: fmt.Sprintf("%s (quarantine show %d)", q.Reason, q.ID),
		}
	}))
	show("differs", answer.Differs)
	show("followed", answer.Followed)
	show("left out", answer.LeftOut)
	show("kept apart", answer.Apart)
	show("ignored", answer.Ignored)
	show("in no store", answer.Unknown)
	a.printReadable(answer.Readable)
	f := answer.Files
	gone := ""
	if f.Gone > 0 {
		gone = "; gone from there: " + count(f.Gone, "file")
	}
	a.print("%s: %s of %s, in %s%s\n", done, count(f.Found, "file"), size(f.Bytes), answer.Source, gone)
	if answer.Proof != nil {
		a.print("%s\n", answer.Proof.Line)
	}
}

// printReadable counts the files of an export that the old program can read. The others are named
// among what was left out.
func (a *app) printReadable(files []legacy.Readability) {
	if len(files) == 0 {
		return
	}
	no := 0
	for _, f := range files {
		if !f.Readable {
			no++
		}
	}
	also := ""
	if no > 0 {
		also = "; no, " + count(no, "file")
	}
	a.print("readable by the old program: yes, %s%s\n", count(len(files)-no, "file"), also)
}

func (a *app) printCounts(counts map[string]legacy.Count) {
	g := &grid{
		header: []string{"record", "read", "new", "already", "changed", "quarantined"},
		right:  []int{1, 2, 3, 4, 5},
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		c := counts[name]
		g.add(name, comma(c.Read), comma(c.New), comma(c.Already), comma(c.Changed), comma(c.Quarantined))
	}
	a.printGrid(g)
}

// printRemarks shows the first remarks of a list. --json has at most kept of them.
func (a *app) printRemarks(title string, kept int, remarks []legacy.Remark) {
	for i, r := range remarks {
		if i == shownRemarks {
			a.print("%s: and %s more; --json has the first %s\n", title, comma(len(remarks)-i), comma(kept))
			return
		}
		a.print("%s: %s: %s\n", title, r.File, r.Reason)
	}
}

// stopped adds a hint to the error of a tree that was left in the middle: nothing is lost.
func (a *app) stopped(answer treeAnswer, err error) error {
	var done int64
	for _, c := range answer.Counts {
		done += c.Read
	}
	hint := fmt.Sprintf("%s done; run it again to go on", count(done, "record"))
	if a.onServer() && (errors.Is(err, db.ErrIO) || errors.Is(err, db.ErrOutcomeUnknown)) {
		return withHint(err, "see that the server runs; %s", hint)
	}
	return withHint(err, "%s", cmp.Or(hintOf(err), hint))
}
