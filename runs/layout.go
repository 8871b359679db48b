// The layout of the old run store: runs/AGENT/RUN.jsonl, one JSON record a
// line, in a folder that also holds config.toml.
//
// A file becomes the run that its records name, where its place is the one that the old program
// gives to those ids by its own rule or by that of its later versions; else the run that its place
// names. An id that a file of the same tree holds already is passed over for the next best: the
// place's ids, then the place's with a mark of its own. A file name that is no UTF-8 gives an id in
// which the odd bytes are written as \xFF.
//
// A line that can't be read stays in its place in the trace, where no call shows it and an export
// writes it again, and goes into quarantine; the same holds for blank lines, without the
// quarantine. A torn last line is kept in the ledger.

package runs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"selvedge/db"
	"selvedge/internal/tree"
)

// Layout is that of the old run store's trees, for package legacy.
func Layout() tree.Layout { return layout{} }

type layout struct{}

// Name is "runs".
func (layout) Name() string { return "runs" }

// Recognise takes the folder that holds runs/, or runs/ itself, if a record in it can be read.
func (l layout) Recognise(dir tree.Folder) (string, bool, error) {
	root, _, err := runsRoot(dir)
	if errors.Is(err, db.ErrNotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	files, agents, readable := 0, map[string]bool{}, false
	err = l.Walk(root, func(path string) error {
		files++
		agent, _, _ := strings.Cut(path, "/")
		agents[agent] = true
		readable = readable || holdsRecord(root, path) // other programs have a folder runs/ too
		return nil
	}, func(string, string) error { return nil })
	return fmt.Sprintf("run traces: %d files of %d agents", files, len(agents)), err == nil && readable, err
}

// Root is runs/, which dir is or holds.
func (layout) Root(dir tree.Folder) (tree.Folder, error) {
	root, _, err := runsRoot(dir)
	return root, err
}

// Finish takes config.toml with the limits of retention that it says, and out
// of the quarantine what could not be read and is gone or, a folder, can be read now.
func (layout) Finish(ctx context.Context, t *tree.Tree) error {
	if t.Unread {
		if err := releaseGone(ctx, t); err != nil {
			return err
		}
	}
	return takeSettings(ctx, t)
}

// nobackup marks a folder of run traces.
const nobackup = ".nobackup"

// runsRoot finds the folder runs/ from itself or from the folder that holds it, the car folder.
func runsRoot(dir tree.Folder) (root, carDir tree.Folder, err error) {
	if itself, err := isRunsRoot(dir); err != nil {
		return root, carDir, err
	} else if itself {
		carDir, err = dir.Parent()
		return dir, carDir, err
	}
	root, err = dir.Sub(runsFolder)
	if errors.Is(err, fs.ErrNotExist) {
		err = &db.Error{
			Op: "open tree", Entity: "run traces", ID: dir.Path(), Err: db.ErrNotFound,
			Hint: "name the folder that holds runs/ and config.toml, or its runs/",
		}
	}
	return root, dir, err
}

const runsFolder = "runs"

// isRunsRoot reports whether dir is the folder runs/, and not the one that holds it: it bears the
// mark, or has no runs/ in it and is called so or holds a record. An agent may be called "runs".
func isRunsRoot(dir tree.Folder) (bool, error) {
	if !dir.Lacks(nobackup) {
		return true, nil
	}
	if _, err := dir.Sub(runsFolder); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if dir.Called(runsFolder) {
		return true, nil
	}
	found := errors.New("found")
	err := layout{}.Walk(dir, func(path string) error {
		if holdsRecord(dir, path) {
			return found
		}
		return nil
	}, func(string, string) error { return nil })
	if errors.Is(err, found) {
		return true, nil
	}
	return false, err
}

// holdsRecord reports whether a record of a run is among the first lines of a file.
func holdsRecord(root tree.Folder, path string) bool {
	f, size, err := root.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	first, err := readerOf(f, size, 64<<10).next()
	return err == nil && slices.ContainsFunc(first.records, func(r record) bool {
		return r.line.record != nil
	})
}

// Walk does as the original: every folder below the root, links followed, is an agent's, and every
// name with the extension jsonl in it is a run, whatever it is. A folder that can't be listed, or
// that a link leads to which is not followed, or of which the system does not say what it is, is
// reported as a file that can't be read.
func (layout) Walk(root tree.Folder, file func(path string) error,
	ignored func(path, reason string) error,
) error {
	return root.Names(".", func(agent string) error {
		info, err := root.Stat(agent)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP):
			return ignored(agent, root.Why(agent, err))
		case err != nil:
			return file(agent)
		case !info.IsDir() && agent == nobackup:
			return nil
		case !info.IsDir():
			return ignored(agent, "is in no agent's folder")
		}
		err = root.Names(agent, func(name string) error {
			path := agent + "/" + name
			if reason := notARun(name); reason != "" {
				return ignored(path, reason)
			}
			return file(path)
		})
		var unreadable *fs.PathError
		if errors.As(err, &unreadable) && unreadable.Path == tree.Below(root.Path(), agent) {
			return file(agent)
		}
		return err
	})
}

const runExtension = ".jsonl"

// notARun says why the original does not look at a name in an agent's folder; "" if it does.
func notARun(name string) string {
	switch {
	case strings.HasSuffix(name, runExtension) && len(name) > len(runExtension):
		return ""
	case name == runExtension:
		return "has nothing before its extension"
	case strings.HasPrefix(name, ".run-summar"), strings.HasPrefix(name, ".run-trace-corruption"):
		return "is an index that later versions make from the traces"
	}
	return "has another extension than .jsonl"
}

// decode tells what a line is: what the counts call it, and why it can't be read ("" if it can).
func kindOfLine(text []byte) (kind, reason string, line parsedLine) {
	line = readLine(text)
	switch line.kind {
	case lineBlank:
		return tree.Blank, "", line
	case lineRecord:
		return line.record.RecordKind(), "", line
	case lineUnknown:
		return "unknown", "", line
	case lineUndecodable:
	}
	return tree.Undecodable, line.err.Reason, line
}

// identities are the ids in the first records that lead to path, by the rule of the seed version or
// else by the later one, then those of the path.
func identities(path string, first []record) []tree.Entity {
	e := saidBy(path)
	list := []tree.Entity{e, {Group: e.Group, ID: e.ID + "~" + markOf(path)}}
	for _, rule := range []func(string) string{seedName, laterName} {
		for i := range first {
			e, ok := idsIn(first[i].line)
			if !ok || runPath(e, rule) != path || (RunRef{e.Group, e.ID}).check() != nil {
				continue
			}
			if e != list[0] {
				list = slices.Insert(list, 0, e)
			}
			return list
		}
	}
	return list
}

// saidBy are the ids that a path says.
func saidBy(path string) tree.Entity {
	agent, name, _ := strings.Cut(path, "/")
	return tree.Entity{Group: tree.Shown(agent), ID: tree.Shown(strings.TrimSuffix(name, runExtension))}
}

func idsIn(line parsedLine) (tree.Entity, bool) {
	switch r := line.record.(type) {
	case Started:
		return tree.Entity{Group: r.AgentID, ID: r.RunID}, true
	case Ended:
		return tree.Entity{Group: r.AgentID, ID: r.RunID}, true
	}
	return tree.Entity{}, false
}

func title(e tree.Entity) string {
	return fmt.Sprintf("run %q of agent %q", e.ID, e.Group)
}

// Forms is the one file of a run.
func (layout) Forms(path string) []string { return []string{path} }
