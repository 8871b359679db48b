package maintenance

import (
	"context"

	"selvedge/db"
	"selvedge/internal/engine"
)

// far is the progress of a step that reads the file through the stores or the tables.
type far struct {
	tell func(engine.Progress) // nil without a listener
	at   engine.Progress
}

// begin begins a step. Its total is the size of the used pages of the file, if there is a listener
// and the size can be read. For a damaged file the total is unknown; the step itself reports the
// damage.
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

// more adds bytes to the progress and reports it; a nil far does nothing.
func (f *far) more(bytes int64) {
	if f != nil && f.tell != nil {
		f.at.Done = min(f.at.Done+bytes, f.at.Total)
		f.tell(f.at)
	}
}
