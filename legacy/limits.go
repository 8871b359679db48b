package legacy

import (
	"context"

	"selvedge/db"
	traces "selvedge/legacy/internal/runs"
	"selvedge/runs"
)

// StoredLimits are the limits of retention that a scope's tree of run traces brought with it, from the config.toml beside
// it. ok is false where there are none other than the original's own, 50 runs per agent and 30 days.
func StoredLimits(ctx context.Context, d *db.DB, scope string) (limits runs.RetentionConfig, ok bool, err error) {
	return traces.StoredLimits(ctx, d, scope)
}
