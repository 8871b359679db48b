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
		RenewedAt: r.RenewedAt, Note: r.Note,
	}
	if r.TTL > 0 {
		seconds := r.TTL.Seconds()
		item.TTLSeconds = &seconds
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

func init() { register(groupCare, (*app).reservationsCommand) }

func (a *app) reservationsCommand() *cobra.Command {
	return group("reservations", "Look at what is reserved, and release what is stuck",
		a.reservationsListCommand(), a.reservationsReleaseCommand())
}

func (a *app) reservationsListCommand() *cobra.Command {
	f := &listFlags{}
	var kind string
	c := &cobra.Command{
		Use:   "list [--kind KIND] [--limit N] [--after CURSOR] [--all]",
		Short: "List what is reserved, by kind and name",
		Long: `list shows the reservations of the scope: ports, worktrees, paths, whatever programs reserve. Those that are over and that
nobody has taken since are shown too, as expired or dead; they are in nobody's way.`,
	}
	c.Flags().StringVar(&kind, "kind", "", "only reservations of this `KIND`")
	return list(a, c, f, listing[reservationItem]{
		page: func(ctx context.Context, d *db.DB, at db.At) (page db.Page[reservationItem], err error) {
			filter := db.ReservationFilter{Scope: a.scope, Kind: kind}
			list, err := d.Reservations(ctx, filter, at)
			page.Next = list.Next
			for _, r := range list.Items {
				page.Items = append(page.Items, reservationOf(r))
			}
			return page, err
		},
		grid: grid{
			header: []string{"kind", "name", "state", "epoch", "since", "pid", "program", "for"},
			right:  []int{3, 5},
			times:  []int{4}, texts: []int{1, 6, 7}, least: []int{3, 5, 6, 7},
		},
		row: func(r reservationItem) []string {
			pid, program := "", ""
			if r.PID != nil {
				pid, program = fmt.Sprint(*r.PID), *r.Program
			}
			return []string{
				r.Kind, r.Name, string(r.State), fmt.Sprint(r.Epoch), instant(r.ReservedAt), pid, program,
				cut(r.Note, 60),
			}
		},
	})
}

func (a *app) reservationsReleaseCommand() *cobra.Command {
	var epoch int64
	c := &cobra.Command{
		Use:   "release KIND NAME [--epoch N]",
		Short: "Take a reservation away from its holder",
		Long: `release is for a holder that is not coming back: stopped, or on a machine that is gone. The holder is not asked; what it does
under the reservation is refused from then on. --epoch makes sure that it is the reservation that list showed.`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(c.Context(), toWrite, func(d *db.DB) error {
				return a.releaseReservation(c.Context(), d, args[0], args[1], epoch)
			})
		},
	}
	c.Flags().Int64Var(&epoch, "epoch", 0, "only if it has this `EPOCH`")
	return a.answering(c, reservationAnswer{})
}

func (a *app) releaseReservation(ctx context.Context, d *db.DB, kind, name string, epoch int64) error {
	if epoch == 0 {
		held, ok, err := d.Reservation(ctx, a.scope, kind, name)
		if err != nil {
			return err
		}
		if ok {
			epoch = held.Epoch
		}
	}
	if err := d.ReleaseReservation(ctx, a.scope, kind, name, epoch); err != nil {
		return err
	}
	return a.say(reservationAnswer{kind, name, epoch}, "%s %s is free\n", printable(kind), printable(name))
}
