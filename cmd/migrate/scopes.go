package main

import (
	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/maintenance"
)

type scopesAnswer struct {
	Items []scopeItem `json:"items"` // every scope, by name
}

type scopeItem struct {
	Name        string `json:"name"`        // of the scope; empty is the default one
	Runs        int64  `json:"runs"`        // run traces
	Live        int64  `json:"live"`        // live runs
	Agents      int64  `json:"agents"`      // agents, those that left the registry among them
	Checkpoints int64  `json:"checkpoints"` // runs that wait or are claimed
	Workers     int64  `json:"workers"`     // workers of all runtimes
	// of traces, events, documents and transcripts, without what indexes and pages take
	Bytes int64 `json:"bytes"`
}

func init() { register(groupCare, (*app).scopesCommand) }

func (a *app) scopesCommand() *cobra.Command {
	return group("scopes", "Look at the scopes of the file", a.answering(&cobra.Command{
		Use:   "list",
		Short: "List the scopes with what they keep, by name",
		Long: `list counts what every scope of the file keeps, which takes as long as there are things. --scope does not matter to it. A scope comes
into being with the first thing in it, and stays.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.with(c.Context(), toRead, func(d *db.DB) error {
				list, err := maintenance.Scopes(c.Context(), d)
				if err != nil {
					return err
				}
				answer := scopesAnswer{Items: []scopeItem{}}
				g := &grid{
					header: []string{"scope", "runs", "live", "agents", "checkpoints", "workers", "bytes"},
					right:  []int{1, 2, 3, 4, 5, 6}, texts: []int{},
				}
				for _, s := range list {
					answer.Items = append(answer.Items, scopeItem(s))
					name := s.Name
					if name == "" {
						name = "(default)"
					}
					g.add(name, humanize.Comma(s.Runs), humanize.Comma(s.Live), humanize.Comma(s.Agents),
						humanize.Comma(s.Checkpoints),
						humanize.Comma(s.Workers), humanize.IBytes(uint64(s.Bytes)))
				}
				if a.json {
					return a.printJSON(answer)
				}
				return a.printGrid(g)
			})
		},
	}, scopesAnswer{}))
}
