package maintenance

import (
	"context"
	"errors"
	"slices"

	"selvedge/db"
)

// A Recovery says what Recover did in one scope.
type Recovery struct {
	Scope        string
	Checkpoints  int // claims of the dead: their runs wait again
	Runs         int // traces that were held
	Live         int // live runs that were held
	Agents       int // agents that were active and are abandoned now: an agent is its process
	Reservations int // those that were over; that of a run goes with it, and is not counted
}

// Recover gives back, in every store and every scope, what only the dead held: it is Recover of
// checkpoints, runs, live runs and agents, and RecoverReservations. It ends no run: the next holder
// resumes it. It is safe at any time, from anywhere: what a process that lives or is stopped holds
// stays, this one's too, whichever handle took it. Workers hold nothing that dies with a process. A
// program calls it when it starts, and when it finds that something is held.
//
// It gives the scopes in which there was something to do. What can't be recovered keeps nobody from
// what can: the error then joins all that were met. It works in short transactions, and what it did
// before an error stays done.
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
