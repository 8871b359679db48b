package maintenance

import (
	"context"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Pinned is an item that is exempt from retention.
type Pinned struct {
	Store string `json:"store"` // the store that keeps it
	ID    string `json:"id"`    // its id
	// the agent of a run or checkpoint, the runtime of a worker, the owner of a value; empty for others
	Owner string `json:"owner"`
}

const sqlPins = `SELECT store, id, owner FROM retention_pins WHERE scope = ?
	AND (store, id, owner) > (?, ?, ?) ORDER BY store, id, owner LIMIT ?`

// pinsList names this list in its cursors.
const pinsList = "pins"

// Pins returns a page of the pinned items of a scope, by store and id.
func Pins(ctx context.Context, d *db.DB, scope string, at db.At) (page db.Page[Pinned], err error) {
	room, err := paging.RoomFor(at.Limit)
	if err != nil {
		return page, err
	}
	err = d.Read(ctx, "list pins", func(rx *db.Rx) error {
		page = db.Page[Pinned]{}
		id, ok, err := rx.Store().Scope(scope)
		if err != nil {
			return err
		}
		var after Pinned
		err = rx.Store().ReadListCursor(pinsList, at.After, []int64{id}, &after.Store, &after.ID, &after.Owner)
		if err != nil || !ok {
			return err
		}
		items := txn.Each(rx.Store(), func(p *Pinned) (Pinned, error) { return *p, nil }, sqlPins, id,
			after.Store, after.ID, after.Owner, room.Items+1)
		page, err = stores.FillPage(room, items,
			func(p *Pinned) int { return 64 + len(p.Store) + len(p.ID) + len(p.Owner) },
			func(p *Pinned) string { return rx.Store().Cursor(pinsList, []int64{id}, p.Store, p.ID, p.Owner) })
		return err
	})
	return page, err
}
