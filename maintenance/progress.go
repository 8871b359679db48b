package maintenance

import (
	"context"

	"selvedge/db"
)

// far is how far a step is, which reads the file through the stores or the tables.
type far struct {
	ctx context.Context
	at  db.Progress
}

// begin begins a step whose end is all that the file holds. Where somebody waits and that can't be
// read the end isn't known: of a damaged file the step itself says more.
func begin(ctx context.Context, d *db.DB, step string) *far {
	f := &far{ctx, db.Progress{Step: step}}
	if !db.TellsProgress(ctx) {
		return f
	}
	if h, err := d.Health(ctx); err == nil {
		f.at.Total = (h.Pages - h.FreePages) * h.PageSize
	}
	f.more(0)
	return f
}

// more tells that so many bytes more are done; nil tells nobody.
func (f *far) more(bytes int64) {
	if f != nil {
		f.at.Done = min(f.at.Done+bytes, f.at.Total)
		db.TellProgress(f.ctx, f.at)
	}
}
