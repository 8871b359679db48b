package maintenance

import (
	"context"

	"selvedge/db"
	"selvedge/internal/engine"
)

// far is how far a step is, which reads the file through the stores or the tables.
type far struct {
	tell func(engine.Progress) // nil where nobody listens
	at   engine.Progress
}

// begin begins a step whose end is all that the file holds. Where somebody waits and that can't be
// read the end isn't known: of a damaged file the step itself says more.
func begin(ctx context.Context, d *db.DB, step string) *far {
	f := &far{engine.Telling(ctx), engine.Progress{Step: step}}
	if f.tell == nil {
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
	if f != nil && f.tell != nil {
		f.at.Done = min(f.at.Done+bytes, f.at.Total)
		f.tell(f.at)
	}
}
