package state

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/serdejson"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// Options are the choices of NewStore. The zero value is the default.
type Options struct {
	// Scope is the part of the file that the store uses; "" is the default scope.
	Scope string
}

// A Store keeps the values of one scope. Its methods are safe for concurrent use, in any number of
// processes.
type Store struct {
	db    *db.DB
	scope string
}

// NewStore returns the store of a scope. It reads and writes nothing.
func NewStore(d *db.DB, o Options) *Store { return &Store{db: d, scope: o.Scope} }

// A Ref names a value.
type Ref struct {
	Owner string `db:"owner" json:"owner"`   // whose value it is; empty: nobody's
	Key   string `db:"state_key" json:"key"` // its name, one per owner
}

// An Item is a value with its name.
type Item struct {
	Ref
	Value     json.RawMessage `json:"value"`      // as it was set
	Version   string          `json:"version"`    // names this write of the value, for SetIf; no other has it
	UpdatedAt time.Time       `json:"updated_at"` // of the last write, RFC 3339, UTC
}

// A Filter selects the values of a list. The zero value selects all of them.
type Filter struct {
	Owner *string // only the values of this owner, which may be ""; nil means all
}

const (
	opGet    = "get value"
	opSet    = "set value"
	opDelete = "delete value"
	opList   = "list values"
	opFind   = "find values"
	// listName is that of the list in its cursors.
	listName = "state"
)

const (
	columns = `id, owner, state_key, value, updated_at, changes`
	sqlGet  = `SELECT ` + columns + ` FROM state_values WHERE scope = ? AND owner = ? AND state_key = ?`
	sqlAdd  = `INSERT INTO state_values (scope, owner, state_key, value, updated_at, checksum, changes)
VALUES (?, ?, ?, ?, ?, ?, 1) ON CONFLICT (scope, owner, state_key) `
	written = `RETURNING id, changes`
	sqlSet  = sqlAdd + `DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at,
	checksum = excluded.checksum, changes = state_values.changes + 1 ` + written
	sqlSetMissing = sqlAdd + `DO NOTHING ` + written
	sqlSetVersion = `UPDATE state_values SET value = ?, updated_at = ?, checksum = ?, changes = changes + 1
WHERE scope = ? AND owner = ? AND state_key = ? AND id = ? AND changes = ? ` + written
	sqlDelete = `DELETE FROM state_values WHERE scope = ? AND owner = ? AND state_key = ? RETURNING id`
	sqlPage   = `SELECT ` + columns + ` FROM state_values WHERE scope = ?`
	sqlFind   = `SELECT owner, state_key FROM state_values WHERE scope = ? AND state_key >= ? AND state_key < ?
	ORDER BY state_key, owner LIMIT ` + paging.BoundLimit
)

var valueByName = txn.Values.Rows(sqlKeyOf)

// Get returns a value. A missing one is ErrNotFound.
func (s *Store) Get(ctx context.Context, ref Ref) (Item, error) {
	return stores.Get(ctx, s.db.ReadSingle, opGet, stores.Bind(s.GetTx, ref))
}

// GetTx is Get inside a transaction.
func (s *Store) GetTx(rx *db.Rx, ref Ref) (Item, error) {
	var r row
	scope, there, err := s.look(rx, ref)
	if err == nil && there {
		there, err = rx.Find(&r, sqlGet, scope, ref.Owner, ref.Key)
	}
	if err == nil && !there {
		err = db.ErrNotFound
	}
	return r.item(), failed(opGet, ref.Key, err)
}

// Set writes a value, a JSON text, whatever was there, and returns its version. What is not JSON is
// ErrInvalid: UTF-8, at most 127 levels deep, no half of a surrogate pair, no number beyond a
// float64.
func (s *Store) Set(ctx context.Context, ref Ref, value json.RawMessage) (version string, err error) {
	return stores.Get(ctx, stores.On(s.db, txn.Values).Write, opSet, stores.Bind2(s.SetTx, ref, value))
}

// SetTx is Set inside a transaction.
func (s *Store) SetTx(tx *db.Tx, ref Ref, value json.RawMessage) (version string, err error) {
	return s.put(tx, ref, value, func(columns []any) (r row, err error) {
		return r, tx.Get(&r, sqlSet, columns...)
	})
}

// SetIf is Set if the value still has that version; "" means that there must be no value. If it has
// another version, or was deleted, the error is ErrConflict, and nothing is written.
func (s *Store) SetIf(
	ctx context.Context, ref Ref, value json.RawMessage, version string,
) (next string, err error) {
	return stores.Get(ctx, stores.On(s.db, txn.Values).Write, opSet, func(tx *db.Tx) (string, error) {
		return s.SetIfTx(tx, ref, value, version)
	})
}

// SetIfTx is SetIf inside a transaction.
func (s *Store) SetIfTx(
	tx *db.Tx, ref Ref, value json.RawMessage, version string,
) (next string, err error) {
	return s.put(tx, ref, value, func(columns []any) (r row, err error) {
		found := false
		if version == "" {
			found, err = tx.Find(&r, sqlSetMissing, columns...)
		} else {
			var was row
			if was, err = parseVersion(version); err == nil {
				found, err = tx.Find(&r, sqlSetVersion, columns[3], columns[4], columns[5], columns[0], columns[1],
					columns[2], was.ID, was.Changes)
			}
		}
		if err == nil && !found {
			err = fmt.Errorf("%w: the value does not have the version %q", db.ErrConflict, version)
		}
		return r, err
	})
}

// put checks a value, and has write put its columns: scope, owner, key, value, time and checksum.
func (s *Store) put(tx *db.Tx, ref Ref, value json.RawMessage, write func(columns []any) (row, error),
) (version string, err error) {
	err = cmp.Or(tx.Store().Of(s.db.Store()), ref.check())
	if why := serdejson.Check(value, 0); err == nil && why != "" {
		err = txn.Invalid("give a JSON text in UTF-8", "the value is no JSON: %s", why)
	}
	var scope int64
	if err == nil {
		scope, err = tx.Store().Scope(s.scope)
	}
	if err != nil {
		return "", failed(opSet, ref.Key, err)
	}
	if err := tx.Store().WillChange(valueByName, scope, ref.Owner, ref.Key); err != nil {
		return "", failed(opSet, ref.Key, err)
	}
	columns := []any{scope, ref.Owner, ref.Key, string(value), db.Nanos(tx.Now())}
	r, err := write(append(columns, txn.Checksum(columns...)))
	return r.version(), failed(opSet, ref.Key, err)
}

// Delete removes a value. A missing one is ErrNotFound.
func (s *Store) Delete(ctx context.Context, ref Ref) error {
	return stores.On(s.db, txn.Values).Remove(ctx, opDelete, stores.With(s.DeleteTx, ref))
}

// DeleteTx is Delete inside a transaction.
func (s *Store) DeleteTx(tx *db.Tx, ref Ref) error {
	scope, there, err := s.look(&tx.Rx, ref)
	if err == nil && there {
		var id int64 // by which a server tells followers
		there, err = tx.Find(&id, sqlDelete, scope, ref.Owner, ref.Key)
	}
	if err == nil && !there {
		err = db.ErrNotFound
	}
	return failed(opDelete, ref.Key, err)
}

// Page returns a page of the values that pass the filter, by owner and key.
func (s *Store) Page(ctx context.Context, f Filter, at db.At) (db.Page[Item], error) {
	return stores.Get(ctx, s.db.Read, opList, stores.Bind2(s.PageTx, f, at))
}

// PageTx is Page inside a transaction.
func (s *Store) PageTx(rx *db.Rx, f Filter, at db.At) (page db.Page[Item], err error) {
	page, err = s.page(rx, f, at)
	return page, failed(opList, "", err)
}

func (s *Store) page(rx *db.Rx, f Filter, at db.At) (page db.Page[Item], err error) {
	room, err := paging.RoomFor(at.Limit)
	if err = cmp.Or(err, rx.Store().Of(s.db.Store())); err != nil {
		return page, err
	}
	scope, there, err := rx.Store().Scope(s.scope)
	if err != nil || !there && at.After == "" {
		return page, err
	}
	query, args := sqlPage, []any{scope}
	if f.Owner != nil {
		query, args = query+` AND owner = ?`, append(args, *f.Owner)
	}
	if at.After != "" {
		var owner, key string
		if err := rx.Store().ReadListCursor(listName, at.After, []int64{scope}, &owner, &key); err != nil {
			return page, err
		}
		if f.Owner != nil && *f.Owner != owner {
			return page, txn.NotThisCursor(at.After)
		}
		if f.Owner != nil {
			query, args = query+` AND state_key > ?`, append(args, key)
		} else {
			query, args = query+` AND (owner, state_key) > (?, ?)`, append(args, owner, key)
		}
	}
	items := txn.Each(rx.Store(), func(r *row) (Item, error) { return r.item(), nil },
		query+` ORDER BY owner, state_key LIMIT `+paging.BoundLimit, append(args, room.Items+1)...)
	return stores.FillPage(room, items,
		func(i *Item) int { return 100 + len(i.Owner) + len(i.Key) + len(i.Value) },
		func(i *Item) string { return rx.Store().Cursor(listName, []int64{scope}, i.Owner, i.Key) })
}

// All iterates over the values that pass the filter, in the order of Page: see [paging.All].
func (s *Store) All(ctx context.Context, f Filter) iter.Seq2[Item, error] {
	return paging.All(func(at db.At) (db.Page[Item], error) { return s.Page(ctx, f, at) })
}

// Find returns the values with keys that begin with prefix, by key and owner; at most limit of
// them, with the rules of a page.
func (s *Store) Find(ctx context.Context, prefix string, limit int) ([]Ref, error) {
	return stores.Get(ctx, s.db.Read, opFind, stores.Bind2(s.FindTx, prefix, limit))
}

// FindTx is Find inside a transaction.
func (s *Store) FindTx(rx *db.Rx, prefix string, limit int) (found []Ref, err error) {
	found, err = stores.FindPrefix[Ref](rx, s.db, s.scope, "value", prefix, limit, sqlFind)
	return found, failed(opFind, prefix, err)
}

// look checks a ref and a transaction, and returns the number of the scope; there is false if
// nothing was ever written in it.
func (s *Store) look(rx *db.Rx, ref Ref) (scope int64, there bool, err error) {
	if err := cmp.Or(rx.Store().Of(s.db.Store()), ref.check()); err != nil {
		return 0, false, err
	}
	return rx.Store().Scope(s.scope)
}

func (r Ref) check() error {
	if r.Key == "" {
		return txn.Invalid("give the key of the value", "the key is empty")
	}
	return cmp.Or(txn.CheckID("value", r.Key), txn.CheckID("owner", r.Owner))
}

func (r Ref) pin() txn.Pinned { return txn.Pinned{Store: txn.StoreState, ID: r.Key, Owner: r.Owner} }

// A row is a row of the table, or a part of one.
type row struct {
	ID int64 `db:"id"`
	Ref
	Value     string `db:"value"`
	UpdatedAt int64  `db:"updated_at"`
	Changes   int64  `db:"changes"`
}

func (r *row) item() Item {
	if r.ID == 0 {
		return Item{}
	}
	return Item{r.Ref, json.RawMessage(r.Value), r.version(), db.Time(r.UpdatedAt)}
}

// version is the number of the row, which is never used again, and that of the write.
func (r *row) version() string {
	if r.ID == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d", r.ID, r.Changes)
}

func parseVersion(text string) (r row, err error) {
	_, err = fmt.Sscanf(text, "%d.%d", &r.ID, &r.Changes)
	if err != nil || r.version() != text {
		return r, txn.Invalid("give the version that Get or Set returned", "%q is no version", text)
	}
	return r, nil
}

// failed adds the key to an error without one.
func failed(op, key string, err error) error {
	if key == "" {
		return db.About(err, op, "", "", hintFor)
	}
	return db.About(err, op, "value", key, hintFor)
}

// hintFor returns what a person can do about an error that has no hint of its own.
func hintFor(err error) string {
	switch {
	case errors.Is(err, db.ErrNotFound):
		return "see what there is: migrate state list"
	case errors.Is(err, db.ErrConflict):
		return "read the value, and set it again with its version"
	}
	return ""
}
