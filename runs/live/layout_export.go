package live

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/tree"
)

// Export writes dir/runs/SESSION.json: a run that came from a file goes back to the file of that
// session, any other to that of its own session.
func (layout) Export(ctx context.Context, t *tree.Tree) error {
	if err := os.Mkdir(filepath.Join(t.Root, "runs"), 0o700); err != nil {
		return err
	}
	runs, err := stores.Get(ctx, t.DB.Read, "begin export",
		func(rx *db.Rx) ([]placed, error) { return placedRuns(rx, t.Source.Scope) })
	if err != nil {
		return err
	}
	for _, f := range place(t, runs) {
		if err := f.write(ctx, t); err != nil {
			return fmt.Errorf("export %s: %w", f.path, err)
		}
	}
	return nil
}

// A target is a file of an export.
type target struct {
	path    string
	session string
	runs    []placed
}

// place finds the file of every run. Files are in the order of their first runs; records are in the
// order of the file they came from, then oldest first.
func place(t *tree.Tree, runs []placed) []*target {
	var list []*target
	byPath := map[string]*target{}
	add := func(p placed, path, session string) {
		f := byPath[path]
		if f == nil {
			f = &target{path: path, session: session}
			byPath[path] = f
			list = append(list, f)
		}
		if f.session != session {
			t.Report.LeaveOut(path, fmt.Sprintf("a run of session %q: the file's name is also that of session %q, "+
				"which has it", session, f.session))
			return
		}
		// a run may be both in runs/ and in v1/
		if !slices.ContainsFunc(f.runs, func(r placed) bool { return r.Key == p.Key }) {
			f.runs = append(f.runs, p)
		}
	}
	// Runs that came from files go first: the files are theirs.
	for _, p := range runs {
		if p.Source == 0 {
			continue
		}
		stem, _ := sessionOf(string(p.Path))
		session := stem
		if filepath.Dir(string(p.Path)) == "runs" && safeName(p.SessionID) == stem {
			session = p.SessionID
		}
		path := "runs/" + safeName(stem) + sessionExtension
		if f := byPath[path]; f != nil && f.session != session && filepath.Dir(string(p.Path)) == "runs" {
			session = f.session // it came from this file, whatever session its record names
		}
		add(p, path, session)
	}
	for _, p := range runs {
		if p.Source == 0 {
			add(p, "runs/"+safeName(p.SessionID)+sessionExtension, p.SessionID)
		}
	}
	for _, f := range list {
		slices.SortStableFunc(f.runs, func(a, b placed) int {
			if a.Source == 0 || b.Source == 0 {
				return int(min(b.Source, 1) - min(a.Source, 1))
			}
			return a.Position - b.Position
		})
	}
	return list
}

// write writes the file, a record at a time.
func (f *target) write(ctx context.Context, t *tree.Tree) error {
	out, problem, err := t.Create(f.path)
	if err != nil {
		return err
	}
	if problem != "" {
		t.Report.LeaveOut(f.path, fmt.Sprintf("session %q: %s", f.session, problem))
		return nil
	}
	var w fileWriter
	var size int64
	write := func(more []byte, err error) error {
		if err == nil {
			_, err = out.Write(more)
		}
		size += int64(len(more))
		return err
	}
	for i := 0; i < len(f.runs) && err == nil; i++ {
		var record []byte
		var verbatim, found bool
		err = t.DB.Read(ctx, "export live run", func(rx *db.Rx) (err error) {
			record, verbatim, found, err = recordText(rx, f.runs[i].Key)
			return err
		})
		if found && err == nil { // else it was removed meanwhile
			err = write(w.Append(nil, record, verbatim), nil)
			t.Report.CountAll(tree.Tally{kindRun: 1}, tree.New)
		}
	}
	return t.Finish(out, size, write(w.End(nil), err))
}

// ReadBack reads a session's file as the original does: all of its records or none.
func (layout) ReadBack(root tree.Folder, path string, say func(file string, line int, reason string)) error {
	text, err := root.Read(path, maxFile)
	if err != nil {
		say(path, 0, root.Why(path, err))
		return nil
	}
	at, reason := whyUnreadable(text)
	line := 0
	if reason != "" {
		line = tree.LineAt(text, at)
	}
	say(path, line, reason)
	return nil
}

// GivesBack reports true for every file.
func (layout) GivesBack(tree.Folder, string) bool { return true }
