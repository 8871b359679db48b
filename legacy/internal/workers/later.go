package workers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"selvedge/db"
	"selvedge/internal/tree"
	pool "selvedge/internal/workers"
)

// Later versions of the worker runtime keep the folder runtimes/ for a while, then the folder
// itself is the one runtime and workers have their plain ids as names. They are told by structure:
// schema_version stays 1 through several of them.

// The files of later versions that nothing here corresponds to: what was seen of a worker, in place
// of its transcript, and what else there is to know about it.
const (
	observationsFile = "observations.jsonl"
	metadataFile     = "metadata.json"
)

// alonePath is the path of a runtime that has its folder for itself.
const alonePath = "."

// isAlone reports whether dir is the folder of one runtime: it has a runtime.json, which tells the
// backend or has workers/ beside it.
func isAlone(dir tree.Folder) bool {
	info, err := dir.Stat(runtimeFile)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	info, err = dir.Stat(workersFolder)
	return err == nil && info.IsDir() || saysBackend(dir)
}

// saysBackend reports whether dir has a runtime.json that tells its backend, as all versions do:
// others may have files of that name too.
func saysBackend(dir tree.Folder) bool {
	text, err := dir.Read(runtimeFile, maxRuntimeFile)
	var document struct {
		Backend *string `json:"backend"`
	}
	return err == nil && json.Unmarshal(text, &document) == nil && document.Backend != nil
}

// aloneID names a runtime that has its folder for itself: what its runtime.json says, if it says
// anything, else what the folder is called.
func aloneID(root tree.Folder) string {
	var document struct {
		RuntimeID string `json:"runtime_id"`
	}
	if text, err := root.Read(runtimeFile, maxRuntimeFile); err == nil {
		_ = json.Unmarshal(text, &document) // where it can't be read it says nothing
	}
	base := root.Base()
	decoded, _ := nameID(base)
	for _, id := range []string{document.RuntimeID, decoded, base} {
		if id != "" && db.CheckID("runtime", id) == nil {
			return id
		}
	}
	return "runtime"
}

// leftBehind is what the folder of one runtime still has in runtimes/: a later version that takes a
// folder over moves one runtime up, and looks at the others never again.
func leftBehind(root tree.Folder) (f tree.Finding, ok bool) {
	at := filepath.Join(root.Path(), runtimesFolder)
	err := filepath.WalkDir(at, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			ok = true
			return fs.SkipAll
		}
		return nil //nolint:nilerr // what can't be read is reported when it is imported
	})
	return tree.Finding{
		Path: runtimesFolder, What: tree.WhatFile,
		Reason: "beside the runtime of a later version that this folder is; import this folder as well: " +
			tree.Shown(at),
	}, ok && err == nil
}

// plainID is the id that a folder's name stands for in later versions: a number, then a UUID.
func plainID(name string) (string, bool) {
	if n, err := strconv.ParseUint(name, 10, 64); err == nil && strconv.FormatUint(n, 10) == name {
		return name, true
	}
	id, err := uuid.Parse(name)
	return name, err == nil && id.String() == name
}

// A gap collects what the files of a runtime have otherwise than the original's.
type gap struct{ runtime, worker, event, entry pool.Gap }

// maxNamed is how many members a list of a gap names: a tree may have any number of others.
const maxNamed = 100

func (g *gap) add(into *pool.Gap, more pool.Gap) {
	merge := func(into *[]string, more []string) {
		for _, name := range more {
			if at, found := slices.BinarySearch(*into, name); !found && len(*into) < maxNamed {
				*into = slices.Insert(*into, at, name)
			}
		}
	}
	merge(&into.Missing, more.Missing)
	merge(&into.Added, more.Added)
}

// later says what a later version wrote otherwise; "" if none did, or if the original itself can read it.
func (r *runtimeReader) later() string {
	lines := len(r.gap.event.Missing) + len(r.gap.entry.Missing)
	if len(r.gap.runtime.Missing)+len(r.gap.worker.Missing)+lines+len(r.kinds)+len(r.setAside) == 0 {
		return ""
	}
	var parts []string
	say := func(format string, list []string) {
		if len(list) > 0 {
			parts = append(parts, fmt.Sprintf(format, strings.Join(list, ", ")))
		}
	}
	say("runtime.json does not say %s, for which defaults stand", r.gap.runtime.Missing)
	say("some worker.json do not say %s, for which defaults stand", r.gap.worker.Missing)
	say("runtime.json also has %s, kept as it came and shown nowhere", r.gap.runtime.Added)
	say("some worker.json also have %s, kept as they came and shown nowhere", r.gap.worker.Added)
	say("some events do not say %s", r.gap.event.Missing)
	say("some entries do not say %s", r.gap.entry.Missing)
	say("some events also have %s, kept as they came and shown nowhere", r.gap.event.Added)
	say("some entries also have %s, kept as they came and shown nowhere", r.gap.entry.Added)
	say("events of the kinds %s are shown under their own words", r.kinds)
	var files []string
	for _, name := range []string{observationsFile, metadataFile} {
		if n := r.setAside[name]; n > 0 {
			files = append(files, fmt.Sprintf("%d %s", n, name))
		}
	}
	say("%s have no place here and are in quarantine, whole: quarantine list names them", files)
	layout := "written by a later version of the runtime"
	if r.form.Alone {
		layout = "written by a later version of the runtime, which has the folder for itself"
	}
	return tree.Shown(layout + ": " + strings.Join(parts, "; "))
}

// aside puts the files of later versions that have no counterpart into quarantine, as they are.
// Empty ones say nothing.
func (r *runtimeReader) aside(folder string, worker string) {
	for _, name := range []string{observationsFile, metadataFile} {
		path := folder + "/" + name
		if r.lacks(path) {
			continue
		}
		if info, err := r.root.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
			continue
		}
		whose := tree.Entity{Group: r.tree.imported.RuntimeID, ID: worker}
		found := tree.Finding{Path: path, What: tree.WhatFile, Whose: &whose}
		lines, err := r.pass(path)
		switch {
		case err != nil && r.lacks(path):
			continue // as nobody could say before
		case err != nil:
			found.Reason = r.root.Why(path, err)
		default:
			found.Reason = "a file of a later version of the runtime, which nothing here corresponds to; it is " +
				"kept whole"
			found.File = func() (*os.File, int64, error) { return r.root.Open(path) }
			if name == observationsFile {
				r.tree.aside["observation"] += lines
			} else {
				r.tree.aside["metadata"]++
			}
		}
		r.setAside[name]++
		r.tree.findings = append(r.tree.findings, found)
	}
}

// pass takes a file into the hash of the tree, however large it is, and counts its lines.
func (r *runtimeReader) pass(path string) (lines int64, err error) {
	f, size, err := r.root.Open(path)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(r.hash, "%d %q %d ", len(path), path, size)
	held := io.LimitReader(f, size)
	buffer, last := make([]byte, tree.PartBytes), byte('\n')
	for err == nil {
		var n int
		n, err = held.Read(buffer)
		r.hash.Write(buffer[:n])
		lines += int64(bytes.Count(buffer[:n], newline))
		r.tree.bytes += int64(n)
		if n > 0 {
			last = buffer[n-1]
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	r.tree.files++
	if last != '\n' {
		lines++
	}
	return lines, errors.Join(err, f.Close())
}

// others notes what lies in a folder besides the files of the runtime. The original and its later
// versions pass it over too, or it belongs to another program.
func (r *runtimeReader) others(folder string, known ...string) {
	err := r.root.Names(folder, func(name string) error {
		if !slices.Contains(known, name) {
			r.tree.ignored = append(r.tree.ignored, folder+"/"+name)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.fault(nil, "folder", tree.Finding{Path: folder, What: tree.WhatFile, Reason: r.root.Why(folder, err)})
	}
}
