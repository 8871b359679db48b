// Package state is a small key-value store: JSON values under an owner and a key, such as the state
// of an application, of its users, or of an agent between runs.
//
//	store := state.NewStore(d, state.Options{})
//	ref := state.Ref{Owner: "ada", Key: "theme"}
//	_, err := store.Set(ctx, ref, []byte(`"dark"`))
//	item, err := store.Get(ctx, ref)
//	_, err = store.SetIf(ctx, ref, []byte(`"light"`), item.Version) // unless it was written meanwhile
//
// It promises that a value comes back byte for byte, that a write is durable when it returns, that
// of several [Store.SetIf] with one version exactly one wins, and that a follower never receives an
// older value after a newer one.
//
// # Caveats
//
// Only the last value of a key is kept. Followers receive states, not events: of several writes
// between two polls, the last one.
//
// Values stay until they are deleted or a limit of retention removes them. For retention, a value
// is as old as its last write: reading does not renew it. [Store.Pin] protects one from every limit.
//
// A value with the escape \u0000 is kept, but PostgreSQL can't convert it to jsonb.
package state
