package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"selvedge/db"
)

// reserveScript takes, renews and releases reservations of anything that has a name.
func reserveScript() script {
	const port = "port"
	lasting := db.ReserveOptions{LeaseTerms: db.LeaseTerms{TTL: time.Hour}}
	take := func(ctx context.Context, s *session, name string) error {
		l, err := s.db.Reserve(ctx, port, name, lasting)
		s.kept[name] = l
		return err
	}
	held := func(s *session, name string) *db.Lease { return s.kept[name].(*db.Lease) }
	return script{
		name: "reserve",
		setup: func(ctx context.Context, s *session) error {
			return errors.Join(take(ctx, s, "renewed"), take(ctx, s, "released"), take(ctx, s, "held"),
				take(ctx, s, "taken"))
		},
		ops: []op{
			{
				name: "reserve",
				do:   func(ctx context.Context, s *session) error { return take(ctx, s, "new") },
				look: func(ctx context.Context, s *session) (trace,
					error,
				) {
					return lookForReservation(ctx, s, port, "new")
				},
			},
			{name: "renew", do: func(ctx context.Context, s *session) error { return held(s, "renewed").Renew(ctx) }},
			{
				name: "work under a lease",
				do: func(ctx context.Context, s *session) error {
					return held(s, "held").Hold(ctx, "work",
						func(tx *db.Tx) error { _, err := tx.Store().Scope("made under a lease"); return err })
				},
				look: lookForScope("made under a lease"),
			},
			{
				name: "recover",
				do: func(ctx context.Context, s *session) error {
					_, err := s.db.RecoverReservations(ctx, db.ReservationFilter{Scope: "others"})
					return err
				},
			},
			{
				name: "take away",
				do: func(ctx context.Context, s *session) error {
					return s.db.ReleaseReservation(ctx, "", port, "taken", held(s, "taken").Epoch())
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					what, err := lookForReservation(ctx, s, port, "taken")
					return there(what == absent), err
				},
			},
			{
				name: "release",
				do:   func(ctx context.Context, s *session) error { return held(s, "released").Release(ctx) },
				look: func(ctx context.Context, s *session) (trace, error) {
					what, err := lookForReservation(ctx, s, port, "released")
					return there(what == absent), err
				},
			},
		},
		whole: func(ctx context.Context, s *session) error {
			for _, name := range []string{"new", "renewed", "released", "held", "taken"} {
				got := 0
				for range 2 {
					_, err := s.db.Reserve(ctx, port, name, lasting)
					if err == nil {
						got++
					} else if !errors.Is(err, db.ErrConflict) {
						return err
					}
				}
				if got > 1 {
					return fmt.Errorf("%s %s was given away %d times", port, name, got)
				}
			}
			return nil
		},
	}
}

func lookForReservation(ctx context.Context, s *session, kind, name string) (trace, error) {
	n := 0
	for r, err := range s.db.AllReservations(ctx, db.ReservationFilter{Kind: kind}) {
		if err != nil {
			return "", err
		}
		if r.Name == name {
			n++
		}
	}
	return parts(n, 1), nil
}
