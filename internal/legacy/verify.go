package legacy

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"selvedge/db"
)

// A verifier reads a tree again and compares it with the file. It uses the reading half of an import, and writes nothing.
type verifier struct {
	*reader
	report *Report
}

func runVerify(ctx context.Context, d *db.DB, l layout, scope, root string, o Options) (Report, error) {
	report, err := verifyAll(ctx, d, l, scope, root, o)
	return report, interrupted(ctx, "verify", err)
}

func verifyAll(ctx context.Context, d *db.DB, l layout, scope, root string, o Options) (Report, error) {
	x := &importer{d: d, layout: l, store: l.store(d, scope), root: root, o: o, report: newReport(l.name(), scope, root)}
	if err := o.totals(&x.at, root, l.walk); err != nil {
		return x.report, err
	}
	err := d.Read(ctx, "begin verification", func(rx *db.Rx) (err error) {
		x.source, _, err = findSource(rx, scope, l.name(), root) // never imported: then its things may be here from elsewhere
		return err
	})
	if err != nil {
		return x.report, err
	}
	v := &verifier{reader: &reader{importer: x}, report: &x.report}
	err = l.walk(root, func(path string) error {
		return v.file(ctx, path)
	}, x.report.ignore)
	if err == nil && x.source.id != 0 {
		x.report.Files.Gone, err = x.source.gone(ctx, d, root)
	}
	return x.report, err
}

func (v *verifier) file(ctx context.Context, path string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r := v.report
	r.Files.Found++
	at := below(v.root, path)
	f, size, err := openSource(at)
	if err == nil {
		defer f.Close() //nolint:errcheck // only read
		in := &fileReader{reader: v.reader, file: &sourceFile{path: path, size: size}, lines: v.linesOf(f, size)}
		in.lines.rewind()
		r.Files.Bytes += size
		err = v.compareFile(ctx, in)
	}
	if read, ok := errors.AsType[*readError](err); ok {
		err = read.err
	} else if err != nil && f != nil {
		return err
	}
	if err != nil {
		r.Files.Unreadable++
		r.remark(&r.Differs, path, why(at, err))
	}
	v.at.Files++
	v.at.Bytes += size
	if v.o.Progress != nil {
		v.o.Progress(v.at)
	}
	return nil
}

// compareFile counts the lines of a file by what stands in their place here.
func (v *verifier) compareFile(ctx context.Context, in *fileReader) error {
	e, missing, err := v.thing(ctx, in)
	if err != nil {
		return err
	}
	file := &lineCursor{lines: in.lines}
	if missing != "" {
		v.report.remark(&v.report.Differs, in.file.path, missing)
		v.report.Files.New++
		return v.countRest(file, func(c *Count) { c.New++ })
	}
	if in.row != nil && in.row.State == stateRefused {
		v.report.Files.Refused++
		v.report.remark(&v.report.Differs, in.file.path, "is in quarantine: "+v.layout.title(e)+" is here from elsewhere with other records")
		return v.countRest(file, func(c *Count) { c.Quarantined++ })
	}
	differing, ours, theirs := int64(0), int64(0), int64(0)
	firstAt := int64(-1)
	c := content{d: v.d, store: v.store, source: v.source, e: e}
	err = c.each(ctx, func(text []byte, lf bool) error {
		have, ok, err := file.next()
		switch {
		case err != nil:
			return err
		case !ok:
			ours++
			return nil
		case bytes.Equal(have.text, text):
			v.report.count(have.kind, func(c *Count) { c.Read++; c.Already++ })
		case !lf && bytes.HasPrefix(have.text, text): // a torn last line has grown
			theirs++
			v.report.count(have.kind, func(c *Count) { c.Read++; c.New++ })
		default:
			if differing++; firstAt < 0 {
				firstAt = have.offset
			}
			v.report.count(have.kind, func(c *Count) { c.Read++; c.Changed++ })
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = v.countRest(file, func(c *Count) { theirs++; c.New++ })
	v.judge(in.file.path, differing, firstAt, theirs, ours)
	return err
}

func (v *verifier) judge(path string, differing, firstAt, theirs, ours int64) {
	r := v.report
	if differing > 0 {
		r.remark(&r.Differs, path, fmt.Sprintf("%d lines differ, the first at byte %d", differing, firstAt))
	}
	if theirs > 0 {
		r.remark(&r.Differs, path, fmt.Sprintf("the source has %d lines more than what was imported", theirs))
	}
	if ours > 0 {
		r.remark(&r.Differs, path, fmt.Sprintf("%d lines were written here after what the source has", ours))
	}
	switch {
	case differing > 0:
		r.Files.Changed++
	case theirs > 0:
		r.Files.Grown++
	default:
		r.Files.Already++
	}
}

// thing is what the file is here. missing says why it is nothing.
func (v *verifier) thing(ctx context.Context, in *fileReader) (e entity, missing string, err error) {
	if v.source.scope == 0 {
		return e, "was not imported", nil
	}
	err = v.d.Read(ctx, "look a file up", func(rx *db.Rx) (err error) {
		in.row, err = v.source.file(rx, in.file.path)
		return err
	})
	if err != nil {
		return e, "", err
	}
	if in.row != nil {
		c, err := in.look(ctx, in.row.entity())
		if c.verdict == verdictFree && in.row.State != stateRefused {
			missing = v.layout.title(c.entity) + " was removed here"
		}
		return c.entity, missing, err
	}
	ids, err := in.identities()
	if err != nil {
		return e, "", trouble(err)
	}
	for _, e := range ids {
		c, err := in.look(ctx, e)
		if err != nil {
			return e, "", err
		}
		if c.verdict == verdictOther {
			return e, "", nil
		}
		if c.verdict == verdictSibling && e == ids[0] {
			if was, err := in.vanished(ctx, ids); err != nil || was != "" {
				return e, "", err
			}
		}
	}
	return e, "was not imported", nil
}

func (v *verifier) countRest(file *lineCursor, add func(*Count)) error {
	for {
		line, ok, err := file.next()
		if err != nil || !ok {
			return err
		}
		v.report.count(line.kind, func(c *Count) { c.Read++; add(c) })
	}
}
