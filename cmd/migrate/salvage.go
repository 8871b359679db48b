package main

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/maintenance"
)

type salvageAnswer struct {
	Path     string                      `json:"path"`     // the damaged file, absolute
	Salvaged string                      `json:"salvaged"` // the new file, absolute
	Pages    int                         `json:"pages"`    // pages of the damaged file
	Damaged  int                         `json:"damaged"`  // of them pages that can't be read
	Stores   []maintenance.StoreSalvaged `json:"stores"`   // what became of each store, by name
	Notes    []string                    `json:"notes"`    // what else is lost, for people
	OK       bool                        `json:"ok"`       // the new file is whole
	Problems []db.Problem                `json:"problems"` // what check says of the new file
}

var _ = register("Care:", 40, func(a *app) *cobra.Command {
	var o maintenance.SalvageOptions
	c := &cobra.Command{
		Use:   "salvage FILE [--keep-suspect]",
		Short: "Bring what is whole of a damaged file into a new one, FILE",
		Long: `salvage reads the damaged file page by page, with the commits in its -wal, and brings every row
that is whole into FILE, which must not exist yet: damage on one page takes no other page's rows along. It
says store by store what was taken. Rows that refer to lost ones, or whose checksum is wrong, are kept as
SQL in the table salvage_leftovers of FILE, each with the reason. A run that is lost is made again from its
trace, and one whose end is lost is open again. How many rows are lost is unknown where a page can't be
read. FILE passes check. The damaged file stays as it is; no program may have it open meanwhile.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.salvage(c.Context(), args[0], o) },
	}
	c.Flags().BoolVar(&o.KeepSuspect, "keep-suspect", false,
		"bring rows whose checksum is wrong too, without a checksum")
	return a.answering(c, salvageAnswer{})
})

func (a *app) salvage(ctx context.Context, dest string, o maintenance.SalvageOptions) error {
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
	var report maintenance.Salvaged
	err = a.withProgress(ctx, "", func(ctx context.Context) (err error) {
		report, err = maintenance.Salvage(ctx, path, dest, o)
		return err
	})
	if _, missing := os.Stat(path); errors.Is(missing, fs.ErrNotExist) {
		return a.openFault(err)
	}
	if err != nil {
		return err
	}
	answer := salvageAnswer{
		Path: path, Salvaged: dest, Pages: report.Pages, Damaged: report.Damaged,
		Stores: orEmpty(report.Stores), Notes: orEmpty(report.Notes),
		Problems: orEmpty(report.Problems), OK: len(report.Problems) == 0,
	}
	if err := a.answer(answer, func() { a.printSalvage(answer) }); err != nil || answer.OK {
		return err
	}
	return fail(kindDamaged, "see what it is before a program uses it: migrate --db "+shellWord(dest)+" check",
		"%s has %s", dest, count(len(answer.Problems), "problem"))
}

func (a *app) printSalvage(answer salvageAnswer) {
	a.print("salvaged %s to %s; %d of its %d pages can't be read\n", answer.Path, answer.Salvaged,
		answer.Damaged, answer.Pages)
	g := &grid{header: []string{"store", "taken", "aside", "lost"}, right: []int{1, 2, 3}}
	for _, s := range answer.Stores {
		lost := "unknown"
		if s.Lost != nil {
			lost = comma(*s.Lost)
		}
		g.add(s.Store, comma(s.Taken), comma(s.Aside), lost)
	}
	a.printGrid(g)
	for _, note := range answer.Notes {
		a.print("%s\n", note)
	}
	a.printProblems(answer.Problems)
}
