package legacy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"selvedge/db"
	"selvedge/runs"
)

const (
	// Limits that another tree of the scope brought stay.
	sqlPutLimits = `
INSERT INTO run_limits (scope, source, max_per_agent, max_age_days) VALUES (?, ?, ?, ?)
ON CONFLICT (scope) DO UPDATE SET max_per_agent = excluded.max_per_agent, max_age_days = excluded.max_age_days
WHERE run_limits.source = excluded.source`
	sqlDropLimits = `DELETE FROM run_limits WHERE scope = ? AND source = ?`
	sqlFindLimits = `SELECT max_per_agent, max_age_days FROM run_limits WHERE scope = ?`
)

// StoredLimits are the limits of retention that a scope's tree of run traces brought with it, from the config.toml beside
// it. ok is false where there are none other than the original's own, 50 runs per agent and 30 days.
func StoredLimits(ctx context.Context, d *db.DB, scope string) (limits runs.RetentionConfig, ok bool, err error) {
	err = d.Read(ctx, "read stored limits", func(rx *db.Rx) error {
		ok = false
		id, known, err := rx.Scope(scope)
		if err != nil || !known {
			return err
		}
		var row struct {
			MaxPerAgent uint64 `db:"max_per_agent"`
			MaxAgeDays  int64  `db:"max_age_days"`
		}
		ok, err = rx.Find(&row, sqlFindLimits, id)
		limits = runs.RetentionConfig(row)
		return err
	})
	return limits, ok, err
}

// takeLimits stores what carDir/config.toml says, as the original reads it. The original's own limits are not stored.
func takeLimits(ctx context.Context, d *db.DB, scope, root, carDir string) error {
	limits := runs.FromCarDir(carDir)
	return d.Write(ctx, "store limits", func(tx *db.Tx) error {
		s, err := addSource(tx, scope, Runs{}.Name(), root)
		if err != nil {
			return err
		}
		if limits == runs.DefaultRetention() {
			_, err = tx.Exec(sqlDropLimits, s.scope, s.id)
		} else {
			_, err = tx.Exec(sqlPutLimits, s.scope, s.id, int64(limits.MaxPerAgent), limits.MaxAgeDays)
		}
		return err
	})
}

// giveLimits writes the stored limits into dir/config.toml.
func giveLimits(ctx context.Context, d *db.DB, scope, dir string) error {
	limits, ok, err := StoredLimits(ctx, d, scope)
	if err != nil || !ok {
		return err
	}
	text := fmt.Sprintf("[runs]\nmax_per_agent = %d\nmax_age_days = %d\n", limits.MaxPerAgent, limits.MaxAgeDays)
	return os.WriteFile(filepath.Join(dir, "config.toml"), []byte(text), 0o600)
}
