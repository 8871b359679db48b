package main

import (
	"context"
	"encoding/json"
	"errors"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/state"
)

func values(s *session) *state.Store { return state.NewStore(s.db, state.Options{}) }

func valueOf(key string) state.Ref { return state.Ref{Owner: "owner", Key: key} }

// stateScript sets, replaces, removes, pins and prunes values.
func stateScript() script {
	before, after := json.RawMessage(`"before"`), json.RawMessage(`"after"`)
	return script{
		name: "state",
		setup: func(ctx context.Context, s *session) error {
			for _, key := range []string{"replaced", "compared", "removed", "pinned", "unpinned", "pruned"} {
				version, err := values(s).Set(ctx, valueOf(key), before)
				if err != nil {
					return err
				}
				s.kept[key] = version
			}
			return values(s).Pin(ctx, valueOf("unpinned"))
		},
		ops: []op{
			{
				name: "set a new value",
				do: func(ctx context.Context, s *session) error {
					_, err := values(s).Set(ctx, valueOf("new"), after)
					return err
				},
				look: lookForValue("new", `"after"`),
			},
			{
				name: "replace a value",
				do: func(ctx context.Context, s *session) error {
					_, err := values(s).Set(ctx, valueOf("replaced"), after)
					return err
				},
				look: lookForValue("replaced", `"after"`),
			},
			{
				name: "replace a version",
				do: func(ctx context.Context, s *session) error {
					_, err := values(s).SetIf(ctx, valueOf("compared"), after, s.kept["compared"].(string))
					return err
				},
				look: lookForValue("compared", `"after"`),
			},
			{
				name: "remove a value",
				do:   func(ctx context.Context, s *session) error { return values(s).Delete(ctx, valueOf("removed")) },
				look: lookForValue("removed", ""),
			},
			{
				name: "pin a value",
				do:   func(ctx context.Context, s *session) error { return values(s).Pin(ctx, valueOf("pinned")) },
				look: lookForPin(maintenance.StoreState, "pinned", true),
			},
			{
				name: "unpin a value",
				do:   func(ctx context.Context, s *session) error { return values(s).Unpin(ctx, valueOf("unpinned")) },
				look: lookForPin(maintenance.StoreState, "unpinned", false),
			},
			{
				name: "prune values",
				do: func(ctx context.Context, s *session) error {
					_, err := values(s).Prune(ctx, db.Policy{
						Age:    db.KeepNone,
						Pinned: []string{"new", "replaced", "compared", "removed", "pinned", "unpinned"},
					})
					return err
				},
				look: lookForValue("pruned", ""),
			},
		},
	}
}

// lookForValue reports whether a value is as an op leaves it; "" is missing.
func lookForValue(key, want string) func(context.Context, *session) (trace, error) {
	return func(ctx context.Context, s *session) (trace, error) {
		item, err := values(s).Get(ctx, valueOf(key))
		if errors.Is(err, db.ErrNotFound) {
			err = nil
		}
		return there(string(item.Value) == want), err
	}
}
