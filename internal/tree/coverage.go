package tree

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A coverage is what an import reads of a folder: every file with its hash, and what it ignores.
type coverage struct {
	root    string
	files   map[string]readFile // by absolute path
	folders map[string]bool     // that lead to them
	passed  map[string]string   // paths below the root that are not read, as Shown, and why
	bytes   int64
}

// A readFile is a file as it was before it was imported.
type readFile struct {
	size   int64
	at     time.Time // of its last change
	sum    [sha256.Size]byte
	unread bool
}

// A Kept file is a file that the old program keeps beside its records.
type Kept struct {
	Folder Folder
	Path   string // below the folder; the file may be missing
	More   string // why no store has all of its content; "" if one has
}

// A Beside is a Layout with files that its walk does not visit, such as settings and marks, or
// whose content no store has in full.
type Beside interface{ Beside(t *Tree) ([]Kept, error) }

// cover reads all that an import is going to read.
func (t *Tree) cover(ctx context.Context, c *coverage) error {
	*c = coverage{
		root: t.Root, files: map[string]readFile{}, folders: map[string]bool{}, passed: map[string]string{},
	}
	read := func(path string) error {
		c.read(t.Folder, path)
		return ctx.Err()
	}
	err := t.layout.Walk(t.Folder, func(path string) error {
		if info, err := t.Folder.Stat(path); err != nil || !info.IsDir() {
			return read(path)
		}
		return filepath.WalkDir(Below(t.Root, path), func(at string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return ctx.Err() // what can't be listed is in quarantine
			}
			return read(nameBelow(t.Root, at))
		})
	}, func(path, reason string) error {
		c.passed[Shown(path)] = reason
		return nil
	})
	l, ok := t.layout.(Beside)
	if !ok || err != nil {
		return err
	}
	list, err := l.Beside(t)
	for _, k := range list {
		if err != nil || k.Folder.Lacks(k.Path) {
			continue
		}
		if _, walked := c.files[filepath.Join(k.Folder.path, k.Path)]; !walked {
			c.read(k.Folder, k.Path)
		}
		if k.More != "" {
			c.passed[Shown(nameBelow(c.root, Below(k.Folder.path, k.Path)))] = k.More
		}
	}
	return err
}

// nameBelow returns a path as reports show it: relative to dir, if possible.
func nameBelow(dir, at string) string {
	if name, err := filepath.Rel(dir, at); err == nil {
		return name
	}
	return at
}

// read adds a file. A file that can't be read is no error: the import reports it.
func (c *coverage) read(folder Folder, path string) {
	at := filepath.Join(folder.path, path)
	for up := filepath.Dir(at); !c.folders[up]; up = filepath.Dir(up) {
		c.folders[up] = true
	}
	one, err := hashFile(folder, path)
	if err != nil {
		one.unread = true
	} else {
		c.bytes += one.size
	}
	c.files[at] = one
}

func hashFile(folder Folder, path string) (one readFile, err error) {
	f, size, err := folder.Open(path)
	if err != nil {
		return one, err
	}
	hash := sha256.New()
	info, err := f.Stat()
	if err == nil {
		one.at = info.ModTime()
		one.size, err = io.Copy(hash, io.LimitReader(f, size))
	}
	hash.Sum(one.sum[:0])
	return one, errors.Join(err, f.Close())
}

// settle adds what the derivation passed over, and returns the files that were changed meanwhile.
func (c *coverage) settle(report *Part) (changed []string) {
	for _, r := range report.Report.Ignored {
		c.passed[filepath.Clean(r.File)] = r.Reason // a runtime that is the root names its files "./…"
	}
	for at, f := range c.files {
		info, err := os.Stat(at)
		if !f.unread && (err != nil || info.Size() != f.size || !info.ModTime().Equal(f.at)) {
			changed = append(changed, nameBelow(c.root, at))
		}
	}
	slices.Sort(changed)
	return changed
}

// passes returns why a path is not read; "" if it is.
func (c *coverage) passes(at string) string {
	name := Shown(nameBelow(c.root, at))
	for ; name != "." && name != "/" && name != ""; name = filepath.Dir(name) {
		if reason, ok := c.passed[name]; ok {
			return reason
		}
	}
	return ""
}

// reads reports whether a file is read, or a folder leads to one that is.
func (c *coverage) reads(at string) bool {
	_, ok := c.files[at]
	return ok || c.folders[at]
}

// unknown names what lies below dir and no import reads, so that no store has it. If nothing in a
// folder is read, it names only the folder.
func unknown(dir string, by []*coverage) (list []Remark, err error) {
	dir, err = filepath.EvalSymlinks(dir)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return nil, err
	}
	add := func(at, suffix, reason string) {
		list = append(list, Remark{File: Shown(nameBelow(dir, at)) + suffix, Reason: reason})
	}
	err = filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			add(at, "", Folder{}.Why(at, err))
			return nil
		}
		known, reason := false, ""
		real := at
		if entry.Type()&fs.ModeSymlink != 0 {
			if to, err := filepath.EvalSymlinks(at); err == nil {
				real = to
			}
		}
		for _, c := range by {
			why := c.passes(at)
			known = known || why == "" && (c.reads(at) || c.reads(real))
			reason = cmp.Or(why, reason)
		}
		switch {
		case known || at == dir:
		case entry.IsDir():
			if holdsFiles(at) {
				add(at, "/", cmp.Or(reason, "a folder that no store reads"))
			}
			return fs.SkipDir
		default:
			add(at, "", cmp.Or(reason, "no store reads it"))
		}
		return nil
	})
	return list, err
}

var errFound = errors.New("found")

// holdsFiles reports whether a folder holds anything but folders.
func holdsFiles(folder string) bool {
	return filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return errFound
		}
		return nil
	}) != nil
}

// sumOf is the SHA-256 of a list with a line for each file, sorted by path: its SHA-256 in hex, its
// size and its path below dir.
func sumOf(dir string, by []*coverage) (sum string, files, bytes int64) {
	lines := map[string]string{}
	for _, c := range by {
		for at, f := range c.files {
			name := nameBelow(dir, at)
			if _, ok := lines[name]; !f.unread && !ok {
				lines[name] = fmt.Sprintf("%x %d %s\n", f.sum, f.size, name)
				bytes += f.size
			}
		}
	}
	hash := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		_, _ = io.WriteString(hash, lines[name])
	}
	return hex.EncodeToString(hash.Sum(nil)), int64(len(lines)), bytes
}
