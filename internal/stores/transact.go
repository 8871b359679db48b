package stores

import (
	"context"
	"time"

	"selvedge/db"
)

// Get runs fn with in, such as DB.Read or DB.WriteLocked, and returns its result.
func Get[X, T any](ctx context.Context, in func(context.Context, string, func(X) error) error, why string,
	fn func(X) (T, error),
) (T, error) {
	v, _, err := Find(ctx, in, why, func(x X) (T, bool, error) {
		v, err := fn(x)
		return v, true, err
	})
	return v, err
}

// Find is Get for what may be missing.
func Find[X, T any](ctx context.Context, in func(context.Context, string, func(X) error) error, why string,
	fn func(X) (T, bool, error),
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

// A Sweep ends what may be ended among many things, such as the leases of the dead. It looks in
// reads, which are in nobody's way, and writes only about what it found there, judged again.
type Sweep[P any] struct {
	DB *db.DB
	Op string
	// Turn is after how long a transaction ends and lets other writers in.
	Turn time.Duration
	// Page returns the ids of what may be ended on the page behind the place after, the place that
	// the page ends with, and whether there are more.
	Page func(rx *db.Rx, after P) (ids []string, last P, more bool, err error)
	// End ends one thing if that may still be.
	End func(tx *db.Tx, id string) (ended bool, err error)
}

// Run sweeps from the place after on and counts what it ended. What it ended before an error stays
// so.
func (s Sweep[P]) Run(ctx context.Context, after P) (ended int, err error) {
	for more := true; more; {
		var ids []string
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

// end ends things until its turn is over, and tells how many it looked at.
func (s Sweep[P]) end(ctx context.Context, ids []string) (ended, looked int, err error) {
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
