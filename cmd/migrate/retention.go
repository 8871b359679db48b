package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/maintenance"
)

// storeLimits is how long a store keeps what has ended.
type storeLimits struct {
	Store string `json:"store"` // runs, live, agents, checkpoints, workers or state
	// where the limits come from: default, imported (the config.toml of a tree), set, or for gc flags
	Origin string `json:"origin"`
	// how long a thing is kept behind its end; null: no limit
	MaxAgeSeconds *float64 `json:"max_age_seconds"`
	// how many are kept of each agent (runs), session (live), thread (agents), run (checkpoints),
	// runtime (workers) or owner (state); null: no limit
	Keep     *int   `json:"keep"`
	MaxBytes *int64 `json:"max_bytes"` // bytes that are kept; null: no limit
	// when the limits were set or imported, RFC 3339, UTC; null: they were not
	SetAt *time.Time `json:"set_at"`
}

func limitsOf(r maintenance.StoreRetention) storeLimits {
	l := storeLimits{Store: r.Store, Origin: string(r.Origin), SetAt: orNull(r.SetAt)}
	if p := r.Policy; p.Age != 0 {
		l.MaxAgeSeconds = new(max(p.Age, 0).Seconds())
	}
	if p := r.Policy; p.Count != 0 {
		l.Keep = new(max(p.Count, 0))
	}
	if p := r.Policy; p.Bytes != 0 {
		l.MaxBytes = new(max(p.Bytes, 0))
	}
	return l
}

// words describes the limits for people.
func (l storeLimits) words() string {
	var words []string
	if l.MaxAgeSeconds != nil {
		words = append(words, roughly(time.Duration(*l.MaxAgeSeconds*float64(time.Second))))
	}
	if l.Keep != nil {
		words = append(words, fmt.Sprintf("%d of each", *l.Keep))
	}
	if l.MaxBytes != nil {
		words = append(words, size(*l.MaxBytes))
	}
	if len(words) == 0 {
		words = []string{"everything is kept"}
	}
	return strings.Join(words, ", ") + " (" + l.Origin + ")"
}

type retentionAnswer struct {
	Path   string               `json:"path"`   // the file, absolute
	Scope  string               `json:"scope"`  // the scope; empty is the default one
	Stores []storeLimits        `json:"stores"` // what is in force, store by store
	Pins   []maintenance.Pinned `json:"pins"`   // what no limit takes, by store and id
}

var _ = register("Care:", 90, func(a *app) *cobra.Command {
	return group("retention", "Show and set how long the stores keep what has ended",
		a.retentionShowCommand(), a.retentionSetCommand())
})

func (a *app) retentionShowCommand() *cobra.Command {
	return a.answering(&cobra.Command{
		Use:   "show",
		Short: "Show how long the stores keep what has ended, and what is pinned",
		Long: `show names the limits that gc goes by in the scope, and what is pinned. Nothing is removed by
itself: gc does it, or a program by Prune.`,
		RunE: a.on(toRead, a.showRetention),
	}, retentionAnswer{})
}

func (a *app) showRetention(ctx context.Context, d *db.DB, _ []string) error {
	answer := retentionAnswer{Path: d.Path(), Scope: a.scope, Pins: []maintenance.Pinned{}}
	inForce, err := maintenance.Retention(ctx, d, a.scope)
	if err != nil {
		return err
	}
	answer.Stores = each(inForce, limitsOf)
	for p, err := range everyItem(ctx, a, d, maintenance.Pins) {
		if err != nil {
			return err
		}
		answer.Pins = append(answer.Pins, p)
	}
	return a.answer(answer, func() {
		stores := &grid{header: []string{"store", "keeps", "since"}, times: []int{2}, texts: []int{1}}
		for i, l := range answer.Stores {
			stores.add(l.Store, l.words(), instant(inForce[i].SetAt))
		}
		a.printGrid(stores)
		if len(answer.Pins) == 0 {
			return
		}
		pinned := &grid{header: []string{"pinned in", "id", "of"}, texts: []int{}}
		for _, p := range answer.Pins {
			pinned.add(p.Store, p.ID, p.Owner)
		}
		a.print("\n")
		a.printGrid(pinned)
	})
}

func (a *app) retentionSetCommand() *cobra.Command {
	var f limitFlags
	var everything, byDefault bool
	var policy *db.Policy
	c := &cobra.Command{
		Use:   "set STORE [--max-age AGE] [--keep N] [--max-bytes SIZE] [--everything] [--default]",
		Short: "Set how long a store keeps what has ended",
		Long: `set replaces the limits of the store in the scope: what one of them does not keep goes at the next
gc. --everything keeps all, and --default goes back to what is in force where nobody has set anything: 50
runs of each agent and 30 days, and all of the other stores. STORE is runs, live, agents, checkpoints,
workers or state. A limit of 0 keeps nothing. It answers like show.`,
		ValidArgs: maintenance.Stores(),
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		PreRunE: func(c *cobra.Command, _ []string) (err error) {
			if policy, err = f.policy(c); err != nil {
				return err
			}
			ways := map[bool]int{}
			for _, given := range []bool{policy != nil, everything, byDefault} {
				ways[given]++
			}
			if ways[true] != 1 {
				return usage("name limits, or --everything, or --default")
			}
			return nil
		},
		RunE: a.on(toWrite, func(ctx context.Context, d *db.DB, args []string) (err error) {
			switch {
			case byDefault:
				err = maintenance.ResetRetention(ctx, d, a.scope, args[0])
			case everything:
				err = maintenance.SetRetention(ctx, d, a.scope, args[0], db.Policy{})
			default:
				err = maintenance.SetRetention(ctx, d, a.scope, args[0], *policy)
			}
			if err != nil {
				return err
			}
			return a.showRetention(ctx, d, nil)
		}),
	}
	f.add(c)
	c.Flags().BoolVar(&everything, "everything", false, "keep everything")
	c.Flags().BoolVar(&byDefault, "default", false, "go back to what is in force where nobody has set anything")
	return a.answering(c, retentionAnswer{})
}
