package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"selvedge/db"
)

var _ = register("Care:", 50, func(a *app) *cobra.Command {
	return a.answering(&cobra.Command{
		Use:   "stats",
		Short: "Show the sizes of the file and the rows of its tables",
		RunE:  a.on(toLook, a.stats),
	}, db.Stats{})
})

func (a *app) stats(ctx context.Context, d *db.DB, _ []string) error {
	s, err := d.Stats(ctx)
	if err != nil {
		return err
	}
	s.Tables = orEmpty(s.Tables)
	return a.answer(s, func() {
		facts := []string{
			"file", s.Path, "engine", s.Engine, "schema", strconv.FormatInt(s.Schema, 10),
			"made", a.when(s.CreatedAt), "size", size(s.FileBytes),
		}
		if !a.onServer() {
			facts = append(facts, "WAL", size(s.WALBytes), "free", size(s.FreePages*s.PageSize))
		}
		a.printFacts(facts...)
		g := &grid{header: []string{"table", "rows"}, right: []int{1}}
		for _, t := range s.Tables {
			if t.Rows > 0 {
				g.add(t.Name, comma(t.Rows))
			}
		}
		if empty := len(s.Tables) - len(g.rows); empty > 0 {
			a.note("note: %s without rows; --json has all", count(empty, "table"))
		}
		a.printGrid(g)
	})
}
