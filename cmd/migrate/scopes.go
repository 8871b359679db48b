package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/maintenance"
)

type scopesAnswer struct {
	Items []maintenance.ScopeSize `json:"items"` // every scope, by name
}

var _ = register("Care:", 110, func(a *app) *cobra.Command {
	return group("scopes", "Look at the scopes of the file", a.answering(&cobra.Command{
		Use:   "list",
		Short: "List the scopes with what they keep, by name",
		Long: `list counts what every scope of the file keeps, which takes as long as there are things. --scope
does not matter to it. A scope comes into being with the first thing in it, and stays.`,
		RunE: a.on(toRead, func(ctx context.Context, d *db.DB, _ []string) error {
			list, err := maintenance.Scopes(ctx, d)
			if err != nil {
				return err
			}
			return a.answer(scopesAnswer{orEmpty(list)}, func() {
				g := &grid{
					header: []string{"scope", "runs", "live", "agents", "checkpoints", "workers", "state", "bytes"},
					right:  []int{1, 2, 3, 4, 5, 6, 7}, texts: []int{},
				}
				for _, s := range list {
					g.add(cmp.Or(s.Name, "(default)"), comma(s.Runs), comma(s.Live), comma(s.Agents),
						comma(s.Checkpoints), comma(s.Workers), comma(s.State), size(s.Bytes))
				}
				a.printGrid(g)
			})
		}),
	}, scopesAnswer{}))
})
