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
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Coverage is what of a folder an import reads: every file with its hash, and what it passes over.
type Coverage struct {
	root    string
	files   map[string]readFile // by absolute path
	folders map[string]bool     // that lead to those
	passed  map[string]string   // shown paths below the root that are not read, and why
	bytes   int64
}

// A readFile is a file as it was before it was imported.
type readFile struct {
	size   int64
	at     time.Time // of its last change
	sum    [sha256.Size]byte
	unread bool
}

// A Kept file is one that the old program keeps beside its records.
type Kept struct {
	Folder Folder
	Path   string // below the folder, where nothing may be
	More   string // why no store has all that it says; "" for nothing more
}

// A Beside is a Layout with files that its walk does not name: settings, marks.
type Beside interface{ Beside(t *Tree) ([]Kept, error) }

// cover reads all that an import is going to read.
func (t *Tree) cover(ctx context.Context) (Coverage, error) {
	c := Coverage{
		root: t.Root, files: map[string]readFile{}, folders: map[string]bool{},
		passed: map[string]string{},
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
			return read(c.name(at))
		})
	}, func(path, reason string) error {
		c.passed[Shown(path)] = reason
		return nil
	})
	l, ok := t.layout.(Beside)
	if !ok || err != nil {
		return c, err
	}
	list, err := l.Beside(t)
	for _, k := range list {
		if err != nil || k.Folder.Lacks(k.Path) {
			continue
		}
		c.read(k.Folder, k.Path)
		if k.More != "" {
			c.passed[Shown(c.name(Below(k.Folder.path, k.Path)))] = k.More
		}
	}
	return c, err
}

// name is a path as the report has it: below the root.
func (c *Coverage) name(at string) string {
	if name, err := filepath.Rel(c.root, at); err == nil {
		return name
	}
	return at
}

// read takes a file's hash. What can't be read is no error: the import says so.
func (c *Coverage) read(folder Folder, path string) {
	at := filepath.Join(folder.path, path)
	for up := filepath.Dir(at); !c.folders[up]; up = filepath.Dir(up) {
		c.folders[up] = true
	}
	one := readFile{unread: true}
	defer func() { c.files[at] = one }()
	f, size, err := folder.Open(path)
	if err != nil {
		return
	}
	sum := sha256.New()
	info, err := f.Stat()
	if err == nil {
		one.size, err = io.Copy(sum, io.LimitReader(f, size))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return
	}
	one.at, one.unread = info.ModTime(), false
	sum.Sum(one.sum[:0])
	c.bytes += one.size
}

// settle takes from the report of the derivation what was passed over, and gives the files that
// were written to meanwhile.
func (c *Coverage) settle(report *Part) (unsteady []string) {
	for _, r := range report.Report.Ignored {
		// a runtime that is the root itself names its files from "./" on
		c.passed[filepath.Clean(r.File)] = r.Reason
	}
	for at, f := range c.files {
		info, err := os.Stat(at)
		if !f.unread && (err != nil || info.Size() != f.size || !info.ModTime().Equal(f.at)) {
			unsteady = append(unsteady, c.name(at))
		}
	}
	slices.Sort(unsteady)
	return unsteady
}

// passes says why a path is not read; "" if it is.
func (c *Coverage) passes(at string) string {
	for name := Shown(c.name(at)); name != "." && name != "/" && name != ""; name = filepath.Dir(name) {
		if reason, ok := c.passed[name]; ok {
			return reason
		}
	}
	return ""
}

// reads reports whether a path is that of a file which is read, or leads to one.
func (c *Coverage) reads(at string) bool {
	_, ok := c.files[at]
	return ok || c.folders[at]
}

// Unknown names what lies below dir and is read by none of the imports: it is in no store. Of a
// folder nothing of which is read only the folder is named.
func Unknown(dir string, by []*Coverage) (list []Remark, err error) {
	dir, err = filepath.EvalSymlinks(dir)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return nil, err
	}
	name := func(at string) string {
		if rel, err := filepath.Rel(dir, at); err == nil {
			return Shown(rel)
		}
		return Shown(at)
	}
	err = filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			list = append(list, Remark{File: name(at), Reason: Folder{}.Why(at, err)})
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
			if holds(at) {
				list = append(list, Remark{File: name(at) + "/", Reason: cmp.Or(reason, "a folder that no store reads")})
			}
			return fs.SkipDir
		default:
			list = append(list, Remark{File: name(at), Reason: cmp.Or(reason, "no store reads it")})
		}
		return nil
	})
	return list, err
}

var errFound = errors.New("found")

// holds reports whether anything but folders is in a folder.
func holds(folder string) bool {
	return filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return errFound
		}
		return nil
	}) != nil
}

// sumOf is the SHA-256 of a list with a line for each file, sorted by path: its SHA-256 in hex, its
// size and its path below dir.
func sumOf(dir string, by []*Coverage) (sum string, files, bytes int64) {
	lines := map[string]string{}
	for _, c := range by {
		for at, f := range c.files {
			name := at
			if rel, err := filepath.Rel(dir, at); err == nil {
				name = rel
			}
			if _, ok := lines[name]; !f.unread && !ok {
				lines[name] = fmt.Sprintf("%x %d %s\n", f.sum, f.size, name)
				bytes += f.size
			}
		}
	}
	names := make([]string, 0, len(lines))
	for name := range lines {
		names = append(names, name)
	}
	slices.Sort(names)
	hash := sha256.New()
	for _, name := range names {
		_, _ = io.WriteString(hash, lines[name])
	}
	return hex.EncodeToString(hash.Sum(nil)), int64(len(names)), bytes
}
