package legacy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"selvedge/db"
)

// An exporter writes the things of a scope into a folder. Nothing that is there is ever overwritten.
type exporter struct {
	*importer
	report *Report
}

const sqlClaimed = `
SELECT f.entity_group, f.entity_id, f.entity_row FROM import_sources AS s JOIN import_files AS f ON f.source = s.id AND f.path = ?
WHERE s.scope = ? AND s.kind = ? AND f.state = 'taken'`

func runExport(ctx context.Context, d *db.DB, l layout, scope, dir string, o Options) (Report, error) {
	report, err := exportAll(ctx, d, l, scope, dir, o)
	return report, interrupted(ctx, "export", err)
}

func exportAll(ctx context.Context, d *db.DB, l layout, scope, dir string, o Options) (Report, error) {
	x := &importer{d: d, layout: l, store: l.store(d, scope), o: o, report: newReport(l.name(), scope, dir)}
	if err := emptyFolder(dir); err != nil {
		return x.report, err
	}
	root, err := l.prepare(dir)
	if err != nil {
		return x.report, err
	}
	x.root = root
	err = d.Read(ctx, "begin export", func(rx *db.Rx) (err error) {
		x.source.kind = l.name()
		x.source.scope, _, err = rx.Scope(scope)
		return err
	})
	if err != nil || x.source.scope == 0 {
		return x.report, err
	}
	e := &exporter{importer: x, report: &x.report}
	err = e.all(ctx)
	return x.report, err
}

// emptyFolder makes dir, or sees that nothing is in it.
func emptyFolder(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err != nil {
		return err
	}
	names, _, err := namesAfter(dir, "", 1)
	if err == nil && len(names) > 0 {
		err = &db.Error{Op: "export", Entity: "folder", ID: dir, Hint: "export into a new folder", Err: fmt.Errorf("%w: it is not empty", db.ErrInvalid)}
	}
	return err
}

func (x *exporter) all(ctx context.Context) error {
	for e, err := range x.store.entities(ctx) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if err := x.one(ctx, e); err != nil {
			return err
		}
		if x.o.Progress != nil {
			x.o.Progress(x.at)
		}
	}
	return nil
}

func (x *exporter) one(ctx context.Context, e entity) error {
	path, held, problem, err := x.place(ctx, e)
	if err != nil {
		return err
	}
	var f *os.File
	if problem == "" {
		f, problem, err = x.create(path)
		if err != nil {
			return err
		}
	}
	if problem != "" {
		x.report.remark(&x.report.LeftOut, path, x.layout.title(e)+": "+problem)
		return nil
	}
	first, err := x.copy(ctx, f, e)
	if err != nil {
		return fmt.Errorf("export %s: %w", path, err)
	}
	x.report.Files.Found++
	x.report.Files.New++
	x.at.Files++
	if ids := x.layout.identities(path, first); !held && ids[0] != e {
		x.report.remark(&x.report.LeftOut, path, fmt.Sprintf("%s is written, but its id is not in its records: an import would call it %s", x.layout.title(e), x.layout.title(ids[0])))
	}
	return nil
}

// place is where e belongs: where it came from, or where the old program would put it, if nothing else came from there.
func (x *exporter) place(ctx context.Context, e entity) (path string, held bool, problem string, err error) {
	err = x.d.Read(ctx, "look up where something came from", func(rx *db.Rx) error {
		s, ok, err := x.store.state(rx, e)
		if err != nil {
			return err
		}
		if !ok {
			problem = "was removed meanwhile"
			return nil
		}
		from, ok, err := x.source.holder(rx, e, s.row)
		if err != nil || ok {
			path, held = string(from.Path), true
			return err
		}
		if path, problem = x.layout.path(e); problem != "" {
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
	if err := rx.Select(&rows, sqlClaimed, []byte(path), x.source.scope, x.source.kind); err != nil {
		return err
	}
	for _, r := range rows {
		other := entity{r.Group, r.ID}
		s, ok, err := x.store.state(rx, other)
		if err != nil {
			return err
		}
		if ok && s.row == r.Row {
			*problem = "its file name is that of " + x.layout.title(other)
		}
	}
	return nil
}

// create makes the file, which must not be there, and its folder.
func (x *exporter) create(path string) (f *os.File, problem string, err error) {
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." {
			return nil, "its file name leads out of the folder", nil
		}
	}
	at := below(x.root, path)
	err = os.MkdirAll(filepath.Dir(at), 0o700)
	if err == nil {
		f, err = os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, "its file name is taken by another", nil
	case errors.Is(err, syscall.ENAMETOOLONG):
		return nil, "its file name is too long", nil
	case errors.Is(err, syscall.EILSEQ):
		return nil, "the file system can't hold its file name", nil
	}
	return f, "", err
}

// copy writes the lines of e and closes f. It returns the first records, as an import would meet them.
func (x *exporter) copy(ctx context.Context, f *os.File, e entity) (first []record, err error) {
	out := bufio.NewWriterSize(f, 256<<10)
	offset := int64(0)
	c := content{d: x.d, store: x.store, source: x.source, e: e}
	err = c.each(ctx, func(text []byte, lf bool) error {
		kind, reason, value := x.layout.decode(text)
		x.report.count(kind, func(c *Count) { c.Read++; c.New++ })
		if offset < pieceBytes {
			first = append(first, record{offset: offset, kind: kind, reason: reason, value: value})
		}
		n, err := out.Write(text)
		if err == nil && lf {
			err = out.WriteByte('\n')
			n++
		}
		offset += int64(n)
		return err
	})
	x.report.Files.Bytes += offset
	x.at.Bytes += offset
	return first, errors.Join(err, out.Flush(), f.Close())
}
