package engine

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"selvedge/internal/machine"
)

const (
	sqlSomeOwners   = `SELECT id FROM owners WHERE id > ? AND id <= ? ORDER BY id LIMIT ?`
	sqlEndsOfOwners = `SELECT coalesce((SELECT min(id) FROM owners), 0) AS first,
		coalesce((SELECT max(id) FROM owners), 0) AS last`
)

// ForgetDead examines atOnce owners, as documented at Tx.ForgetDeadOwners. forget deletes the rows
// of those that are dead and own nothing.
func ForgetDead(t Tx, after int64, atOnce int, forget func(ids []int64) error) (last int64, more bool,
	err error,
) {
	if after == 0 {
		var ends struct {
			First int64 `db:"first"`
			Last  int64 `db:"last"`
		}
		if err := t.Get(&ends, sqlEndsOfOwners, nil); err != nil || ends.Last == 0 {
			return 0, false, err
		}
		after = ends.First + rand.Int64N(ends.Last-ends.First+1)
	}
	var ids, before []int64
	if err := t.Select(&ids, sqlSomeOwners, []any{after, int64(math.MaxInt64), atOnce}); err != nil {
		return 0, false, err
	}
	more = len(ids) == atOnce
	if !more {
		if err := t.Select(&before, sqlSomeOwners, []any{0, after, atOnce - len(ids)}); err != nil {
			return 0, false, err
		}
	}
	if ids = append(ids, before...); len(ids) == 0 {
		return 0, more, nil
	}
	return ids[len(ids)-1], more, forget(ids)
}

// OwnerRow returns the row of this process for the table owners: token, pid, boot_id, program,
// registered_at, pid_ns and checksum.
func OwnerRow(token uuid.UUID, now time.Time) []any {
	row := []any{
		token[:], os.Getpid(), machine.BootID(), filepath.Base(os.Args[0]), now.UnixNano(), machine.PIDNamespace(),
	}
	return append(row, Checksum(row...))
}
