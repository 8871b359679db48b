package stores

import (
	"context"
	"errors"
	"time"

	"selvedge/db"
	"selvedge/internal/txn"
)

// A Writer begins the transactions of calls that change things of one kind.
type Writer struct {
	db   *db.DB
	kind txn.Kind
}

// On returns the Writer for the things of a kind in a database.
func On(d *db.DB, kind txn.Kind) Writer { return Writer{d, kind} }

// Write runs fn in a transaction, as the kind requires.
func (w Writer) Write(ctx context.Context, why string, fn func(*db.Tx) error) error {
	if w.kind.Serializable() {
		return w.db.Write(ctx, why, fn)
	}
	return w.db.WriteLocked(ctx, why, fn)
}

// End is Write for a function that ends a thing of a kind with row locks, which can be removed only after
// its end. It works on a full disk: see [db.DB.WriteEnd].
func (w Writer) End(ctx context.Context, why string, fn func(*db.Tx) error) error {
	return w.db.WriteEnd(ctx, why, fn)
}

// Remove is Write for a function that removes something. It works on a full disk: see [db.DB.Reclaim].
func (w Writer) Remove(ctx context.Context, why string, fn func(*db.Tx) error) error {
	if w.kind.Serializable() {
		return w.db.Reclaim(ctx, why, fn)
	}
	return w.db.Reclaim(ctx, why, func(tx *db.Tx) error {
		if err := tx.Store().LockRows(); err != nil {
			return err
		}
		return fn(tx)
	})
}

// In is a call that runs a function in a transaction, such as DB.Read or Writer.Write.
type In[X any] = func(ctx context.Context, why string, fn func(X) error) error

// Get runs fn with in and returns its result.
func Get[X, T any](ctx context.Context, in In[X], why string, fn func(X) (T, error)) (T, error) {
	v, _, err := Find(ctx, in, why, func(x X) (T, bool, error) {
		v, err := fn(x)
		return v, true, err
	})
	return v, err
}

// Bind fixes the argument of fn after the transaction, for Get.
func Bind[X, A, T any](fn func(X, A) (T, error), a A) func(X) (T, error) {
	return func(x X) (T, error) { return fn(x, a) }
}

// Bind2 is Bind for two arguments.
func Bind2[X, A, B, T any](fn func(X, A, B) (T, error), a A, b B) func(X) (T, error) {
	return func(x X) (T, error) { return fn(x, a, b) }
}

// With fixes the argument of fn after the transaction, for a Writer.
func With[A any](fn func(*db.Tx, A) error, a A) func(*db.Tx) error {
	return func(tx *db.Tx) error { return fn(tx, a) }
}

// Find is Get for what may be missing.
func Find[X, T any](ctx context.Context, in In[X], why string, fn func(X) (T, bool, error),
) (v T, ok bool, err error) {
	err = in(ctx, why, func(x X) (err error) {
		v, ok, err = fn(x)
		return err
	})
	if err != nil {
		var none T
		return none, false, err
	}
	return v, ok, nil
}

// TakeUp returns what fn holds by a lease, also with an unknown outcome: Reattach with its epoch
// then finds out.
func TakeUp[H any](ctx context.Context, in In[*db.Tx], op string, fn func(*db.Tx) (*H, error),
) (held *H, err error) {
	err = in(ctx, op, func(tx *db.Tx) (err error) {
		held, err = fn(tx)
		return err
	})
	if err != nil && !errors.Is(err, db.ErrOutcomeUnknown) {
		return nil, err
	}
	return held, err
}

// Put writes a row whose last column is the checksum of the others.
func Put(tx *db.Tx, query string, columns ...any) error {
	return tx.Store().Queue(query, append(columns, txn.Checksum(columns...))...)
}

// ByID gives an error of db about a lease the id of the item, if it names the number of the item's row.
func ByID(err error, number, id string) error {
	e, ok := errors.AsType[*db.Error](err)
	if !ok || e.ID != number {
		return err
	}
	about := *e
	about.ID = id
	return &about
}

// A Sweep ends what may be ended among many things, such as the leases of dead processes. It
// searches in reads, which block nobody, and writes only to end what it found, after checking it
// again.
type Sweep[P, ID any] struct {
	DB *db.DB
	Op string
	// Turn is the time after which a transaction ends to let other writers in.
	Turn time.Duration
	// Page returns the ids of what may be ended on the page after a place, the place at which the
	// page ends, and whether there are more pages.
	Page func(rx *db.Rx, after P) (ids []ID, last P, more bool, err error)
	// End ends one thing if it still may be ended.
	End func(tx *db.Tx, id ID) (ended bool, err error)
}

// Run sweeps from the place after on, and returns how many things it ended. After an error, what it
// ended before stays ended.
func (s Sweep[P, ID]) Run(ctx context.Context, after P) (ended int, err error) {
	for more := true; more; {
		var ids []ID
		from := after
		err := s.DB.Read(ctx, s.Op, func(rx *db.Rx) (err error) {
			ids, after, more, err = s.Page(rx, from)
			return err
		})
		for err == nil && len(ids) > 0 {
			var n, looked int
			n, looked, err = s.end(ctx, ids)
			ended, ids = ended+n, ids[looked:]
		}
		if err != nil {
			return ended, err
		}
	}
	return ended, nil
}

// end ends things until its turn is over, and reports how many it examined.
func (s Sweep[P, ID]) end(ctx context.Context, ids []ID) (ended, looked int, err error) {
	err = s.DB.Write(ctx, s.Op, func(tx *db.Tx) error {
		ended, looked = 0, 0
		for began := time.Now(); looked < len(ids); {
			done, err := s.End(tx, ids[looked])
			if err != nil {
				return err
			}
			if done {
				ended++
			}
			if looked++; time.Since(began) >= s.Turn {
				break
			}
		}
		return tx.Store().ForgetDeadOwners()
	})
	if err != nil {
		return 0, 0, err
	}
	return ended, looked, nil
}
