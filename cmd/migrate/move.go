package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/legacy"
	"selvedge/maintenance"
)

type moveAnswer struct {
	// what was moved: path of the file, or address of the server
	Source  string `json:"source"`
	Target  string `json:"target"`  // where it is now
	State   string `json:"state"`   // complete, or abandoned with --abandon
	Already bool   `json:"already"` // it was complete before
	// rows by the name of their table; empty where the move was complete before, or abandoned
	Counts map[string]maintenance.MovedTable `json:"counts"`
	// rows that are not the same in both, up to 100; then the source is not given up
	Differs []maintenance.MoveDifference `json:"differs"`
	LeftOut []maintenance.MoveDifference `json:"left_out"` // what stays in the source
	// what the rows of both were compared by; left out with --abandon
	Proof *moveProof `json:"proof,omitempty"`
	Swept bool       `json:"swept"` // with --abandon: what had come to the target is gone
}

type moveProof struct {
	Rows int64 `json:"rows"` // rows of all tables of the source
	// of all rows of the source, sorted, in hex: docs/moving.md says of what
	SHA256       string `json:"sha256"`
	TargetSHA256 string `json:"target_sha256"` // the same of the target
	// every row is the same in both, none is in one alone, and no number will be given twice
	Whole bool   `json:"whole"`
	Line  string `json:"line"` // all of that, for people
}

var _ = register("Care:", 150, func(a *app) *cobra.Command {
	var to string
	var abandon, lost bool
	c := &cobra.Command{
		Use:   "move --to ADDRESS [--abandon [--lost]]",
		Short: "Move everything to a server, to another file, or back, for good",
		Long: `move brings all scopes of the file, or of the server that --db names, to ADDRESS: a server as in
postgres://user@host/database, or a file. What is there must be empty, or be missing. Ids, counters, claims,
what is in quarantine, limits and cursors go on there as they were.

From the beginning of a move only move writes to the source. No program may have the file open, and on a
server no live process may own anything (exit 5 says who; move waits for them 2 s, or as long as --wait
says). Programs that want to write are told where it goes; those that only read are served. A move that was
stopped goes on when the same line is run again. --abandon gives the source back as long as the target is
not open; with --to it takes away what has come there. Without --to it looks at the place to which the
source was moving; where that one is lost for good, --lost gives the source back without a look.

At the end every row is read in both and compared, and one line says what was proved. Only then is the
source marked as moved, for ever, and the target can be opened: there is no moment at which both take work.`,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case a.scope != "":
				return usage("--scope %s: all scopes move together", a.scope)
			case lost && (!abandon || to != ""):
				return usage("--lost goes with --abandon, and without --to: it names no target, since there is " +
					"none any more")
			case !abandon || to != "":
				if err := checkPlace("--to", to, true); err != nil {
					return err
				}
			}
			if abandon {
				return a.abandonMove(c.Context(), to, lost)
			}
			return a.moveRows(c.Context(), to)
		},
	}
	c.Flags().StringVar(&to, "to", "", "`ADDRESS` of a server, or a file, to move to")
	c.Flags().BoolVar(&abandon, "abandon", false, "give the source back, of a move whose target is not open yet")
	c.Flags().BoolVar(&lost, "lost", false,
		"with --abandon: the target is lost for good and takes no work; don't ask it")
	return a.answering(c, moveAnswer{})
})

// moveOptions returns options that limit the wait for others.
func (a *app) moveOptions() db.Options { return db.Options{LockTimeout: cmp.Or(a.wait, noteAfter)} }

// moveFault adds what can be done to the error of a database that could not be opened, or of a move
// that was stopped.
func (a *app) moveFault(err error) error {
	e, ok := errors.AsType[*db.Error](err)
	source, _ := a.place()
	const again = "run it again to go on; if it had begun, the source is given back with: migrate move --abandon"
	switch {
	case errors.Is(err, errInterrupted):
		return withHint(err, again)
	case errors.Is(err, db.ErrFull):
		return withHint(err, "free space on the disk or in the quota, and "+again)
	case ok && e.Op == "open" && e.ID == source && !errors.Is(err, db.ErrMoved) && !errors.Is(err, db.ErrBusy):
		return a.openFault(err)
	}
	return err
}

func (a *app) moveRows(ctx context.Context, to string) error {
	var report maintenance.Moved
	err := a.withProgress(ctx, "rows", func(ctx context.Context) (err error) {
		report, err = maintenance.Move(ctx, a.path, to, a.moveOptions())
		return err
	})
	if err != nil && len(report.Differs) == 0 {
		return a.moveFault(err)
	}
	answer := moveAnswer{
		Source: report.From, Target: report.To, State: "complete", Already: report.Already,
		Counts:  map[string]maintenance.MovedTable{},
		Differs: orEmpty(report.Differs),
		LeftOut: each(report.Left, func(table string) maintenance.MoveDifference {
			return maintenance.MoveDifference{Table: table, Reason: "it is the user's own, and stays in the source"}
		}),
		Proof: &moveProof{
			Rows: report.Rows, SHA256: report.SHA256, TargetSHA256: report.ToSHA256, Whole: err == nil,
			Line: fmt.Sprintf("all %s are the same in both, SHA-256 %s; the source takes no work any more",
				count(report.Rows, "row"), report.SHA256),
		},
	}
	for _, t := range report.Tables {
		answer.Counts[t.Table] = t
	}
	if err != nil {
		answer.State = "under way"
		answer.Proof.Line = fmt.Sprintf("not the same: SHA-256 %s in the source, %s in the target; nobody may "+
			"write to either", report.SHA256, report.ToSHA256)
	}
	if err := a.answer(answer, func() { a.printMove(answer, report.Stores) }); err != nil {
		return err
	}
	switch {
	case err != nil:
		return &fault{kind: kindPartial, hint: db.Hint(err), err: err}
	case len(answer.LeftOut) > 0:
		return fail(kindPartial, "take what you need of them with: migrate query, which can read the source still",
			"moved, but not all of it: %s of the user's own", count(len(answer.LeftOut), "table"))
	}
	return nil
}

func (a *app) printMove(answer moveAnswer, stores []maintenance.StoreMoved) {
	g := &grid{header: []string{"store", "rows", "new", "already", "differ"}, right: []int{1, 2, 3, 4}}
	for _, s := range stores {
		g.add(s.Store, comma(s.Read), comma(s.New), comma(s.Already), comma(s.Differs))
	}
	if len(stores) > 0 {
		a.printGrid(g)
	}
	for i, list := range [][]maintenance.MoveDifference{answer.Differs, answer.LeftOut} {
		remarks := each(list, func(r maintenance.MoveDifference) legacy.Remark {
			return legacy.Remark{File: r.Table + " " + r.Row, Reason: r.Reason}
		})
		a.printRemarks([]string{"differs", "left out"}[i], 100, remarks)
	}
	what := "moved"
	switch {
	case answer.Already:
		what = "had moved"
	case answer.State != "complete":
		what = "brought"
	}
	a.print("%s %s to %s\n%s\n", what, answer.Source, answer.Target, answer.Proof.Line)
}

func (a *app) abandonMove(ctx context.Context, to string, lost bool) error {
	var did maintenance.Abandoned
	var err error
	if lost {
		did, err = maintenance.AbandonMoveToLost(ctx, a.path, a.moveOptions())
	} else {
		did, err = maintenance.AbandonMove(ctx, a.path, to, a.moveOptions())
	}
	if err != nil {
		return a.moveFault(err)
	}
	rest := "what has come there stays, and is taken away by: migrate move --abandon --to ADDRESS"
	switch {
	case did.Swept:
		rest = "what had come there is gone"
	case to != "":
		rest = "nothing had come there"
	}
	return a.answerLine(moveAnswer{
		Source: did.From, Target: did.To, State: "abandoned", Counts: map[string]maintenance.MovedTable{},
		Differs: []maintenance.MoveDifference{}, LeftOut: []maintenance.MoveDifference{}, Swept: did.Swept,
	}, "%s takes work again; it does not move to %s\n%s\n", did.From, did.To, a.pasteable(rest))
}
