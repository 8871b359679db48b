package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"selvedge/db"
)

// reservationItem is an item of reservations list --json.
type reservationItem struct {
	Kind  string `json:"kind"`  // sort of thing
	Name  string `json:"name"`  // which one of that sort
	Epoch int64  `json:"epoch"` // grows with every reservation in the file
	// held, expired, dead (its process is gone), or unknown (its process can't be asked)
	State      db.LeaseState `json:"state"`
	ReservedAt time.Time     `json:"reserved_at"` // RFC 3339, UTC
	RenewedAt  time.Time     `json:"renewed_at"`  // RFC 3339, UTC; reserved_at where it never was
	// it lasts so long from each renewal; null: as long as its process lives
	TTLSeconds *float64 `json:"ttl_seconds"`
	PID        *int     `json:"pid"`     // process that it ends with; null: it outlives its process
	Program    *string  `json:"program"` // that process's program; null as pid
	Note       string   `json:"note"`    // what the holder wants it for; may be empty
}

func reservationOf(r db.Reservation) reservationItem {
	item := reservationItem{
		Kind: r.Kind, Name: r.Name, Epoch: r.Epoch, State: r.State, ReservedAt: r.ReservedAt,
		RenewedAt: r.RenewedAt, TTLSeconds: orNull(r.TTL.Seconds()), Note: r.Note,
	}
	if !r.Detached {
		item.PID, item.Program = &r.PID, &r.Program
	}
	return item
}

type reservationAnswer struct {
	Kind  string `json:"kind"`  // sort of thing
	Name  string `json:"name"`  // which one of that sort
	Epoch int64  `json:"epoch"` // of the reservation that was taken away
}

var _ = register("Care:", 70, func(a *app) *cobra.Command {
	return group("reservations", "Look at what is reserved, and release what is stuck",
		a.reservationsListCommand(), a.reservationsReleaseCommand())
})

func (a *app) reservationsListCommand() *cobra.Command {
	var kind string
	c := &cobra.Command{
		Use:   "list [--kind KIND] [--limit N] [--after CURSOR] [--all]",
		Short: "List what is reserved, by kind and name",
		Long: `list shows the reservations of the scope: ports, worktrees, paths, whatever programs reserve. Those
that are over and that nobody has taken since are shown too, as expired or dead; they are in nobody's way.`,
	}
	c.Flags().StringVar(&kind, "kind", "", "only reservations of this `KIND`")
	return list(a, c, listing[reservationItem]{
		page: func(ctx context.Context, d *db.DB, scope string, at db.At) (db.Page[reservationItem], error) {
			list, err := d.Reservations(ctx, db.ReservationFilter{Scope: scope, Kind: kind}, at)
			return db.Page[reservationItem]{Items: each(list.Items, reservationOf), Next: list.Next}, err
		},
		grid: grid{
			header: []string{"kind", "name", "state", "epoch", "since", "pid", "program", "for"},
			right:  []int{3, 5},
			times:  []int{4}, texts: []int{1, 6, 7}, least: []int{3, 5, 6, 7},
		},
		row: func(r reservationItem) []string {
			return []string{
				r.Kind, r.Name, string(r.State), fmt.Sprint(r.Epoch), instant(r.ReservedAt), value(r.PID),
				value(r.Program), cut(r.Note, 60),
			}
		},
	})
}

func (a *app) reservationsReleaseCommand() *cobra.Command {
	var epoch int64
	c := &cobra.Command{
		Use:   "release KIND NAME [--epoch N]",
		Short: "Take a reservation away from its holder",
		Long: `release is for a holder that is not coming back: stopped, or on a machine that is gone. The holder
is not asked; what it does under the reservation is refused from then on. --epoch makes sure that it is the
reservation that list showed.`,
		Args: cobra.ExactArgs(2),
		RunE: a.on(toWrite, func(ctx context.Context, d *db.DB, args []string) error {
			kind, name, epoch := args[0], args[1], epoch
			if epoch == 0 {
				held, _, err := d.Reservation(ctx, a.scope, kind, name)
				if err != nil {
					return err
				}
				epoch = held.Epoch
			}
			if err := d.ReleaseReservation(ctx, a.scope, kind, name, epoch); err != nil {
				return err
			}
			return a.answerLine(reservationAnswer{kind, name, epoch}, "%s %s is free\n", kind, name)
		}),
	}
	c.Flags().Int64Var(&epoch, "epoch", 0, "only if it has this `EPOCH`")
	return a.answering(c, reservationAnswer{})
}
