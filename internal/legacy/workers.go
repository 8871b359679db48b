package legacy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"selvedge/db"
)

// Workers are the trees of the worker runtime: runtimes/ID/ with runtime.json, events.jsonl and, for each worker,
// workers/ID/ with worker.json and transcript.jsonl; each ID is "id-" and the id's bytes in hex. Trees of later versions are
// taken as far as there is a place for what they say: with runtimes/ or, where the folder is the one runtime, without; such a
// runtime is called what its folder is called. A diagnostic of the runtime, import.later_version, tells what is missing and
// what was added; documents are kept as they came, and files that nothing corresponds to are in quarantine, whole.
//
// A runtime is taken as a whole, in one transaction. The original refuses one in which anything is missing or torn; here
// what can be read is taken, and each fault is a diagnostic of the worker, or of the runtime, and a row of the quarantine
// with the bytes. A worker without its snapshot gets its status from the events. Counters become those of the snapshots, or
// what follows the highest number seen, whichever is more.
type Workers struct{}

// Name is "workers".
func (Workers) Name() string { return "workers" }

// Recognise takes the folder that holds runtimes/, runtimes/ itself, or a folder that is a runtime.
func (Workers) Recognise(dir string) (string, bool, error) {
	root, alone, err := workersRoot(dir)
	if errors.Is(err, db.ErrNotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	if alone {
		return "worker runtime in a folder of its own", saysBackend(root), nil
	}
	runtimes := 0
	err = eachRuntime(root, func(_, _ string) error {
		runtimes++
		return nil
	}, func(string, string) error { return nil })
	return fmt.Sprintf("worker runtimes: %d", runtimes), err == nil && runtimes > 0, err
}

// Import brings runtimes in.
func (Workers) Import(ctx context.Context, d *db.DB, scope, dir string, o Options) (Report, error) {
	x, err := newWorkersImport(d, scope, dir, o)
	if err != nil {
		return x.report, err
	}
	err = x.source.importing(ctx, d, &x.report, x.root, func() error {
		return x.eachTree(ctx, func(t *runtimeTree) error { return x.take(ctx, t) }, func(f finding) error { return x.putAside(ctx, f) })
	})
	return x.report, err
}

// Verify compares runtimes with what was imported.
func (Workers) Verify(ctx context.Context, d *db.DB, scope, dir string, o Options) (Report, error) {
	x, err := newWorkersImport(d, scope, dir, o)
	if err != nil {
		return x.report, err
	}
	err = x.source.verifying(ctx, d, &x.report, x.root, func() error {
		return x.eachTree(ctx, func(t *runtimeTree) error {
			return d.Read(ctx, "verify workers", func(rx *db.Rx) error { return x.verify(rx, t) })
		}, func(f finding) error {
			return d.Read(ctx, "verify workers", func(rx *db.Rx) error { return x.found(rx, f) })
		})
	})
	return x.report, err
}

// workersRoot finds the folder runtimes/ from itself or from the folder that holds it, or one that is a runtime: alone.
func workersRoot(dir string) (root string, alone bool, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", false, err
	}
	if isAlone(abs) {
		root, err = filepath.EvalSymlinks(abs)
		return root, true, err
	}
	for _, root := range []string{filepath.Join(abs, runtimesFolder), abs} {
		if info, err := os.Stat(root); err == nil && info.IsDir() && filepath.Base(root) == runtimesFolder {
			root, err = filepath.EvalSymlinks(root)
			return root, false, err
		}
	}
	return "", false, &db.Error{
		Op: "open tree", Entity: "worker runtimes", ID: dir, Err: db.ErrNotFound,
		Hint: "name the folder that holds runtimes/, its runtimes/, or in later versions the folder that holds runtime.json",
	}
}

// eachRuntime visits what lies where a runtime could be, by name and id, and what the original never looks at.
func eachRuntime(root string, visit func(name, id string) error, ignored func(path, reason string) error) error {
	return eachName(root, func(name string) error {
		if id, ok := nameID(name); ok {
			return visit(name, id)
		}
		return ignored(name, "the name is no runtime's: id- and an id in hex")
	})
}

// A workersImport brings one tree in, a runtime in a transaction.
type workersImport struct {
	d      *db.DB
	scope  string
	source source
	root   string
	alone  bool // root is the one runtime
	o      Options
	report Report
	at     Progress
}

func newWorkersImport(d *db.DB, scope, dir string, o Options) (*workersImport, error) {
	x := &workersImport{d: d, scope: scope, o: o}
	root, alone, err := workersRoot(dir)
	if err != nil {
		root = dir
	}
	x.alone = alone
	x.root, x.report = root, newReport(x.name(), scope, root)
	return x, err
}

func (*workersImport) name() string { return "workers" }

// eachTree reads runtime after runtime. stray gets what lies in a runtime's place and is none.
func (x *workersImport) eachTree(ctx context.Context, visit func(*runtimeTree) error, stray func(finding) error) error {
	if err := x.totals(); err != nil {
		return err
	}
	if x.alone {
		if f, left := leftBehind(x.root); left {
			x.report.Files.Unreadable++
			if err := stray(f); err != nil {
				return err
			}
		}
	}
	return x.eachRuntime(func(name, id string) error {
		if ctx.Err() != nil {
			return stopped(ctx)
		}
		if f, isStray := x.look(name, id); isStray {
			x.report.Files.Unreadable++
			return stray(f)
		}
		t := readRuntimeTree(x.root, name, id)
		if err := visit(t); err != nil {
			if ctx.Err() != nil {
				return stopped(ctx)
			}
			return fmt.Errorf("%s: %w", shown(name), err)
		}
		x.at.Files += t.files
		x.at.Bytes += t.bytes
		if x.o.Progress != nil {
			x.o.Progress(x.at)
		}
		return nil
	}, x.report.ignore)
}

// eachRuntime visits what lies where a runtime could be, by name and id: the folder itself where it is one.
func (x *workersImport) eachRuntime(visit func(name, id string) error, ignored func(path, reason string) error) error {
	if x.alone {
		return visit(alonePath, aloneID(x.root))
	}
	return eachRuntime(x.root, visit, ignored)
}

// look finds what lies in a runtime's place and is no folder, or can't be looked into.
func (x *workersImport) look(name, id string) (f finding, stray bool) {
	at := below(x.root, name)
	f = finding{path: name, what: whatFile, whose: &entity{group: id}}
	info, err := os.Stat(at)
	if err == nil && info.IsDir() {
		var dir *os.File
		if dir, err = os.Open(at); err == nil {
			return f, dir.Close() != nil
		}
	}
	if err != nil {
		f.reason = why(at, err)
		return f, true
	}
	f.reason = "runtime path exists but is not a directory"
	if info.Mode().IsRegular() && info.Size() <= maxRuntimeFile {
		if f.raw, err = os.ReadFile(at); err != nil {
			f.reason += ", and " + why(at, err)
		}
	}
	return f, true
}

// totals counts what a walk will meet.
func (x *workersImport) totals() error {
	if x.o.Progress == nil {
		return nil
	}
	err := filepath.WalkDir(x.root, func(_ string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil //nolint:nilerr // what can't be read is reported when it is read
		}
		if info, err := entry.Info(); err == nil {
			x.at.TotalFiles++
			x.at.TotalBytes += info.Size()
		}
		return nil
	})
	x.o.Progress(x.at)
	return err
}
