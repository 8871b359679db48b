package storetest

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/state"
)

var ofState = store{
	"state",
	slices.Concat(lists[state.Ref, state.Filter, state.Item, state.Item](listedState).laws(),
		streams[state.Ref, state.Item](followedState).laws(), keeps(valuesOfState).laws()), nil,
}

func nthValue(n int) state.Ref { return state.Ref{Owner: "owner", Key: nth(n)} }

// quoted is a value that says text.
func quoted(text string) json.RawMessage { return json.RawMessage(`"` + text + `"`) }

func listedState(_ *testing.T, d *db.DB, scope string) things[state.Ref, state.Filter, state.Item,
	state.Item] {
	s := state.NewStore(d, state.Options{Scope: scope})
	return things[state.Ref, state.Filter, state.Item, state.Item]{
		lister: s,
		add: func(ctx context.Context, n int) (state.Ref, error) {
			_, err := s.Set(ctx, nthValue(n), quoted("value"))
			return nthValue(n), err
		},
		addTx: func(tx *db.Tx, n int) (state.Ref, error) {
			_, err := s.SetTx(tx, nthValue(n), quoted("value"))
			return nthValue(n), err
		},
		name:  func(ref state.Ref) string { return ref.Key },
		of:    func(i state.Item) state.Ref { return i.Ref },
		began: func(i state.Item) time.Time { return i.UpdatedAt }, unit: time.Nanosecond,
		prune: s.Prune, pins: s,
		big: func(ctx context.Context, n int, text string) (state.Ref, error) {
			_, err := s.Set(ctx, nthValue(n), quoted(text))
			return nthValue(n), err
		},
	}
}

func followedState(_ *testing.T, d *db.DB, scope string) followed[state.Ref, state.Item] {
	s := state.NewStore(d, state.Options{Scope: scope})
	return followed[state.Ref, state.Item]{
		states: true,
		add: func(ctx context.Context, n int) (state.Ref, error) {
			_, err := s.SetIf(ctx, nthValue(n), quoted(""), "")
			return nthValue(n), err
		},
		addTx: func(tx *db.Tx, n int) error {
			_, err := s.SetIfTx(tx, nthValue(n), quoted(""), "")
			return err
		},
		remove: s.Delete,
		append: func(tx *db.Tx, ref state.Ref, texts ...string) error {
			_, err := s.SetTx(tx, ref, quoted(texts[len(texts)-1]))
			return err
		},
		follow: s.Follow,
		followAll: func(ctx context.Context, _ string) iter.Seq2[state.Followed, error] {
			return s.FollowAll(ctx, state.Filter{Owner: new("owner")})
		},
		before: s.CursorBefore,
		says: func(_ context.Context, i state.Item) (text string) {
			_ = json.Unmarshal(i.Value, &text)
			return text
		},
	}
}

func valuesOfState(_ *testing.T, d *db.DB, scope string) []kept {
	s := state.NewStore(d, state.Options{Scope: scope})
	return []kept{{
		name: "value", json: true,
		refuses: []string{
			"half of a surrogate pair", "invalid UTF-8 in JSON", "a number beyond a float", "no JSON",
		},
		put: func(ctx context.Context, n int, value string) error {
			_, err := s.Set(ctx, nthValue(n), json.RawMessage(value))
			return err
		},
		get: func(ctx context.Context, n int) (string, error) {
			i, err := s.Get(ctx, nthValue(n))
			return string(i.Value), err
		},
	}}
}
