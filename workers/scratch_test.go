package workers_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"selvedge/legacy"
	"selvedge/test/replay"
	"selvedge/workers"
)

// A scratch folder is where the file ops of a transcript run for real: what ours has changed is
// exported before an op that touches the old tree, and what such ops changed is imported into a new
// file when a runtime is opened next.
type scratch struct {
	*player
	root     string
	dirty    bool // ours was written to since it was exported
	changed  bool // the tree was changed since it was imported
	imported bool
}

func newScratch(p *player) *scratch {
	return &scratch{player: p, root: filepath.Join(p.t.TempDir(), "tree")}
}

func (s *scratch) play(c *replay.Call) replay.Answer {
	s.export()
	theirs, ours := fileOp(s.translated(c), s.original.Dir), fileOp(c, s.root)
	wanted := theirs
	if c.Op == "fs_list" || c.Op == "fs_read" {
		wanted = fileOp(c, s.meant.Dir)
	} else { // the model of what is meant gets our tree with this change, once a runtime is opened
		s.changed = true
	}
	answer := replay.Answer{Outcome: ours, Model: &theirs}
	// another file: the original left it as a failure or a removal left it, or wrote the same line again
	if !same(ours, theirs) {
		answer.Rule, answer.Instead = 20, &wanted
		if s.cause == 0 && !s.changed {
			answer.Wrong = "no rule lets the trees differ"
		}
	}
	return answer
}

var hexOf = regexp.MustCompile(`id-hex\(([^)]*)\)`)

// fileOp does what the op says, below root.
func fileOp(c *replay.Call, root string) replay.Outcome {
	value, err := doFileOp(c, root, at(root, c.Text("path")))
	if err != nil {
		return replay.Fails(err, "io")
	}
	return replay.Outcome{OK: value}
}

func at(root, path string) string {
	return filepath.Join(root, hexOf.ReplaceAllStringFunc(path, func(spelled string) string {
		return "id-" + hex.EncodeToString([]byte(hexOf.FindStringSubmatch(spelled)[1]))
	}))
}

func doFileOp(c *replay.Call, root, path string) (any, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	switch c.Op {
	case "fs_list":
		return listFolder(path)
	case "fs_read":
		text, err := os.ReadFile(path)
		return string(text), err
	case "fs_mkdir":
		return nil, os.MkdirAll(path, 0o700)
	case "fs_remove":
		if _, err := os.Lstat(path); err != nil {
			return nil, err
		}
		return nil, os.RemoveAll(path)
	case "fs_rename":
		return nil, os.Rename(path, at(root, c.Text("to")))
	case "fs_write":
		return nil, writeFile(c, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	switch c.Op {
	case "fs_replace":
		text = bytes.Replace(text, []byte(c.Text("from")), []byte(c.Text("to")), 1)
	case "fs_truncate":
		var cut int
		if err := c.Unmarshal("cut", &cut); err != nil {
			return nil, err
		}
		text = text[:max(0, len(text)-cut)]
	default:
		return nil, errors.New("no counterpart of " + c.Op)
	}
	return nil, os.WriteFile(path, text, 0o600)
}

func listFolder(path string) (any, error) {
	list, err := os.ReadDir(path)
	names := []string{}
	for _, entry := range list {
		names = append(names, replay.ListedName(entry.Name()))
	}
	slices.Sort(names)
	return names, err
}

func writeFile(c *replay.Call, path string) error {
	text := []byte(c.Text("text"))
	if c.Has("base64") {
		var err error
		if text, err = base64.StdEncoding.DecodeString(c.Text("base64")); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	var more bool
	if err := c.Unmarshal("append", &more); err != nil {
		return err
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if more {
		how = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	f, err := os.OpenFile(path, how, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// export writes what ours has over the tree. A file stays away where a folder stands in its place,
// and a folder where a file does.
func (s *scratch) export() {
	if !s.dirty {
		return
	}
	s.dirty = false
	fresh := filepath.Join(s.t.TempDir(), "export")
	if _, err := legacy.Export(s.t.Context(), s.db, legacy.Workers, fresh, legacy.Options{}); err != nil {
		s.t.Fatal(err)
	}
	s.copyOver(fresh, s.root)
}

func (s *scratch) copyOver(from, to string) {
	err := filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := to + path[len(from):]
		info, err := os.Stat(target)
		switch {
		case err == nil && entry.IsDir() && !info.IsDir():
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(target, 0o700)
		case err == nil && info.IsDir():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o600)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// bringIn goes on in a new file, into which the tree was imported; the model of what is meant gets
// a copy of it.
func (s *scratch) bringIn() {
	s.export()
	ours := s.ours
	s.newFile()
	s.ours = ours // names the runtime that reopen is about
	if _, err := legacy.Import(s.t.Context(), s.db, legacy.Workers, s.root, legacy.Options{}); err != nil {
		s.t.Fatal(err)
	}
	s.must(os.RemoveAll(s.meant.Dir))
	s.copyOver(s.root, s.meant.Dir)
	s.changed, s.imported = false, true
}

// lacks reports whether the runtime's folder was taken out of the tree that ours was imported from.
func (s *scratch) lacks(id workers.RuntimeID) bool {
	_, err := os.Lstat(filepath.Join(s.root, "runtimes", replay.IDName(string(id))))
	return s.imported && errors.Is(err, fs.ErrNotExist)
}

func (s *scratch) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}
