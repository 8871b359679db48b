package workers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"selvedge/db"
	"selvedge/internal/tree"
)

// Export writes dir/runtimes/ID/. The original can open the exported folders, even of runtimes from
// folders that it refuses. Lines with words of later versions, which it also refuses, are written
// unchanged.
func (layout) Export(ctx context.Context, t *tree.Tree) error {
	t.Root = filepath.Join(t.Root, runtimesFolder)
	if err := os.Mkdir(t.Root, 0o700); err != nil {
		return err
	}
	return tree.ForEach(NewRuntimes(t.DB, t.Scope).All(ctx, RuntimeFilter{}),
		func(r RuntimeSummary) error { return (&exporter{t}).export(ctx, r.RuntimeID) })
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

// ReadBack reads a runtime as the original does: the original accepts all of it or nothing.
func (layout) ReadBack(root tree.Folder, path string, say func(file string, line int, reason string)) error {
	id, _ := nameID(path)
	got := readRuntime(root, path, reader{runtimeID: RuntimeID(id), strict: true})
	for _, f := range got.findings {
		if f.File == nil && !slices.Contains(got.read, f.Path) { // GivesBack accepts those with a File
			got.read = append(got.read, f.Path)
		}
	}
	for _, file := range got.read {
		line, reason := 0, ""
		if i := slices.IndexFunc(got.findings, func(f tree.Finding) bool { return f.Path == file }); i >= 0 {
			f := &got.findings[i]
			line, reason = tree.LineIn(f.Reason), f.Reason
			if f.What == tree.WhatLine || f.What == tree.WhatTail {
				text, err := root.Read(file, maxRuntimeFile)
				if err != nil {
					return err
				}
				line = tree.LineAt(text, int(f.Offset))
			}
		}
		say(file, line, reason)
	}
	return nil
}

// GivesBack accepts the files of later versions, which the original ignores, beside a worker that
// was written. Any other file, and a folder with only such a file, would make it refuse the
// runtime.
func (layout) GivesBack(written tree.Folder, path string) bool {
	name := filepath.Base(path)
	return (name == observationsFile || name == metadataFile) && written.IsFolder(filepath.Dir(path))
}
