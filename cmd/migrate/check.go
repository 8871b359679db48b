package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/maintenance"
)

type checkAnswer struct {
	Path     string       `json:"path"`     // the file, absolute
	OK       bool         `json:"ok"`       // nothing is wrong
	Problems []db.Problem `json:"problems"` // what is wrong, at most 100 of each check
	// tables with rows that have no checksum: written before there were any, or set to NULL by their user
	Without []maintenance.ChecksumCount `json:"without_checksum"`
}

var _ = register("Care:", 10, func(a *app) *cobra.Command {
	deep := false
	c := &cobra.Command{
		Use:   "check [--deep]",
		Short: "Read the whole file and say what is wrong with it",
		Long: `check runs SQLite's integrity check, compares tables, indexes, triggers and views with what this
program creates, looks for rows that refer to missing ones, tests the invariants of the schema,
recomputes every checksum, and compares runs with their traces and checkpoints with their documents.
It changes nothing, and works on a file that is in use. On damage the exit code is 7.

A row that was changed by hand no longer matches its checksum. To declare such a row right, set its
checksum to NULL in the same UPDATE; the next call that writes the row adds one again. docs/damage.md
lists what is covered.`,
		RunE: func(c *cobra.Command, _ []string) error { return a.check(c.Context(), deep) },
	}
	c.Flags().BoolVar(&deep, "deep", false,
		"also read everything as the stores do: every record, event, document and transcript")
	return a.answering(c, checkAnswer{})
})

func (a *app) check(ctx context.Context, deep bool) error {
	path, err := a.place()
	if err != nil {
		return err
	}
	answer := checkAnswer{Path: path}
	how, look := toLook, maintenance.Examine
	if deep {
		how, look = toRead, maintenance.Check // as the stores do
	}
	var x maintenance.Examination
	err = a.with(ctx, how, func(d *db.DB) error {
		answer.Path = d.Path()
		return a.withProgress(ctx, "", func(ctx context.Context) (err error) {
			x, err = look(ctx, d)
			return err
		})
	})
	answer.Problems = orEmpty(x.Problems)
	whole := func(c maintenance.ChecksumCount) bool { return c.Without == 0 }
	answer.Without = slices.DeleteFunc(orEmpty(x.Checksums), whole)
	if errors.Is(err, db.ErrCorrupt) { // too damaged to be opened
		answer.Problems, err = append(answer.Problems, db.Problem{Check: "integrity", Detail: err.Error()}), nil
	}
	if err != nil {
		return err
	}
	answer.OK = len(answer.Problems) == 0
	err = a.answer(answer, func() {
		if answer.OK {
			a.print("%s is whole\n", answer.Path)
			for _, c := range answer.Without {
				a.print("%s: %d of %d rows have no checksum\n", c.Table, c.Without, c.Rows)
			}
		}
		a.printProblems(answer.Problems)
	})
	if err != nil || answer.OK {
		return err
	}
	return a.damaged(answer.Path, len(answer.Problems))
}

func (a *app) printProblems(problems []db.Problem) {
	for _, p := range problems {
		a.print("%s: %s\n", p.Check, p.Detail)
	}
}

// damaged returns the error with which check and doctor end.
func (a *app) damaged(path string, problems int) error {
	hint := "stop the programs that use it and keep a copy of it with its -wal; where there is no backup, " +
		"bring what is whole into a new file: migrate salvage " + shellWord(a.path+".salvaged")
	if a.onServer() {
		hint = "stop the programs that use it and copy it as it is; then " + a.otherTools()["salvage"]
	}
	return fail(kindDamaged, hint, "%s is damaged: %s", path, count(problems, "problem"))
}
