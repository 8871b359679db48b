package agents_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/legacy"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
)

// A scratch folder is where the file ops of a transcript run for real: what is in the database is
// exported before an op that touches the old tree, and what such an op changed is imported into a
// new file.
type scratch struct {
	*player
	root string
}

func newScratch(p *player) *scratch {
	root, err := filepath.EvalSymlinks(p.t.TempDir())
	if err != nil {
		p.t.Fatal(err)
	}
	return &scratch{player: p, root: root}
}

const (
	agentsFolder = ".heddle/agents"
	extension    = ".toml"
)

func (s *scratch) play(c *replay.Call) replay.Answer {
	path := c.Text("path")
	inTree := path == agentsFolder || strings.HasPrefix(path, agentsFolder+"/")
	if inTree && path != agentsFolder || c.Op == "fs_list" {
		s.export()
	}
	switch c.Op {
	case "fs_list":
		return s.list(path, inTree)
	case "fs_read":
		return s.read(path)
	}
	s.change(c, filepath.Join(s.root, path))
	if inTree {
		s.note(c, strings.TrimPrefix(path, agentsFolder+"/"))
		s.bringIn()
	}
	return replay.Answer{}
}

// change does what the op says.
func (s *scratch) change(c *replay.Call, path string) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	var err error
	switch c.Op {
	case "fs_write":
		err = os.WriteFile(path, s.contents(c), 0o600)
	case "fs_mkdir":
		err = os.MkdirAll(path, 0o700)
	case "fs_symlink":
		err = os.Symlink(strings.ReplaceAll(c.Text("target"), "$root", s.root), path)
	case "fs_remove":
		if err = os.RemoveAll(path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	default:
		s.t.Fatalf("line %d: no counterpart of %s", c.Line, c.Op)
	}
	if err != nil {
		s.t.Fatalf("line %d: %v", c.Line, err)
	}
}

func (s *scratch) contents(c *replay.Call) []byte {
	if !c.Has("base64") {
		return []byte(strings.ReplaceAll(c.Text("text"), "$root", s.root))
	}
	data, err := base64.StdEncoding.DecodeString(c.Text("base64"))
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

// note tells the models what the op did to the tree.
func (s *scratch) note(c *replay.Call, name string) {
	stem, isEntry := strings.CutSuffix(name, extension)
	switch {
	case c.Op == "fs_write" && name == agentsFolder:
		s.cause = 17
		s.original.Obstruct("lock file not accessible: File exists (os error 17)", true)
	case c.Op == "fs_mkdir" && name == ".lock":
		s.cause = 17
		s.original.Obstruct("lock file not accessible: Is a directory (os error 21)", false)
	case c.Op == "fs_remove" && isEntry:
		for _, m := range []*replay.Agents{&s.original, &s.ours} {
			m.Remove(stem)
		}
	case c.Op == "fs_write" && isEntry:
		s.written(stem, s.contents(c))
	case c.Op == "fs_mkdir" && isEntry:
		s.folder(stem)
	case c.Op == "fs_symlink" && isEntry:
		s.linked(stem, filepath.Join(s.root, agentsFolder, name))
	}
}

func (s *scratch) folder(stem string) {
	s.cause = 17
	for _, m := range []*replay.Agents{&s.original, &s.ours} {
		m.Folder(stem)
	}
}

// linked: a link is read like what it leads to. One that leads nowhere is not there.
func (s *scratch) linked(stem, path string) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		s.t.Fatal(err)
	case info.IsDir():
		s.folder(stem)
	default:
		text, err := os.ReadFile(path)
		s.must(err)
		s.written(stem, text)
	}
}

func (s *scratch) written(stem string, text []byte) {
	e, err := agents.DecodeTOML(text)
	bad := ""
	switch {
	case err != nil:
		bad, s.cause = err.Error(), 13
	case e.SessionID != stem:
		s.cause = 27
	}
	entry, _ := s.spelled(e).(map[string]any)
	for _, m := range []*replay.Agents{&s.original, &s.ours} {
		m.Write(stem, entry, bad)
	}
}

// export writes the registry into the tree, beside the files there that it does not hold: those
// that can't be read.
func (s *scratch) export() {
	fresh := filepath.Join(s.t.TempDir(), "export")
	report, err := legacy.Export(ctx, s.db, legacy.Agents, fresh, legacy.Options{})
	if err != nil || !leavesWhole(&report) {
		s.t.Fatalf("export: %+v, %v", report, err)
	}
	for _, f := range report.Readable {
		if !f.Readable { // it is still in the tree, or was changed there
			s.must(os.Remove(filepath.Join(fresh, "agents", f.File)))
		}
	}
	tree := filepath.Join(s.root, agentsFolder)
	if info, err := os.Stat(tree); err == nil && !info.IsDir() {
		return
	}
	for _, name := range s.names(tree) {
		text, err := os.ReadFile(filepath.Join(tree, name))
		if errors.Is(err, unix.EISDIR) || errors.Is(err, fs.ErrNotExist) { // a folder, a link that leads nowhere
			continue
		}
		if err != nil {
			s.t.Fatal(err)
		}
		if _, err := agents.DecodeTOML(text); err == nil {
			s.must(os.Remove(filepath.Join(tree, name)))
		}
	}
	s.must(os.MkdirAll(tree, 0o700))
	for _, name := range s.names(filepath.Join(fresh, "agents")) {
		if info, err := os.Stat(filepath.Join(tree, name)); err == nil && info.IsDir() {
			continue // the entry has no place there
		}
		s.must(os.Rename(filepath.Join(fresh, "agents", name), filepath.Join(tree, name)))
	}
}

func (s *scratch) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// names are the record files of a folder.
func (s *scratch) names(dir string) []string {
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	var names []string
	for _, one := range list {
		if strings.HasSuffix(one.Name(), extension) {
			names = append(names, one.Name())
		}
	}
	return names
}

// bringIn goes on in a new file, into which the tree was imported.
func (s *scratch) bringIn() {
	s.open(dbtest.Path(s.t))
	_, err := legacy.Import(ctx, s.db, legacy.Agents, filepath.Join(s.root, ".heddle"), legacy.Options{})
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		s.t.Fatal(err)
	}
}

// list compares the names of record files; the folder itself and the lock are not ours.
func (s *scratch) list(path string, inTree bool) replay.Answer {
	var recorded []string
	if inTree {
		for _, stem := range s.original.Names() {
			recorded = append(recorded, stem+extension)
		}
		if s.original.Locked {
			recorded = append(recorded, ".lock")
		}
	}
	slices.Sort(recorded)
	var expected []string
	if inTree {
		unread := slices.DeleteFunc(s.original.Names(), func(stem string) bool { return !s.original.Bad(stem) })
		for _, stem := range append(s.ours.Names(), unread...) { // an import leaves these where they are
			expected = append(expected, stem+extension)
		}
	}
	slices.Sort(expected)
	return replay.Answer{
		Outcome: replay.Outcome{OK: append([]string{}, s.names(filepath.Join(s.root, path))...)},
		Model:   &replay.Outcome{OK: append([]string{}, recorded...)},
		Rule:    20, Instead: &replay.Outcome{OK: append([]string{}, expected...)},
	}
}

// read compares a file with what the original's encoder makes of the model's entry: byte for byte,
// but for the keys that only ours keeps: a file that has such keys must say the same entry.
func (s *scratch) read(path string) replay.Answer {
	stem := strings.TrimSuffix(filepath.Base(path), extension)
	var modelled agents.Entry
	s.must(json.Unmarshal(replay.Encode(s.meant(s.original.Entry(stem))), &modelled))
	want := strings.ReplaceAll(string(modelled.TOML()), s.root, "$root")
	text, err := os.ReadFile(filepath.Join(s.root, path))
	s.must(err)
	got := strings.ReplaceAll(string(text), s.root, "$root")
	answer := replay.Answer{Outcome: replay.Outcome{OK: got}, Model: &replay.Outcome{OK: want}}
	if got != want {
		e, err := agents.DecodeTOML(text)
		s.must(err)
		answer.Rule, answer.Outcome, answer.Instead = 20, replay.Outcome{OK: e}, &replay.Outcome{OK: modelled}
	}
	return answer
}
