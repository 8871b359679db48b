package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/maintenance"
)

type salvageAnswer struct {
	Path     string         `json:"path"`     // the damaged file, absolute
	Salvaged string         `json:"salvaged"` // the new file, absolute
	Pages    int            `json:"pages"`    // pages of the damaged file
	Damaged  int            `json:"damaged"`  // of them pages that can't be read
	Stores   []salvageStore `json:"stores"`   // what became of each store, by name
	Notes    []string       `json:"notes"`    // what else is lost, for people
	OK       bool           `json:"ok"`       // the new file is whole
	Problems []checkProblem `json:"problems"` // what check says of the new file
}

type salvageStore struct {
	// runs, live, agents, checkpoints, workers, imports, reservations, file, or user for tables of the
	// user's own
	Store string `json:"store"`
	Taken int64  `json:"taken"` // rows in the new file
	// rows that were read and have no place there; they are in its table salvage_leftovers, with the
	// reason
	Aside int64 `json:"aside"`
	// rows that could not be read; null: nobody can count them, since a page that may have held some is
	// damaged
	Lost *int64 `json:"lost"`
}

func init() { register(groupCare, (*app).salvageCommand) }

func (a *app) salvageCommand() *cobra.Command {
	var o db.SalvageOptions
	c := &cobra.Command{
		Use:   "salvage FILE [--keep-suspect]",
		Short: "Bring what is whole of a damaged file into a new one, FILE",
		Long: `salvage reads the damaged file page by page, with the commits in its -wal, and brings every row that is whole into
FILE, which must not be there yet: damage on one page takes no other page's rows along. It says store by store what
was taken. Rows that refer to lost ones, or whose checksum is wrong, are kept as SQL in the table salvage_leftovers of
FILE, each with the reason. A run that is lost is made anew from its trace, and one whose end is lost is open again.
How many rows are lost is unknown where a page can't be read. FILE passes check. The damaged file stays as it is; no
program may have it open meanwhile.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.salvage(c.Context(), args[0], o) },
	}
	c.Flags().BoolVar(&o.KeepSuspect, "keep-suspect", false,
		"bring rows whose checksum is wrong too, without a checksum")
	return a.answering(c, salvageAnswer{})
}

func (a *app) salvage(ctx context.Context, dest string, o db.SalvageOptions) error {
	if dest == "" {
		return usage("the name of the new file is empty")
	}
	dest, err := absolute(dest)
	if err != nil {
		return err
	}
	path, err := absolute(a.path)
	if err != nil {
		return err
	}
	showing, shown := a.showing(ctx)
	report, err := maintenance.Salvage(showing, path, dest, o)
	shown()
	if _, missing := os.Stat(path); errors.Is(missing, fs.ErrNotExist) {
		return a.openFault(err)
	}
	if err != nil {
		return err
	}
	answer := salvageAnswer{
		Path: path, Salvaged: dest, Pages: report.Pages, Damaged: report.Damaged, Stores: []salvageStore{},
		Notes:    []string{},
		Problems: []checkProblem{}, OK: len(report.Problems) == 0,
	}
	for _, s := range report.Stores {
		answer.Stores = append(answer.Stores, salvageStore{s.Store, s.Taken, s.Aside, s.Lost})
	}
	answer.Notes = append(answer.Notes, report.Notes...)
	for _, p := range report.Problems {
		answer.Problems = append(answer.Problems, checkProblem{p.Check, p.Detail})
	}
	if err := a.printSalvage(answer); err != nil || answer.OK {
		return err
	}
	return &fault{
		kind: kindDamaged, err: fmt.Errorf("%s has %s", dest, count(len(answer.Problems), "problem")),
		hint: "see what it is before a program uses it: migrate --db " + shellWord(dest) + " check",
	}
}

func (a *app) printSalvage(answer salvageAnswer) error {
	if a.json {
		return a.printJSON(answer)
	}
	if err := a.print("salvaged %s to %s; %d of its %d pages can't be read\n", printable(answer.Path),
		printable(answer.Salvaged),
		answer.Damaged, answer.Pages); err != nil {
		return err
	}
	g := &grid{header: []string{"store", "taken", "aside", "lost"}, right: []int{1, 2, 3}}
	for _, s := range answer.Stores {
		lost := "unknown"
		if s.Lost != nil {
			lost = humanize.Comma(*s.Lost)
		}
		g.add(s.Store, humanize.Comma(s.Taken), humanize.Comma(s.Aside), lost)
	}
	if err := a.printGrid(g); err != nil {
		return err
	}
	for _, note := range answer.Notes {
		if err := a.print("%s\n", printable(note)); err != nil {
			return err
		}
	}
	for _, p := range answer.Problems {
		if err := a.print("%s: %s\n", p.Check, printable(p.Detail)); err != nil {
			return err
		}
	}
	return nil
}
