package workers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"selvedge/db"
	"selvedge/internal/tree"
)

// Export writes dir/runtimes/ID/. The original opens what it writes, also of runtimes that came from
// folders which it refuses. Lines with words of later versions, which it refuses too, are written
// unchanged.
func (layout) Export(ctx context.Context, t *tree.Tree) error {
	t.Root = filepath.Join(t.Root, runtimesFolder)
	if err := os.Mkdir(t.Root, 0o700); err != nil {
		return err
	}
	for r, err := range NewRuntimes(t.DB, t.Scope).All(ctx, RuntimeFilter{}) {
		if err == nil {
			err = (&exporter{t}).export(ctx, r.RuntimeID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// An exporter writes the runtimes of a scope.
type exporter struct{ *tree.Tree }

func (x *exporter) export(ctx context.Context, id RuntimeID) error {
	var ours runtimeFiles
	err := x.DB.Read(ctx, "export runtime", func(rx *db.Rx) error {
		row, ok, err := findRuntime(rx, x.Scope, id)
		if err == nil && ok {
			ours, err = row.files(rx)
		}
		return err
	})
	if err != nil || ours.snapshot == nil {
		return err // removed meanwhile
	}
	folder, fits := x.folder("", "runtime", string(id))
	if !fits {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(x.Root, folder, workersFolder), 0o700); err != nil {
		return err
	}
	if err := x.write("runtime", 1, folder+runtimeFile, ours.snapshot); err != nil {
		return err
	}
	if err := x.writeLines("event", folder+eventsFile, ours.events); err != nil {
		return err
	}
	for _, w := range ours.workers {
		folder, fits := x.folder(folder+workersFolder+"/", "worker", string(w.id))
		if !fits {
			continue
		}
		if err := x.write("worker", 1, folder+workerFile, w.snapshot); err != nil {
			return err
		}
		if err := x.writeLines("entry", folder+transcriptFile, w.entries); err != nil {
			return err
		}
	}
	return nil
}

// folder is the folder of an id; fits is false if its name is too long.
func (x *exporter) folder(above, noun, id string) (path string, fits bool) {
	name := idName(id)
	if len(name) > tree.MaxName {
		x.Report.LeaveOut(above+name, fmt.Sprintf("%s %q: its folder's name is too long", noun, id))
		return "", false
	}
	return above + name + "/", true
}

func (x *exporter) writeLines(kind, path string, lines [][]byte) error {
	text := bytes.Join(lines, newline)
	if len(lines) > 0 {
		text = append(text, '\n')
	}
	return x.write(kind, len(lines), path, text)
}

func (x *exporter) write(kind string, records int, path string, text []byte) error {
	if records > 0 {
		x.Report.CountAll(tree.Tally{kind: int64(records)}, tree.New)
	}
	problem, err := x.Write(path, text)
	if problem != "" {
		x.Report.LeaveOut(path, problem)
	}
	return err
}

// ReadBack reads a runtime as the original does, which accepts all of it or nothing.
func (layout) ReadBack(root tree.Folder, path string, say func(file string, line int, reason string)) error {
	b := &backReader{root, say}
	id, _ := nameID(path)
	b.document(path+"/"+runtimeFile, func(text []byte) (string, error) {
		s, wrong, err := readRuntimeSnapshot(text)
		if wrong == "" && string(s.RuntimeID) != id {
			wrong = fmt.Sprintf("runtime snapshot id %s does not match requested runtime %s", s.RuntimeID, id)
		}
		return wrong, err
	})
	b.lines(path+"/"+eventsFile, func(line []byte) (string, error) {
		e, err := eventJSON.decode(line)
		return e.Kind.wrong(), err
	})
	return root.Names(path+"/"+workersFolder, func(name string) error {
		b.worker(path+"/"+workersFolder+"/"+name, RuntimeID(id))
		return nil
	})
}

// GivesBack accepts the files of later versions, which the original ignores, beside a worker that was
// written. Any other file, and a folder with only such a file, would make it refuse the runtime.
func (layout) GivesBack(written tree.Folder, path string) bool {
	name := filepath.Base(path)
	return (name == observationsFile || name == metadataFile) && written.IsFolder(filepath.Dir(path))
}

// A backReader reads the files of a runtime as strictly as the original.
type backReader struct {
	root tree.Folder
	say  func(file string, line int, reason string)
}

func (b *backReader) worker(folder string, runtime RuntimeID) {
	var own WorkerRef
	b.document(folder+"/"+workerFile, func(text []byte) (string, error) {
		s, wrong, err := readWorkerSnapshot(text)
		own = s.WorkerRef
		if wrong == "" && own.RuntimeID != runtime {
			wrong = fmt.Sprintf("worker belongs to runtime %s, expected %s", own.RuntimeID, runtime)
		}
		return wrong, err
	})
	b.lines(folder+"/"+transcriptFile, func(line []byte) (string, error) {
		e, err := entryJSON.decode(line)
		if e.WorkerRef == own {
			return "", err
		}
		return fmt.Sprintf("transcript entry belongs to worker %s, expected %s", e.WorkerRef.WorkerID,
			own.WorkerID), err
	})
}

func (b *backReader) document(path string, read func(text []byte) (wrong string, err error)) {
	text, err := b.root.Read(path, maxRuntimeFile)
	if err != nil {
		b.say(path, 0, b.root.Why(path, err))
		return
	}
	reason := reasonOf(read(text))
	b.say(path, tree.LineIn(reason), reason)
}

func (b *backReader) lines(path string, read func(line []byte) (wrong string, err error)) {
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
		if reason := reasonOf(read(line)); reason != "" {
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
