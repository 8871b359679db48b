// Package workers is how trees of the worker runtime are laid out: runtimes/ID/ with runtime.json,
// events.jsonl and, for each worker, workers/ID/ with worker.json and transcript.jsonl; each ID is
// "id-" and the id's bytes in hex. Trees of later versions are taken as far as there is a place for
// what they say: with runtimes/ or, where the folder is the one runtime, without; such a runtime is
// called what its folder is called. A diagnostic of the runtime, import.later_version, tells what
// is missing and what was added; documents are kept as they came, and files that nothing
// corresponds to are in quarantine, whole.
//
// A runtime is taken as a whole, in one transaction. The original refuses one in which anything is
// missing or torn; here what can be read is taken, and each fault is a diagnostic of the worker, or
// of the runtime, and a row of the quarantine with the bytes. A worker without its snapshot gets
// its status from the events. Counters become those of the snapshots, or what follows the highest
// number seen, whichever is more.
package workers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"selvedge/db"
	"selvedge/internal/tree"
	pool "selvedge/internal/workers"
)

// Layout is that of worker runtimes.
type Layout struct{}

// Name is "workers".
func (Layout) Name() string { return "workers" }

// Recognise takes the folder that holds runtimes/, runtimes/ itself, or a folder that is a runtime,
// if a runtime.json can be read.
func (l Layout) Recognise(dir tree.Folder) (string, bool, error) {
	root, alone, err := findRoot(dir)
	if errors.Is(err, db.ErrNotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	if alone {
		return "worker runtime in a folder of its own",
			isRuntime(root, runtimeFile, pool.Reader{Later: true, Alone: true}), nil
	}
	runtimes, readable := 0, false
	err = l.Walk(root, func(path string) error {
		runtimes++
		readable = readable || isRuntime(root, path+"/"+runtimeFile, pool.Reader{})
		return nil
	}, func(string, string) error { return nil })
	return fmt.Sprintf("worker runtimes: %d", runtimes), err == nil && readable, err
}

// isRuntime reports whether a runtime can be read from a file.
func isRuntime(root tree.Folder, path string, form pool.Reader) bool {
	text, err := root.Read(path, maxRuntimeFile)
	if err != nil {
		return false
	}
	_, _, wrong, err := form.Runtime(text)
	return err == nil && wrong == ""
}

// Root is runtimes/, which dir is or holds, or a folder that is a runtime.
func (Layout) Root(dir tree.Folder) (tree.Folder, error) {
	root, _, err := findRoot(dir)
	return root, err
}

// findRoot finds the folder runtimes/ from itself or from the folder that holds it, or one that is
// a runtime: alone.
func findRoot(dir tree.Folder) (root tree.Folder, alone bool, err error) {
	if isAlone(dir) {
		return dir, true, nil
	}
	if root, err = dir.Sub(runtimesFolder); !errors.Is(err, fs.ErrNotExist) {
		return root, false, err
	}
	if dir.Called(runtimesFolder) {
		return dir, false, nil
	}
	return root, false, &db.Error{
		Op: "open tree", Entity: "worker runtimes", ID: dir.Path(), Err: db.ErrNotFound,
		Hint: "name the folder that holds runtimes/, its runtimes/, or in later versions the folder that holds " +
			"runtime.json",
	}
}

// Walk visits what lies where a runtime could be: the folder itself where it is one.
func (Layout) Walk(root tree.Folder, file func(path string) error,
	ignored func(path, reason string) error,
) error {
	if isAlone(root) {
		return file(alonePath)
	}
	return root.Names(".", func(name string) error {
		if _, ok := nameID(name); ok {
			return file(name)
		}
		return ignored(name, "the name is no runtime's: id- and an id in hex")
	})
}

// Size counts the files of all runtimes.
func (Layout) Size(root tree.Folder) (files, bytes int64, err error) { return tree.SizeOf(root) }

// Read sends a runtime as one piece. What lies in a runtime's place and is none is a piece, too.
func (Layout) Read(_ context.Context, t *tree.Tree, path string, send func(tree.Piece) error) error {
	return each(t, path, func(r *runtime) error { return send(r) }, func(s *stray) error { return send(s) })
}

// each reads what lies at a path of a walk.
func each(t *tree.Tree, path string, visit func(*runtime) error, wrong func(*stray) error) error {
	id := aloneID(t.Folder)
	if path != alonePath {
		id, _ = nameID(path)
	} else if f, left := leftBehind(t.Folder); left {
		if err := wrong(&stray{t, f}); err != nil {
			return err
		}
	}
	if f, isStray := look(t.Folder, path, id); isStray {
		return wrong(&stray{t, f})
	}
	return visit(&runtime{t, readRuntime(t.Folder, path, id)})
}

// look finds what lies in a runtime's place and is no folder, or can't be looked into.
func look(root tree.Folder, name, id string) (f tree.Finding, isStray bool) {
	f = tree.Finding{Path: name, What: tree.WhatFile, Whose: &tree.Entity{Group: id}}
	info, err := root.Stat(name)
	if err == nil && info.IsDir() {
		if err = root.List(name); err == nil {
			return f, false
		}
	}
	if err != nil {
		f.Reason = root.Why(name, err)
		return f, true
	}
	f.Reason = "runtime path exists but is not a directory"
	if f.Raw, err = root.Read(name, maxRuntimeFile); err != nil {
		f.Reason += ", and " + root.Why(name, err)
	}
	return f, true
}

// A stray lies in a runtime's place and is none.
type stray struct {
	tree    *tree.Tree
	finding tree.Finding
}

// Path is where it lies.
func (s *stray) Path() string { return s.finding.Path }

// Held is how much memory it takes.
func (s *stray) Held() int { return len(s.finding.Raw) }

// Progress is nothing: what is no runtime was not counted before.
func (s *stray) Progress() (files, bytes int64) { return 0, 0 }

// Prefetch has nothing to ask.
func (s *stray) Prefetch(f *tree.Prefetcher) error {
	f.About("file " + s.finding.Path)
	f.ExpectAside(1)
	return nil
}

// Known counts one that is in quarantine.
func (s *stray) Known(rx *db.Rx, part *tree.Part) (bool, error) {
	q, ok, err := s.tree.Source.Quarantined(rx, s.finding.Path, s.finding.Offset, s.finding.What)
	if ok {
		part.Files.Unreadable++
		part.Aside(q)
	}
	return ok, err
}

// Take puts it into quarantine.
func (s *stray) Take(tx *db.Tx, part *tree.Part) error {
	part.Files.Unreadable++
	return s.tree.Source.PutAside(tx, part, s.finding)
}
