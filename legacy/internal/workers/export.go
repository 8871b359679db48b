package workers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"selvedge/db"
	"selvedge/internal/tree"
	pool "selvedge/internal/workers"
	runtimes "selvedge/workers"
)

// Export writes dir/runtimes/ID/. The original opens what it writes, also of runtimes that came
// from folders which it refuses; lines with words of later versions, which it refuses too, are
// written as they came all the same.
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

// ReadBack reads a runtime as the original does, which takes all of it or nothing.
func (Layout) ReadBack(root tree.Folder, path string, say func(file string, line int, reason string)) error {
	b := &backReader{root, say}
	id, _ := nameID(path)
	b.document(path+"/"+runtimeFile, func(text []byte) string {
		s, wrong, err := pool.ReadRuntimeSnapshot(text)
		if err == nil && wrong == "" && s.RuntimeID != id {
			wrong = fmt.Sprintf("runtime snapshot id %s does not match requested runtime %s", s.RuntimeID, id)
		}
		return reasonOf(wrong, err)
	})
	b.lines(path+"/"+eventsFile, func(line []byte) string {
		_, wrong, err := pool.ReadEventLine(line)
		return reasonOf(wrong, err)
	})
	return root.Names(path+"/"+workersFolder, func(name string) error {
		b.worker(path+"/"+workersFolder+"/"+name, id)
		return nil
	})
}

// GivesBack is so for the files of later versions, which the original passes over, beside a worker
// that was written. All else, a folder with nothing but such a file too, would have it refuse the
// runtime.
func (Layout) GivesBack(written tree.Folder, path string) bool {
	name := filepath.Base(path)
	return (name == observationsFile || name == metadataFile) && written.IsFolder(filepath.Dir(path))
}

// A backReader reads the files of a runtime, as strict as the original.
type backReader struct {
	root tree.Folder
	say  func(file string, line int, reason string)
}

func (b *backReader) worker(folder, runtime string) {
	var own pool.Ref
	b.document(folder+"/"+workerFile, func(text []byte) string {
		s, wrong, err := pool.ReadWorkerSnapshot(text)
		own = s.Worker
		if err == nil && wrong == "" && own.RuntimeID != runtime {
			wrong = fmt.Sprintf("worker belongs to runtime %s, expected %s", own.RuntimeID, runtime)
		}
		return reasonOf(wrong, err)
	})
	b.lines(folder+"/"+transcriptFile, func(line []byte) string {
		e, err := pool.ReadEntryLine(line)
		if err == nil && e.Worker != own {
			return fmt.Sprintf("transcript entry belongs to worker %s, expected %s", e.Worker.WorkerID, own.WorkerID)
		}
		return reasonOf("", err)
	})
}

func (b *backReader) document(path string, read func(text []byte) string) {
	text, err := b.root.Read(path, maxRuntimeFile)
	if err != nil {
		b.say(path, 0, b.root.Why(path, err))
		return
	}
	reason := read(text)
	b.say(path, tree.LineIn(reason), reason)
}

func (b *backReader) lines(path string, read func(line []byte) string) {
	text, err := b.root.Read(path, maxRuntimeFile)
	if err != nil {
		b.say(path, 0, b.root.Why(path, err))
		return
	}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line = bytes.TrimSuffix(line, newline)
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if reason := read(line); reason != "" {
			b.say(path, n, reason)
			return
		}
	}
	b.say(path, 0, "")
}

func reasonOf(wrong string, err error) string {
	if err != nil {
		return err.Error()
	}
	return wrong
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
