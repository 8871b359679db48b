package legacy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"selvedge/db"
	"selvedge/internal/workers"
	runtimes "selvedge/workers"
)

// Export writes dir/runtimes/ID/. The original opens what it writes, also of runtimes that came from folders which it
// refuses; lines with words of later versions, which it refuses too, are written as they came all the same.
func (Workers) Export(ctx context.Context, d *db.DB, scope, dir string, o Options) (Report, error) {
	x := &workersImport{d: d, scope: scope, o: o}
	dir, err := filepath.Abs(dir)
	x.report = newReport(x.name(), scope, dir)
	if err != nil {
		return x.report, err
	}
	if err := emptyFolder(dir); err != nil {
		return x.report, err
	}
	x.root = filepath.Join(dir, runtimesFolder)
	if err := os.Mkdir(x.root, 0o700); err != nil {
		return x.report, err
	}
	for r, err := range runtimes.NewRuntimes(d, scope).All(ctx, runtimes.RuntimeFilter{}) {
		if ctx.Err() != nil {
			return x.report, interrupted(ctx, "export", ctx.Err())
		}
		if err == nil {
			err = x.export(ctx, string(r.RuntimeID))
		}
		if err != nil {
			return x.report, err
		}
	}
	return x.report, nil
}

func (x *workersImport) export(ctx context.Context, id string) error {
	name := idName(id)
	if len(name) > maxName {
		x.report.remark(&x.report.LeftOut, name, fmt.Sprintf("runtime %q: its folder's name is too long", id))
		return nil
	}
	var ours workers.Exported
	err := x.d.Read(ctx, "export runtime", func(rx *db.Rx) error {
		key, _, _, ok, err := workers.RowOf(rx, x.scope, id)
		if err == nil && ok {
			ours, err = workers.ExportRuntime(rx, key)
		}
		return err
	})
	if err != nil || ours.Snapshot == nil {
		return err // removed meanwhile
	}
	folder := filepath.Join(x.root, name)
	if err := os.MkdirAll(filepath.Join(folder, workersFolder), 0o700); err != nil {
		return err
	}
	if err := x.write(folder, runtimeFile, ours.Snapshot); err != nil {
		return err
	}
	if err := x.writeLines(folder, eventsFile, ours.Events); err != nil {
		return err
	}
	x.wrote("runtime", 1)
	x.wrote("event", len(ours.Events))
	for _, w := range ours.Workers {
		if err := x.exportWorker(filepath.Join(folder, workersFolder), w); err != nil {
			return err
		}
	}
	if x.o.Progress != nil {
		x.o.Progress(x.at)
	}
	return nil
}

func (x *workersImport) exportWorker(folder string, w workers.ExportedWorker) error {
	name := idName(w.WorkerID)
	if len(name) > maxName {
		x.report.remark(&x.report.LeftOut, filepath.Join(filepath.Base(filepath.Dir(folder)), workersFolder, name),
			fmt.Sprintf("worker %q: its folder's name is too long", w.WorkerID))
		return nil
	}
	folder = filepath.Join(folder, name)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	x.wrote("worker", 1)
	x.wrote("entry", len(w.Entries))
	if err := x.write(folder, workerFile, w.Snapshot); err != nil {
		return err
	}
	return x.writeLines(folder, transcriptFile, w.Entries)
}

func (x *workersImport) wrote(kind string, n int) {
	if n > 0 {
		x.report.count(kind, func(c *Count) { c.Read += int64(n); c.New += int64(n) })
	}
}

func (x *workersImport) writeLines(folder, name string, lines [][]byte) error {
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

func (x *workersImport) write(folder, name string, text []byte) error {
	f, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	x.report.Files.Found++
	x.report.Files.New++
	x.report.Files.Bytes += int64(len(text))
	x.at.Files++
	x.at.Bytes += int64(len(text))
	return errors.Join(err, f.Close())
}
