package workers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"selvedge/db"
	pool "selvedge/internal/workers"
	"selvedge/legacy/internal/tree"
	runtimes "selvedge/workers"
)

// Export writes dir/runtimes/ID/. The original opens what it writes, also of runtimes that came from folders which it
// refuses; lines with words of later versions, which it refuses too, are written as they came all the same.
func (Layout) Export(ctx context.Context, t *tree.Tree) error {
	t.Root = filepath.Join(t.Root, runtimesFolder)
	if err := os.Mkdir(t.Root, 0o700); err != nil {
		return err
	}
	for r, err := range runtimes.NewRuntimes(t.DB, t.Scope).All(ctx, runtimes.RuntimeFilter{}) {
		if err == nil {
			err = (&exporter{t}).export(ctx, string(r.RuntimeID))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// An exporter writes the runtimes of a scope.
type exporter struct{ *tree.Tree }

func (x *exporter) export(ctx context.Context, id string) error {
	name := idName(id)
	if len(name) > tree.MaxName {
		x.Report.LeaveOut(name, fmt.Sprintf("runtime %q: its folder's name is too long", id))
		return nil
	}
	var ours pool.Exported
	err := x.DB.Read(ctx, "export runtime", func(rx *db.Rx) error {
		key, _, _, ok, err := pool.RowOf(rx, x.Scope, id)
		if err == nil && ok {
			ours, err = pool.ExportRuntime(rx, key)
		}
		return err
	})
	if err != nil || ours.Snapshot == nil {
		return err // removed meanwhile
	}
	if err := os.MkdirAll(filepath.Join(x.Root, name, workersFolder), 0o700); err != nil {
		return err
	}
	if err := x.write(name, runtimeFile, ours.Snapshot); err != nil {
		return err
	}
	if err := x.writeLines(name, eventsFile, ours.Events); err != nil {
		return err
	}
	x.wrote("runtime", 1)
	x.wrote("event", len(ours.Events))
	for _, w := range ours.Workers {
		if err := x.exportWorker(name+"/"+workersFolder, w); err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) exportWorker(folder string, w pool.ExportedWorker) error {
	name := idName(w.WorkerID)
	folder += "/" + name
	if len(name) > tree.MaxName {
		x.Report.LeaveOut(folder, fmt.Sprintf("worker %q: its folder's name is too long", w.WorkerID))
		return nil
	}
	x.wrote("worker", 1)
	x.wrote("entry", len(w.Entries))
	if err := x.write(folder, workerFile, w.Snapshot); err != nil {
		return err
	}
	return x.writeLines(folder, transcriptFile, w.Entries)
}

func (x *exporter) wrote(kind string, n int) {
	if n > 0 {
		x.Report.CountAll(tree.Tally{kind: int64(n)}, tree.New)
	}
}

func (x *exporter) writeLines(folder, name string, lines [][]byte) error {
	size := 0
	for _, line := range lines {
		size += len(line) + 1
	}
	text := make([]byte, 0, size)
	for _, line := range lines {
		text = append(append(text, line...), '\n')
	}
	return x.write(folder, name, text)
}

func (x *exporter) write(folder, name string, text []byte) error {
	path := folder + "/" + name
	problem, err := x.Write(path, text)
	if problem != "" {
		x.Report.LeaveOut(path, problem)
	}
	return err
}
