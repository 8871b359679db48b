package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"selvedge/db"
	"selvedge/legacy/internal/tree"
)

// Compare compares a file line by line.
func (Layout) Compare(ctx context.Context, t *tree.Tree, path string) error {
	v := &verifier{roomOf(t)}
	r := v.Report
	r.Files.Found++
	f, size, err := v.Folder.Open(path)
	if err == nil {
		defer f.Close() //nolint:errcheck // only read
		in := &fileReader{room: v.room, file: &sourceFile{path: path, size: size}, lines: v.linesOf(f, size)}
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
		r.Differ(path, v.Folder.Why(path, err))
	}
	v.Advance(1, size)
	if !v.Aside {
		return nil
	}
	return v.DB.Read(ctx, "look into the quarantine", func(rx *db.Rx) error { return v.NameAside(rx, path, r) })
}

// A verifier compares the files of a tree with what is here.
type verifier struct{ *room }

// compareFile counts the lines of a file by what stands in their place here.
func (v *verifier) compareFile(ctx context.Context, in *fileReader) error {
	e, missing, err := v.thing(ctx, in)
	if err != nil {
		return err
	}
	file := &lineCursor{lines: in.lines}
	if missing != "" {
		v.Report.Differ(in.file.path, missing)
		v.Report.Files.New++
		return v.countRest(file, func(c *tree.Count) { c.New++ })
	}
	if in.row != nil && in.row.State == tree.StateRefused {
		v.Report.Files.Refused++
		v.Report.Differ(in.file.path, "is in quarantine: "+title(e)+" is here from elsewhere with other records")
		return v.countRest(file, func(c *tree.Count) { c.Quarantined++ })
	}
	differing, ours, theirs := int64(0), int64(0), int64(0)
	firstAt := int64(-1)
	c := content{v.room, e}
	err = c.each(ctx, func(text []byte, lf bool) error {
		have, ok, err := file.next()
		switch {
		case err != nil:
			return err
		case !ok:
			ours++
			return nil
		case bytes.Equal(have.text, text):
			v.Report.Count(have.kind, func(c *tree.Count) { c.Read++; c.Already++ })
		case !lf && bytes.HasPrefix(have.text, text): // a torn last line has grown
			theirs++
			v.Report.Count(have.kind, func(c *tree.Count) { c.Read++; c.New++ })
		default:
			if differing++; firstAt < 0 {
				firstAt = have.offset
			}
			v.Report.Count(have.kind, func(c *tree.Count) { c.Read++; c.Changed++ })
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = v.countRest(file, func(c *tree.Count) { theirs++; c.New++ })
	v.judge(in.file.path, differing, firstAt, theirs, ours)
	return err
}

func (v *verifier) judge(path string, differing, firstAt, theirs, ours int64) {
	r := v.Report
	if differing > 0 {
		r.Differ(path, fmt.Sprintf("%d lines differ, the first at byte %d", differing, firstAt))
	}
	if theirs > 0 {
		r.Differ(path, fmt.Sprintf("the source has %d lines more than what was imported", theirs))
	}
	if ours > 0 {
		r.Differ(path, fmt.Sprintf("%d lines were written here after what the source has", ours))
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
func (v *verifier) thing(ctx context.Context, in *fileReader) (e tree.Entity, missing string, err error) {
	if v.Source.Scope == 0 {
		return e, "was not imported", nil
	}
	err = v.DB.Read(ctx, "look a file up", func(rx *db.Rx) (err error) {
		in.row, err = v.Source.File(rx, in.file.path)
		return err
	})
	if err != nil {
		return e, "", err
	}
	if in.row != nil {
		c, err := in.look(ctx, in.row.Entity())
		if c.verdict == verdictFree && in.row.State != tree.StateRefused {
			missing = title(c.Entity) + " was removed here"
		}
		return c.Entity, missing, err
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

func (v *verifier) countRest(file *lineCursor, add func(*tree.Count)) error {
	for {
		line, ok, err := file.next()
		if err != nil || !ok {
			return err
		}
		v.Report.Count(line.kind, func(c *tree.Count) { c.Read++; add(c) })
	}
}
