package stores

import (
	"context"
	"time"

	"selvedge/db"
	"selvedge/internal/txn"
)

// A Retention is the retention policy of a store in a scope.
type Retention struct {
	Policy   db.Policy // the limits; db.KeepNone where nothing is retained
	SetAt    time.Time
	Imported bool // from the config.toml of a tree
}

const sqlRetention = `SELECT max_age, max_count, max_bytes, set_at, source FROM retention WHERE scope = ?
	AND store = ?`

// RetentionOf returns the limits that are set for a store of a scope; ok is false if none are.
func RetentionOf(ctx context.Context, d *db.DB, scope, store string) (r Retention, ok bool, err error) {
	if err := txn.CheckStore(store); err != nil {
		return r, false, err
	}
	err = d.Read(ctx, "read retention", func(rx *db.Rx) error {
		r, ok = Retention{}, false
		id, known, err := rx.Store().Scope(scope)
		if err != nil || !known {
			return err
		}
		var row struct {
			Age    *int64 `db:"max_age"`
			Count  *int64 `db:"max_count"`
			Bytes  *int64 `db:"max_bytes"`
			SetAt  int64  `db:"set_at"`
			Source *int64 `db:"source"`
		}
		ok, err = rx.Find(&row, sqlRetention, id, store)
		r = Retention{
			Policy: db.Policy{
				Age: time.Duration(limit(row.Age)), Count: int(limit(row.Count)), Bytes: limit(row.Bytes),
			},
			SetAt: db.Time(row.SetAt), Imported: row.Source != nil,
		}
		return err
	})
	return r, ok, err
}

// limit converts a column to a limit of db.Policy.
func limit(column *int64) int64 {
	switch {
	case column == nil:
		return 0
	case *column == 0:
		return db.KeepNone
	}
	return *column
}

// CheckPolicy returns ErrInvalid for a limit that is out of range.
func CheckPolicy(p db.Policy) error {
	if p.Age < db.KeepNone || p.Count < db.KeepNone || p.Bytes < db.KeepNone {
		err := txn.Invalid("0 is no limit, and db.KeepNone keeps nothing", "a limit below 0")
		return db.About(err, "prune", "", "", nil)
	}
	return nil
}
