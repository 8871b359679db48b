package runs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/tree"
)

// sqlClaimed finds another run that came from a path and still exists.
var sqlClaimed = `
SELECT f.entity_group, f.entity_id FROM import_sources AS s
JOIN import_files AS f ON f.source = s.id AND ` + paging.Same("f.path", "?1") + `
JOIN runs AS r ON r.key = f.entity_row AND r.run_id = f.entity_id AND r.agent_id = f.entity_group
WHERE s.scope = ?2 AND s.kind = ?3 AND f.state = 'taken' AND r.scope = s.scope ORDER BY s.id LIMIT 1`

// nobackupText is what the original writes into its nobackup file.
const nobackupText = "car run traces - excluded from backup\n"

// Export writes dir/runs/AGENT/RUN.jsonl, and dir/config.toml if one was imported or limits are
// stored.
func (layout) Export(ctx context.Context, t *tree.Tree) error {
	dir := t.Root
	t.Root = filepath.Join(dir, "runs")
	err := os.MkdirAll(t.Root, 0o700)
	if err == nil {
		err = tree.WriteMark(filepath.Join(t.Root, nobackup), []byte(nobackupText))
	}
	if err != nil {
		return err
	}
	for run, err := range entities(ctx, t) {
		if err == nil {
			err = export(ctx, t, tree.Entity{Group: run.AgentID, ID: run.RunID})
		}
		if err != nil {
			return err
		}
	}
	s, err := settingsOf(ctx, t)
	if err != nil || !s.there {
		return err
	}
	for _, reason := range s.unsaid {
		t.Report.LeaveOut(configFile, reason)
	}
	return tree.WriteMark(filepath.Join(dir, configFile), s.text)
}

func export(ctx context.Context, t *tree.Tree, e tree.Entity) error {
	path, held, problem, err := findPath(ctx, t, e)
	var f *os.File
	if err == nil && problem == "" {
		f, problem, err = t.Create(path)
	}
	if err != nil {
		return err
	}
	if problem != "" {
		t.Report.LeaveOut(path, title(e)+": "+problem)
		return nil
	}
	first, err := copyLines(ctx, t, f, e)
	if err != nil {
		return fmt.Errorf("export %s: %w", path, err)
	}
	if ids := identities(path, first); !held && ids[0] != e {
		t.Report.LeaveOut(path, fmt.Sprintf("%s is written, but its id is not in its records: an import would "+
			"call it %s", title(e), title(ids[0])))
	}
	return nil
}

// findPath returns the path that e came from (held), or else the one that the old program would
// choose. problem is why there is none, such as another run that came from that path.
func findPath(ctx context.Context, t *tree.Tree, e tree.Entity) (path string, held bool, problem string,
	err error,
) {
	err = t.DB.Read(ctx, "look up where something came from", func(rx *db.Rx) error {
		s, ok, err := stateOf(rx, t.Source.Scope, e)
		if err == nil && !ok {
			problem = "was removed meanwhile"
		}
		if err != nil || !ok {
			return err
		}
		from, ok, err := t.Source.Holder(rx, e, s.Row)
		if err != nil || ok {
			path, held = string(from.Path), true
			return err
		}
		path = runPath(e, seedName)
		agent, name, _ := strings.Cut(path, "/")
		if len(agent) > tree.MaxName || len(name) > tree.MaxName {
			problem = "its file name is too long"
			return nil
		}
		var other tree.Entity
		if ok, err = rx.Find(&other, sqlClaimed, []byte(path), t.Source.Scope, layout{}.Name()); ok {
			problem = "its file name is that of " + title(other)
		}
		return err
	})
	return path, held, problem, err
}

// copyLines writes the lines of e and closes f. It returns the first records as an import would
// read them.
func copyLines(ctx context.Context, t *tree.Tree, f *os.File, e tree.Entity) (first []record, err error) {
	out := bufio.NewWriterSize(f, 256<<10)
	offset := int64(0)
	err = traceContent{t, e}.each(ctx, func(text []byte, lf bool) error {
		line := readLine(text)
		t.Report.Count(line.name(), func(c *tree.Count) { c.Read++; c.New++ })
		if offset < pieceBytes {
			first = append(first, record{offset, line})
		}
		n, err := out.Write(text)
		if err == nil && lf {
			err = out.WriteByte('\n')
			n++
		}
		offset += int64(n)
		return err
	})
	if err == nil {
		err = out.Flush()
	}
	return first, t.Finish(f, offset, err)
}

// ReadBack reads a trace as the original does, which skips lines that it cannot read and stops at
// one that is not UTF-8.
func (layout) ReadBack(root tree.Folder, path string, say func(file string, line int, reason string)) error {
	f, _, err := root.Open(path)
	if err != nil {
		say(path, 0, root.Why(path, err))
		return nil
	}
	defer f.Close() //nolint:errcheck // opened for reading only
	in := bufio.NewReaderSize(f, 256<<10)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if !utf8.Valid(line) {
			say(path, n, "the line is not UTF-8, and nothing is read from it on")
			return nil
		}
		if errors.Is(err, io.EOF) {
			say(path, 0, "")
			return nil
		}
		if err != nil {
			return err
		}
	}
}
