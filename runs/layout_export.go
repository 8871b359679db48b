package runs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/tree"
)

// An exporter writes the runs of a scope.
type exporter struct{ *room }

var sqlClaimed = `
SELECT f.entity_group, f.entity_id, f.entity_row FROM import_sources AS s
JOIN import_files AS f ON f.source = s.id AND ` + paging.Same("f.path", "?1") + `
WHERE s.scope = ?2 AND s.kind = ?3 AND f.state = 'taken'`

// nobackupText is what the original writes into its mark.
const nobackupText = "car run traces - excluded from backup\n"

// Export writes dir/runs/AGENT/RUN.jsonl, and dir/config.toml where there was one or limits are stored.
func (layout) Export(ctx context.Context, t *tree.Tree) error {
	dir := t.Root
	t.Root = filepath.Join(dir, "runs")
	err := os.MkdirAll(t.Root, 0o700)
	if err == nil {
		err = tree.WriteMark(filepath.Join(t.Root, nobackup), []byte(nobackupText))
	}
	if err == nil {
		err = (&exporter{roomOf(t)}).all(ctx)
	}
	if err == nil {
		err = giveSettings(ctx, t, dir)
	}
	return err
}

func (x *exporter) all(ctx context.Context) error {
	for e, err := range x.store.entities(ctx) {
		if err != nil {
			return err
		}
		if err := x.one(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) one(ctx context.Context, e tree.Entity) error {
	path, held, problem, err := x.find(ctx, e)
	if err != nil {
		return err
	}
	var f *os.File
	if problem == "" {
		f, problem, err = x.Create(path)
		if err != nil {
			return err
		}
	}
	if problem != "" {
		x.Report.LeaveOut(path, title(e)+": "+problem)
		return nil
	}
	first, err := x.copy(ctx, f, e)
	if err != nil {
		return fmt.Errorf("export %s: %w", path, err)
	}
	if ids := identities(path, first); !held && ids[0] != e {
		x.Report.LeaveOut(path, fmt.Sprintf("%s is written, but its id is not in its records: an import would "+
			"call it %s", title(e), title(ids[0])))
	}
	return nil
}

// find is where e belongs: where it came from, or where the old program would put it, if nothing
// else came from there.
func (x *exporter) find(ctx context.Context, e tree.Entity) (path string, held bool, problem string,
	err error,
) {
	err = x.DB.Read(ctx, "look up where something came from", func(rx *db.Rx) error {
		s, ok, err := x.store.state(rx, e)
		if err != nil {
			return err
		}
		if !ok {
			problem = "was removed meanwhile"
			return nil
		}
		from, ok, err := x.Source.Holder(rx, e, s.Row)
		if err != nil || ok {
			path, held = string(from.Path), true
			return err
		}
		if path, problem = place(e); problem != "" {
			return nil
		}
		return x.claimed(rx, path, &problem)
	})
	return path, held, problem, err
}

// claimed sets problem when path is where something else came from that is still here.
func (x *exporter) claimed(rx *db.Rx, path string, problem *string) error {
	var rows []struct {
		Group string `db:"entity_group"`
		ID    string `db:"entity_id"`
		Row   int64  `db:"entity_row"`
	}
	if err := rx.Select(&rows, sqlClaimed, []byte(path), x.Source.Scope, layout{}.Name()); err != nil {
		return err
	}
	for _, r := range rows {
		other := tree.Entity{Group: r.Group, ID: r.ID}
		s, ok, err := x.store.state(rx, other)
		if err != nil {
			return err
		}
		if ok && s.Row == r.Row {
			*problem = "its file name is that of " + title(other)
		}
	}
	return nil
}

// copy writes the lines of e and closes f. It returns the first records, as an import would meet them.
func (x *exporter) copy(ctx context.Context, f *os.File, e tree.Entity) (first []record, err error) {
	out := bufio.NewWriterSize(f, 256<<10)
	offset := int64(0)
	c := traceContent{x.room, e}
	err = c.each(ctx, func(text []byte, lf bool) error {
		kind, reason, line := kindOfLine(text)
		x.Report.Count(kind, func(c *tree.Count) { c.Read++; c.New++ })
		if offset < pieceBytes {
			first = append(first, record{offset: offset, kind: kind, reason: reason, line: line})
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
	return first, x.Finish(f, offset, err)
}

// ReadBack reads a trace as the original does, which passes over lines that it can't read, and
// stops at one that is not UTF-8.
func (layout) ReadBack(root tree.Folder, path string, say func(file string, line int, reason string)) error {
	f, _, err := root.Open(path)
	if err != nil {
		say(path, 0, root.Why(path, err))
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
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
