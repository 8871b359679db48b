package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"selvedge/db"
)

type checkAnswer struct {
	Path     string         `json:"path" doc:"the file, absolute"`
	OK       bool           `json:"ok" doc:"nothing is wrong"`
	Problems []checkProblem `json:"problems" doc:"what is wrong, at most 100 of each check"`
}

type checkProblem struct {
	Check  string `json:"check" doc:"integrity, foreign keys, or the name of an invariant of the schema"`
	Detail string `json:"detail" doc:"what it found"`
}

func (a *app) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Read the whole file and say what is wrong with it",
		Long: `check runs SQLite's integrity check, looks for rows that refer to others which are gone, and tests the invariants
of the schema. It changes nothing, and works on a file that is in use. Damage ends it with exit code 7.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.check(c.Context()) },
	}
}

func (a *app) check(ctx context.Context) error {
	path, err := absolute(a.path)
	if err != nil {
		return err
	}
	answer := checkAnswer{Path: path, Problems: []checkProblem{}}
	err = a.with(ctx, toLook, func(d *db.DB) error {
		answer.Path = d.Path()
		problems, err := d.Check(ctx)
		for _, p := range problems {
			answer.Problems = append(answer.Problems, checkProblem{p.Check, p.Detail})
		}
		return err
	})
	if errors.Is(err, db.ErrCorrupt) { // too damaged to be opened
		answer.Problems, err = append(answer.Problems, checkProblem{"integrity", err.Error()}), nil
	}
	if err != nil {
		return err
	}
	answer.OK = len(answer.Problems) == 0
	if err := a.printCheck(answer); err != nil || answer.OK {
		return err
	}
	return &fault{
		kind: kindDamaged, err: fmt.Errorf("%s is damaged: %s", answer.Path, count(len(answer.Problems), "problem")),
		hint: "stop the programs that use it and keep a copy of it with its -wal; then go back to the last backup",
	}
}

func (a *app) printCheck(answer checkAnswer) error {
	if a.json {
		return a.printJSON(answer)
	}
	if answer.OK {
		return a.print("%s is whole\n", printable(answer.Path))
	}
	for _, p := range answer.Problems {
		if err := a.print("%s: %s\n", p.Check, printable(p.Detail)); err != nil {
			return err
		}
	}
	return nil
}
