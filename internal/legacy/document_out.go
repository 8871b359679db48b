package legacy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"selvedge/db"
)

func sumOf(text []byte) []byte {
	sum := sha256.Sum256(text)
	return sum[:]
}

// runDocumentVerify reads a tree again and compares it with the file, document by document. Nothing is written.
func runDocumentVerify(ctx context.Context, d *db.DB, l documentLayout, scope, dir string, o Options) (Report, error) {
	root, err := l.root(dir)
	if err != nil {
		return newReport(l.name(), scope, dir), err
	}
	x := newDocumentImport(d, l, scope, root, o)
	if err := x.o.totals(&x.at, root, l.walk); err != nil {
		return x.report, err
	}
	err = x.source.verifying(ctx, d, &x.report, root, func() error {
		return l.walk(root, func(path string) error {
			if ctx.Err() != nil {
				return interrupted(ctx, "verify", ctx.Err())
			}
			f := readDocument(l, root, path)
			err := d.Read(ctx, "verify "+l.name(), func(rx *db.Rx) error { return x.verify(rx, f) })
			x.progress([]*documentFile{f})
			return err
		}, x.report.ignore)
	})
	return x.report, err
}

// verify compares one file. It runs once: a read is never repeated.
func (x *documentImport) verify(rx *db.Rx, f *documentFile) error {
	r := &x.report
	b := documentBatch{documentImport: x, part: r}
	countFile(r, f)
	differs := func(reason string) { r.remark(&r.Differs, f.path, reason) }
	if f.unread {
		r.Files.Unreadable++
		differs(f.reason)
		return nil
	}
	if f.reason != "" {
		_, ok, err := x.source.quarantined(rx, f.path, 0, whatFile)
		b.add(f, inQuarantined)
		if !ok {
			f.reason += "; and it is not in quarantine"
		}
		differs(f.reason)
		return err
	}
	row, ok, err := x.counterpart(rx, f)
	switch {
	case err != nil:
		return err
	case row == nil:
		r.Files.New++
		b.add(f, inNew)
		differs("was not imported")
	case row.State == stateRefused:
		r.Files.Refused++
		b.add(f, inQuarantined)
		differs("is in quarantine")
	case !ok:
		r.Files.Changed++
		b.add(f, inChanged)
		differs(x.layout.title(row.entity()) + " was removed here")
	default:
		return x.compare(rx, f, row)
	}
	return nil
}

func (x *documentImport) compare(rx *db.Rx, f *documentFile, row *ledgerRow) error {
	b := documentBatch{documentImport: x, part: &x.report}
	text, _, err := x.store.text(rx, *row.EntityRow)
	switch {
	case err != nil:
		return err
	case bytes.Equal(text, f.text):
		x.report.Files.Already++
		b.add(f, inAlready)
		return nil
	}
	x.report.Files.Changed++
	b.add(f, inChanged)
	reason := "the file has changed since it was imported"
	if bytes.Equal(f.sum, row.PrefixSHA256) {
		reason = x.layout.title(row.entity()) + " was written to here since it was imported"
	}
	x.report.remark(&x.report.Differs, f.path, reason)
	return nil
}

// counterpart is the ledger's row of a file, or what would be one for a document that is here from elsewhere; ok tells
// whether its thing is there.
func (x *documentImport) counterpart(rx *db.Rx, f *documentFile) (row *ledgerRow, ok bool, err error) {
	if row, err = x.source.file(rx, f.path); err != nil {
		return nil, false, err
	}
	if row != nil {
		if row.EntityRow != nil {
			_, ok, err = x.store.text(rx, *row.EntityRow)
		}
		return row, ok, err
	}
	for _, e := range x.layout.identities(f.path, f.value, x.claimed) {
		number, there, err := x.store.row(rx, e)
		if err != nil {
			return nil, false, err
		}
		if there {
			return &ledgerRow{State: stateShared, EntityGroup: e.group, EntityID: e.id, EntityRow: &number}, true, nil
		}
	}
	return nil, false, nil
}

// runDocumentExport writes the things of a scope into an empty folder.
func runDocumentExport(ctx context.Context, d *db.DB, l documentLayout, scope, dir string, o Options) (Report, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return newReport(l.name(), scope, dir), err
	}
	x := newDocumentImport(d, l, scope, dir, o)
	if err := emptyFolder(dir); err != nil {
		return x.report, err
	}
	if x.root, err = l.prepare(dir); err != nil {
		return x.report, err
	}
	err = d.Read(ctx, "begin export", func(rx *db.Rx) (err error) {
		x.source.kind = l.name()
		x.source.scope, _, err = rx.Scope(scope)
		return err
	})
	if err != nil || x.source.scope == 0 {
		return x.report, err
	}
	for e, err := range x.store.entities(ctx) {
		if ctx.Err() != nil {
			return x.report, interrupted(ctx, "export", ctx.Err())
		}
		if err == nil {
			err = x.export(ctx, e)
		}
		if err != nil {
			return x.report, err
		}
	}
	return x.report, nil
}

// export writes one thing to where it came from, or to where the old program would put it.
func (x *documentImport) export(ctx context.Context, e entity) error {
	var path, problem string
	var text []byte
	err := x.d.Read(ctx, "export "+x.layout.name(), func(rx *db.Rx) error {
		row, ok, err := x.store.row(rx, e)
		if err != nil || !ok {
			return err // removed meanwhile
		}
		held, fromFile, err := x.source.holder(rx, e, row)
		if err != nil {
			return err
		}
		if path = string(held.Path); !fromFile {
			path, problem = x.layout.path(e)
		}
		text, _, err = x.store.text(rx, row)
		return err
	})
	if err != nil || text == nil {
		return err
	}
	if problem == "" {
		var f *os.File
		creator := &exporter{importer: &importer{root: x.root}}
		if f, problem, err = creator.create(path); err != nil {
			return err
		}
		if problem == "" {
			_, err = f.Write(text)
			if err = errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("export %s: %w", path, err)
			}
		}
	}
	if problem != "" {
		x.report.remark(&x.report.LeftOut, path, x.layout.title(e)+": "+problem)
		return nil
	}
	x.report.Files.Found++
	x.report.Files.New++
	x.report.Files.Bytes += int64(len(text))
	x.report.count(x.layout.noun(), func(c *Count) { c.Read++; c.New++ })
	x.progress([]*documentFile{{text: text}})
	return nil
}
