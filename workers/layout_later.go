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

	"selvedge/internal/tree"
	"selvedge/internal/txn"
)

// Some later versions of the worker runtime keep the folder runtimes/. In others the folder itself
// is the one runtime, and the names of workers' folders are their plain ids. They are recognised by
// structure: schema_version stays 1 through several of them.

// The files of later versions with no counterpart here: observations of a worker instead of its
// transcript, and other facts about it.
const (
	observationsFile = "observations.jsonl"
	metadataFile     = "metadata.json"
)

// alonePath is the path of a runtime that is alone in its folder.
const alonePath = "."

// isAlone reports whether dir is the folder of one runtime: it has a runtime.json, which names the
// backend or has workers/ beside it. Other programs may have files of that name too.
func isAlone(dir tree.Folder) bool {
	info, err := dir.Stat(runtimeFile)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	info, err = dir.Stat(workersFolder)
	return err == nil && info.IsDir() || saidIn(dir, "backend") != nil
}

// saidIn returns a text member of the runtime.json of dir, if it can be read.
func saidIn(dir tree.Folder, name string) (said *string) {
	var members map[string]json.RawMessage
	text, err := dir.Read(runtimeFile, maxRuntimeFile)
	if err != nil || json.Unmarshal(text, &members) != nil || json.Unmarshal(members[name], &said) != nil {
		return nil
	}
	return said
}

// aloneID is the id of a runtime that is alone in its folder: from its runtime.json, or else from
// the name of the folder.
func aloneID(root tree.Folder) string {
	base := root.Base()
	decoded, _ := nameID(base)
	ids := []string{decoded, base}
	if said := saidIn(root, "runtime_id"); said != nil {
		ids = append([]string{*said}, ids...)
	}
	for _, id := range ids {
		if id != "" && txn.CheckID("runtime", id) == nil {
			return id
		}
	}
	return "runtime"
}

// leftBehind reports files in runtimes/ of a folder that is one runtime: a later version that
// converted the folder moved one runtime up, and does not read the others.
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

// plainID is the id that a folder's name stands for in later versions: a number or a UUID.
func plainID(name string) (string, bool) {
	if n, err := strconv.ParseUint(name, 10, 64); err == nil && strconv.FormatUint(n, 10) == name {
		return name, true
	}
	id, err := uuid.Parse(name)
	return name, err == nil && id.String() == name
}

// A gaps collects the gaps of the files of a runtime.
type gaps struct{ runtime, worker, event, entry gap }

// maxNamed bounds the members that a gap names: a tree may have any number.
const maxNamed = 100

func (g *gap) add(more gap) {
	g.missing, g.added = merged(g.missing, more.missing), merged(g.added, more.added)
}

func merged(names, more []string) []string {
	for _, name := range more {
		if at, found := slices.BinarySearch(names, name); !found && len(names) < maxNamed {
			names = slices.Insert(names, at, name)
		}
	}
	return names
}

// later describes the differences of a later version; "" if the original can read the runtime.
func (r *runtimeReader) later() string {
	lines := len(r.gaps.event.missing) + len(r.gaps.entry.missing)
	if len(r.gaps.runtime.missing)+len(r.gaps.worker.missing)+lines+len(r.kinds)+len(r.setAside) == 0 {
		return ""
	}
	var parts []string
	say := func(format string, list []string) {
		if len(list) > 0 {
			parts = append(parts, fmt.Sprintf(format, strings.Join(list, ", ")))
		}
	}
	say("runtime.json does not say %s, for which defaults stand", r.gaps.runtime.missing)
	say("some worker.json do not say %s, for which defaults stand", r.gaps.worker.missing)
	say("runtime.json also has %s, kept as it came and shown nowhere", r.gaps.runtime.added)
	say("some worker.json also have %s, kept as they came and shown nowhere", r.gaps.worker.added)
	say("some events do not say %s", r.gaps.event.missing)
	say("some entries do not say %s", r.gaps.entry.missing)
	say("some events also have %s, kept as they came and shown nowhere", r.gaps.event.added)
	say("some entries also have %s, kept as they came and shown nowhere", r.gaps.entry.added)
	say("events of the kinds %s are shown under their own words", r.kinds)
	var files []string
	for _, name := range []string{observationsFile, metadataFile} {
		if n := r.setAside[name]; n > 0 {
			files = append(files, fmt.Sprintf("%d %s", n, name))
		}
	}
	say("%s have no place here and are in quarantine, whole: quarantine list names them", files)
	layout := "written by a later version of the runtime"
	if r.form.alone {
		layout = "written by a later version of the runtime, which has the folder for itself"
	}
	return tree.Shown(layout + ": " + strings.Join(parts, "; "))
}

// aside puts the files of later versions without a counterpart here into quarantine, except empty
// ones.
func (r *runtimeReader) aside(folder string, worker WorkerID) {
	for _, name := range []string{observationsFile, metadataFile} {
		path := folder + "/" + name
		if r.root.Lacks(path) {
			continue
		}
		if info, err := r.root.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
			continue
		}
		whose := tree.Entity{Group: string(r.tree.id), ID: string(worker)}
		found := tree.Finding{Path: path, What: tree.WhatFile, Whose: &whose}
		lines, err := r.pass(path)
		switch {
		case err != nil && r.root.Lacks(path):
			continue // it was removed meanwhile
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

// pass adds a file of any size to the hash of the tree, and counts its lines.
func (r *runtimeReader) pass(path string) (lines int64, err error) {
	f, size, err := r.root.Open(path)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(r.hash, "%d %q %d ", len(path), path, size)
	counter := lineCounter{last: '\n'}
	n, err := io.Copy(io.MultiWriter(r.hash, &counter), io.LimitReader(f, size))
	if counter.last != '\n' {
		counter.lines++
	}
	r.tree.bytes += n
	r.tree.files++
	return counter.lines, errors.Join(err, f.Close())
}

// A lineCounter counts the line feeds of what is written to it.
type lineCounter struct {
	lines int64
	last  byte
}

func (c *lineCounter) Write(text []byte) (int, error) {
	if len(text) > 0 {
		c.lines, c.last = c.lines+int64(bytes.Count(text, newline)), text[len(text)-1]
	}
	return len(text), nil
}

// others notes the other files of a folder. The original and its later versions ignore them too, or
// they belong to another program.
func (r *runtimeReader) others(folder string, known ...string) {
	err := r.root.Names(folder, func(name string) error {
		if !slices.Contains(known, name) {
			r.tree.ignored = append(r.tree.ignored, folder+"/"+name)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.file(nil, "folder", folder, r.root.Why(folder, err), nil)
	}
}
