// The layout of the old runtime: runtimes/ID/ with runtime.json, events.jsonl and, for each worker,
// workers/ID/ with worker.json and transcript.jsonl. Each ID is "id-" and the id's bytes in hex.
//
// Trees of later versions are imported as far as their data fits. They keep runtimes/, or the
// folder is the one runtime, which then has the name of its folder. A diagnostic,
// import.later_version, lists what is missing and what was added. Documents are kept unchanged.
// Files with no counterpart here go into quarantine completely.
//
// A runtime is imported as a whole, in one transaction. The original refuses a runtime in which
// anything is missing or torn. Here the readable part is imported. Each fault is a diagnostic of
// the worker or the runtime, and a row of the quarantine with the bytes. A worker without its
// snapshot gets its status from the events. Counters become those of the snapshots, or one more
// than the highest number seen, whichever is greater.

package workers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"selvedge/internal/tree"
)

// Layout is the layout of the old runtime's trees, for package legacy.
func Layout() tree.Layout { return layout{} }

type layout struct{}

// Name is "workers".
func (layout) Name() string { return "workers" }

// Recognise accepts the folder that holds runtimes/, runtimes/ itself, or a folder that is a
// runtime, if it has a readable runtime.json.
func (l layout) Recognise(dir tree.Folder) (string, bool, error) {
	if isAlone(dir) {
		return "worker runtime in a folder of its own",
			isRuntime(dir, runtimeFile, reader{later: true, alone: true}), nil
	}
	runtimes, readable := 0, false
	found, err := tree.EachIn(l, dir, func(root tree.Folder, path string) {
		runtimes++
		readable = readable || isRuntime(root, path+"/"+runtimeFile, reader{})
	})
	return fmt.Sprintf("worker runtimes: %d", runtimes), found && readable, err
}

// isRuntime reports whether a runtime can be read from a file.
func isRuntime(root tree.Folder, path string, form reader) bool {
	text, err := root.Read(path, maxRuntimeFile)
	if err != nil {
		return false
	}
	_, _, wrong, err := form.runtime(text)
	return err == nil && wrong == ""
}

// Root is runtimes/, which dir is or holds, or a folder that is a runtime.
func (layout) Root(dir tree.Folder) (tree.Folder, error) {
	if isAlone(dir) {
		return dir, nil
	}
	root, err := dir.Sub(runtimesFolder)
	if !errors.Is(err, fs.ErrNotExist) {
		return root, err
	}
	if dir.Called(runtimesFolder) {
		return dir, nil
	}
	return root, tree.NoTree(dir, "worker runtimes", "name the folder that holds runtimes/, its runtimes/, or "+
		"in later versions the folder that holds runtime.json")
}

// Walk visits the entries of runtimes/, or the root itself if it is a runtime.
func (layout) Walk(root tree.Folder, file func(string) error, ignored func(path, reason string) error) error {
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

// Read sends a runtime as one piece. A stray is a piece, too.
func (layout) Read(_ context.Context, t *tree.Tree, path string, send func(tree.Piece) error) error {
	return each(t, path, func(p *piece) error { return send(p) })
}

// each reads the pieces at a path of a walk.
func each(t *tree.Tree, path string, visit func(*piece) error) error {
	id := aloneID(t.Folder)
	if path != alonePath {
		id, _ = nameID(path)
	} else if f, left := leftBehind(t.Folder); left {
		if err := visit(strayPiece(t, f)); err != nil {
			return err
		}
	}
	if f, isStray := look(t.Folder, path, id); isStray {
		return visit(strayPiece(t, f))
	}
	alone := path == alonePath
	form := reader{runtimeID: RuntimeID(id), later: alone, alone: alone}
	return visit(&piece{t, readRuntime(t.Folder, path, form), false})
}

// look finds an entry that is no folder, or a folder that can't be read.
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
