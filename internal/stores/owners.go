package stores

import (
	"context"

	"selvedge/db"
	"selvedge/internal/engine"
)

// ForgetDeadOwners deletes the rows of all dead processes that nothing refers to any more, in as
// many transactions as needed.
func ForgetDeadOwners(ctx context.Context, d *db.DB) error {
	for after, more := engine.BeforeOwners, true; more; {
		last := after
		err := d.Write(ctx, "forget dead owners", func(tx *db.Tx) (err error) {
			last, more, err = tx.Store().ForgetDeadOwnersAfter(after)
			return err
		})
		if err != nil {
			return err
		}
		after = last
	}
	return nil
}

// IsOthers reports whether the owner is another live process; nil is none.
func IsOthers(rx *db.Rx, owner *int64) (bool, error) {
	if owner == nil {
		return false, nil
	}
	if own, err := rx.Store().Owns(*owner); own || err != nil {
		return false, err
	}
	return rx.Store().OwnerAlive(*owner)
}
