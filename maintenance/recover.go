package maintenance

import (
	"context"
	"errors"
	"slices"

	"selvedge/db"
)

// A Recovery counts what Recover did in one scope.
type Recovery struct {
	Scope        string
	Checkpoints  int // claims of dead processes: their runs wait again
	Runs         int // traces that were held
	Live         int // live runs that were held
	Agents       int // active agents that are abandoned now, because their process is dead
	Reservations int // that were over; that of a run goes with the run, and is not counted
}

// Recover frees, in every store and every scope, what dead processes held. It calls Recover of
// checkpoints, runs, live runs and agents, and RecoverReservations. It ends no run: the next holder
// resumes it. It is safe at any time, from any process: what living or stopped processes hold
// stays, this process included, whichever handle took it. Workers hold nothing that dies with a
// process. Call Recover when a program starts, and when something is found held.
//
// It returns the scopes in which it did something. An error in one store does not stop the others:
// the errors are joined. Recover works in short transactions; what it did before an error stays
// done.
func Recover(ctx context.Context, d *db.DB) (done []Recovery, err error) {
	scopes, err := scopesOf(ctx, d)
	for _, scope := range scopes {
		was := Recovery{Scope: scope}
		one := was
		for _, s := range slices.Concat(all, others) {
			if s.recovered == nil {
				continue
			}
			held := s.open(d, scope).(interface {
				Recover(context.Context) (int, error)
			})
			n, failed := held.Recover(ctx)
			*s.recovered(&one) = n
			if err = errors.Join(err, failed); failed != nil && ctx.Err() != nil {
				break
			}
		}
		if one != was {
			done = append(done, one)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return done, err
}

func scopesOf(ctx context.Context, d *db.DB) (names []string, err error) {
	err = d.Read(ctx, "list scopes", func(rx *db.Rx) error {
		return rx.Select(&names, `SELECT name FROM scopes ORDER BY id`)
	})
	return names, err
}
