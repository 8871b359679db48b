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
