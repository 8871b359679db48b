package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/state"
)

type stateSetAnswer struct {
	Owner   string `json:"owner"`   // whose value it is; empty: nobody's
	Key     string `json:"key"`     // its name
	Version string `json:"version"` // of the value that was written
}

var _ = register("Look:", 80, func(a *app) *cobra.Command {
	return a.group(stateNoun, "Look at values of state, and set and pin them",
		a.stateListCommand(), a.stateGetCommand(), a.stateSetCommand())
})

var stateNoun = noun{
	store: maintenance.StoreState, entity: "value", some: "a value", written: "--owner %[2]s %[1]s",
	owner: "owner", ownerUsage: "the value's owner `ID`",
	open: func(a *app, d *db.DB) verbs {
		s := a.stateStore(d)
		return verbs{
			find: findValues(s), pin: by(stateRef, s.Pin), unpin: by(stateRef, s.Unpin),
			remove: by(stateRef, s.Delete),
		}
	},
}

func (a *app) stateStore(d *db.DB) *state.Store {
	return state.NewStore(d, state.Options{Scope: a.scope})
}

func stateRef(t thing) state.Ref { return state.Ref{Owner: t.owner, Key: t.id} }

// findValues finds values by the beginning of their key. Many owners may have the same keys, so the
// whole key of one is looked up first.
func findValues(s *state.Store) findThings {
	begin := findOwned(s.Find, func(r state.Ref) thing { return thing{r.Key, r.Owner} })
	return func(ctx context.Context, prefix string, owner *string, limit int) ([]thing, error) {
		if owner != nil && prefix != "" {
			if _, err := s.Get(ctx, state.Ref{Owner: *owner, Key: prefix}); !errors.Is(err, db.ErrNotFound) {
				return []thing{{prefix, *owner}}, err
			}
		}
		return begin(ctx, prefix, owner, limit)
	}
}

func (a *app) stateListCommand() *cobra.Command {
	var f state.Filter
	c := &cobra.Command{
		Use:   "list [--owner ID] [--limit N] [--after CURSOR] [--all]",
		Short: "List values of state, by owner and key",
		Long: `list shows the values of the scope under their owners and keys. With --owner '', it shows the values
that are nobody's.`,
	}
	a.textFlag(c, &f.Owner, "owner", "only values of this owner `ID`")
	return list(a, c, listing[state.Item]{
		page: func(ctx context.Context, d *db.DB, _ string, at db.At) (db.Page[state.Item], error) {
			return a.stateStore(d).Page(ctx, f, at)
		},
		grid: grid{
			header: []string{"key", "owner", "version", "updated", "value"},
			times:  []int{3}, ids: []int{0}, texts: []int{1, 4}, least: []int{2},
		},
		row: func(i state.Item) []string {
			return []string{i.Key, i.Owner, i.Version, instant(i.UpdatedAt), cut(string(i.Value), 60)}
		},
	})
}

func (a *app) stateGetCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "get KEY",
		Short: "Show a value of state",
		Long: `get prints the value, which is JSON. It takes a key, or the beginning of one where no other begins
so.`,
	}
	return a.answering(a.one(stateNoun, toRead, c, func(ctx context.Context, d *db.DB, t thing) error {
		i, err := a.stateStore(d).Get(ctx, stateRef(t))
		if err != nil {
			return err
		}
		return a.answerLine(i, "%s\n", string(i.Value))
	}), state.Item{})
}

func (a *app) stateSetCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "set KEY JSON [--owner ID] [--if VERSION]",
		Short: "Set a value of state",
		Long: `set writes a value, which must be JSON: a text needs its quotes. KEY must be whole. With --if it
writes only if the value still has that version; with --if '', only if there is none.`,
		Args: cobra.ExactArgs(2),
	}
	owner := c.Flags().String("owner", "", stateNoun.ownerUsage)
	c.Flags().String("if", "", "only if the value has this `VERSION`")
	c.RunE = a.on(toWrite, func(ctx context.Context, d *db.DB, args []string) (err error) {
		s, ref := a.stateStore(d), state.Ref{Owner: *owner, Key: args[0]}
		answer := stateSetAnswer{Owner: ref.Owner, Key: ref.Key}
		if version := given(c, "if"); version != nil {
			answer.Version, err = s.SetIf(ctx, ref, json.RawMessage(args[1]), *version)
		} else {
			answer.Version, err = s.Set(ctx, ref, json.RawMessage(args[1]))
		}
		if err != nil {
			return err
		}
		return a.answerLine(answer, "set the %s, version %s\n", stateNoun.name(thing{ref.Key, ref.Owner}),
			answer.Version)
	})
	return a.answering(c, stateSetAnswer{})
}
