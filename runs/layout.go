// The layout of the old run store: runs/AGENT/RUN.jsonl, one JSON record per line, in a folder that
// also holds config.toml.
//
// A file becomes the run that its records name if its path is the one that the old program derives
// from those ids, by its own rule or by that of its later versions; else it becomes the run that
// its path names. If another file of the same tree has an id already, the next candidate is used:
// the ids of the path, then these with a mark of the path. A file name that is not UTF-8 becomes an
// id in which the invalid bytes are written as \xFF.
//
// A line that cannot be read keeps its place in the trace, where no call shows it and an export
// writes it again, and goes into quarantine. Blank lines keep their place too, without quarantine.
// A torn last line is kept in the ledger.

package runs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"selvedge/internal/tree"
)

// Layout returns the layout of the old run store's trees, for package legacy.
func Layout() tree.Layout { return layout{} }

type layout struct{}

// Name returns "runs".
func (layout) Name() string { return "runs" }

// Recognise accepts the folder that holds runs/, or runs/ itself, if a record in it can be read.
func (l layout) Recognise(dir tree.Folder) (string, bool, error) {
	files, agents, readable := 0, map[string]bool{}, false
	found, err := tree.EachIn(l, dir, func(root tree.Folder, path string) {
		files++
		agent, _, _ := strings.Cut(path, "/")
		agents[agent] = true
		readable = readable || holdsRecord(root, path) // other programs have a folder runs/ too
	})
	return fmt.Sprintf("run traces: %d files of %d agents", files, len(agents)), found && readable, err
}

// Root returns the folder runs/, which dir is or holds.
func (layout) Root(dir tree.Folder) (tree.Folder, error) {
	root, _, err := runsRoot(dir)
	return root, err
}

// Finish imports config.toml with its retention limits. It releases from quarantine what could not
// be read and is gone, and folders that can be read now.
func (layout) Finish(ctx context.Context, t *tree.Tree) error {
	if t.Unread {
		if err := releaseGone(ctx, t); err != nil {
			return err
		}
	}
	return takeSettings(ctx, t)
}

// nobackup is the name of the file that marks a folder of run traces.
const nobackup = ".nobackup"

// runsRoot returns the folder runs/ and the folder that holds it, the car folder, given either of
// them.
func runsRoot(dir tree.Folder) (root, carDir tree.Folder, err error) {
	if itself, err := isRunsRoot(dir); err != nil {
		return root, carDir, err
	} else if itself {
		carDir, err = dir.Parent()
		return dir, carDir, err
	}
	root, err = dir.Sub(runsFolder)
	if errors.Is(err, fs.ErrNotExist) {
		err = tree.NoTree(dir, "run traces", "name the folder that holds runs/ and config.toml, or its runs/")
	}
	return root, dir, err
}

const runsFolder = "runs"

// isRunsRoot reports whether dir is runs/ itself and not the folder that holds it: dir has the
// mark, or it has no runs/ in it and either is named runs or holds a record. An agent may be named
// "runs".
func isRunsRoot(dir tree.Folder) (bool, error) {
	if marked, err := dir.Has(nobackup); marked || err != nil {
		return marked, err
	}
	if _, err := dir.Sub(runsFolder); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if dir.Called(runsFolder) {
		return true, nil
	}
	return tree.HasFile(layout{}, dir, func(path string) bool { return holdsRecord(dir, path) })
}

// holdsRecord reports whether the first lines of a file hold a record of a run.
func holdsRecord(root tree.Folder, path string) bool {
	f, size, err := root.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // opened for reading only
	first, err := readerOf(f, size, 64<<10).next()
	return err == nil && slices.ContainsFunc(first.records, func(r record) bool {
		return r.record != nil
	})
}

// Walk visits what the original reads: every folder below the root, links followed, is an agent's,
// and every name in it with the extension jsonl is a run, of whatever file type. A folder that
// cannot be listed, that is behind a link that is not followed, or whose type the system does not
// report, is visited as a file that cannot be read.
func (layout) Walk(root tree.Folder, file func(string) error, ignored func(path, reason string) error) error {
	return root.Names(".", func(agent string) error {
		info, err := root.Stat(agent)
		switch {
		case agent == nobackup && (err != nil || !info.IsDir()):
			return nil //nolint:nilerr // it is no agent's folder, whether or not it can be read
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP):
			return ignored(agent, root.Why(agent, err))
		case err != nil:
			return file(agent)
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

// notARun returns why the original ignores a name in an agent's folder; "" if it does not.
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

// name returns the kind of a line, as the counts name it.
func (l *parsedLine) name() string {
	switch l.kind {
	case lineBlank:
		return tree.Blank
	case lineRecord:
		return l.record.RecordKind()
	case lineUnknown:
		return "unknown"
	case lineUndecodable:
	}
	return tree.Undecodable
}

// identities returns the candidate ids of a file, best first: the ids in its first records that
// lead to path, by the rule of the seed version or else by the later one, then those of the path.
func identities(path string, first []record) []tree.Entity {
	e := saidBy(path)
	list := []tree.Entity{e, {Group: e.Group, ID: e.ID + "~" + markOf(path)}}
	for _, rule := range []func(string) string{seedName, laterName} {
		for i := range first {
			e, ok := idsIn(first[i].record)
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

// saidBy returns the ids that a path names.
func saidBy(path string) tree.Entity {
	agent, name, _ := strings.Cut(path, "/")
	return tree.Entity{Group: tree.Shown(agent), ID: tree.Shown(strings.TrimSuffix(name, runExtension))}
}

func idsIn(r Record) (tree.Entity, bool) {
	switch r := r.(type) {
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

// Forms returns the one file of a run.
func (layout) Forms(path string) []string { return []string{path} }
