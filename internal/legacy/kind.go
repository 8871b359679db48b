package legacy

import (
	"context"
	"fmt"
	"os"

	"selvedge/db"
)

// Kind is one of the old programs' layouts. Its methods may be called at the same time for different folders.
type Kind interface {
	// Name is the word on the command line.
	Name() string
	// Recognise says in a few words what of this kind lies under dir, and whether anything does.
	Recognise(dir string) (description string, ok bool, err error)
	// Import brings the tree under dir into the scope. It may be stopped, by ctx or by force, and run again at any point;
	// run twice it adds nothing. The report says how far it came even when there is an error.
	Import(ctx context.Context, d *db.DB, scope, dir string, o Options) (Report, error)
	// Verify reads the tree again and compares it with the file, record by record. Nothing is written.
	Verify(ctx context.Context, d *db.DB, scope, dir string, o Options) (Report, error)
	// Export writes the scope's records in the old layout into dir, which must be empty or not there.
	Export(ctx context.Context, d *db.DB, scope, dir string, o Options) (Report, error)
}

// Options are the choices of an import, a verification or an export. The zero value is the default.
type Options struct {
	// Progress, when set, is called now and then on the caller's goroutine. It must not use the database.
	Progress func(Progress)
	// BatchBytes is how much of a tree is written in one transaction, about; 0 means 4 MiB.
	BatchBytes int
}

// Progress is how far an import, a verification or an export is. The totals are counted before it starts.
type Progress struct {
	Files, TotalFiles int64
	Bytes, TotalBytes int64
}

// totals counts what a walk will meet, for whoever watches.
func (o Options) totals(at *Progress, root string, walk func(root string, file func(path string) error, ignored func(path, reason string) error) error) error {
	if o.Progress == nil {
		return nil
	}
	err := walk(root, func(path string) error {
		at.TotalFiles++
		if info, err := os.Stat(below(root, path)); err == nil && info.Mode().IsRegular() {
			at.TotalBytes += info.Size()
		}
		return nil
	}, func(string, string) error { return nil })
	if err == nil {
		o.Progress(*at)
	}
	return err
}

const defaultBatchBytes = 4 << 20

func (o Options) batchBytes() int {
	if o.BatchBytes <= 0 {
		return defaultBatchBytes
	}
	return o.BatchBytes
}

// Kinds are the layouts that this program knows, in the order in which auto tries them.
func Kinds() []Kind { return []Kind{Runs{}, Agents{}, Checkpoints{}, Workers{}, Live{}} }

// ByName gives the kind of that name; db.ErrInvalid if there is none.
func ByName(name string) (Kind, error) {
	for _, k := range Kinds() {
		if k.Name() == name {
			return k, nil
		}
	}
	return nil, fmt.Errorf("%w: no kind of tree is called %q", db.ErrInvalid, name)
}
