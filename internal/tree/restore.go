package tree

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"selvedge/db"
)

// sqlScopeQuarantine is what is in quarantine of all sources of a kind.
var sqlScopeQuarantine = quarantineColumns +
	`WHERE q.scope = ? AND s.kind = ? AND q.id > ? ORDER BY q.id LIMIT 1`

// maxGivenBack is the most that is read at once of a file, or of the quarantine, to be compared.
const maxGivenBack = 64 << 20

// giveBack sees that nothing in quarantine is passed over by an export: whole files go under the
// names that they had, what is part of a file that was written is there, and all else is named.
func (t *Tree) giveBack(ctx context.Context) error {
	if t.Source.Scope == 0 {
		return nil
	}
	t.Folder = Folder{path: t.Root}
	for after := int64(0); ; {
		var row quarantineRow
		found := false
		err := t.DB.Read(ctx, "look into the quarantine", func(rx *db.Rx) (err error) {
			found, err = rx.Find(&row, sqlScopeQuarantine, t.Source.Scope, t.layout.Name(), after)
			return err
		})
		if err != nil || !found {
			return err
		}
		if err := t.giveBackOne(ctx, &row); err != nil {
			return err
		}
		after = row.ID
	}
}

func (t *Tree) giveBackOne(ctx context.Context, row *quarantineRow) error {
	path := string(row.Path)
	// it has no bytes of its own, or stands for a file that is there now
	if row.What == WhatName || row.Bytes == 0 && !t.Folder.Lacks(path) {
		return nil
	}
	why := fmt.Sprintf("is in quarantine, row %d: %s", row.ID, row.Reason)
	if row.Bytes == 0 || row.Bytes > maxGivenBack {
		t.Report.LeaveOut(path, why)
		return nil
	}
	var raw bytes.Buffer
	if err := QuarantineRaw(ctx, t.DB, row.ID, &raw); err != nil {
		return err
	}
	if t.holds(row, raw.Bytes()) {
		return nil
	}
	if row.What != WhatFile || !t.givesBack(path) {
		t.Report.LeaveOut(path, why)
		return nil
	}
	problem, err := t.Write(path, raw.Bytes())
	if problem != "" {
		t.Report.LeaveOut(path, why+"; "+problem)
	}
	return err
}

// givesBack reports whether a file in quarantine goes back where it was.
func (t *Tree) givesBack(path string) bool {
	whole, ok := t.layout.(WholeFiles)
	return ok && whole.GivesBack(t.Folder, path)
}

// holds reports whether a file that was written has the bytes of a row: as all that it holds, or
// where they are a line of it, as a line. A tail may have become one since, at its place; a line
// may have moved.
func (t *Tree) holds(row *quarantineRow, raw []byte) bool {
	path := string(row.Path)
	f, size, err := t.Folder.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	if t.givesBack(path) || row.What != WhatLine && row.What != WhatTail {
		return size == int64(len(raw)) && isLine(f, size, 0, raw)
	}
	if isLine(f, size, row.ByteOffset, raw) {
		return true
	}
	if row.What == WhatTail {
		return false
	}
	text, err := t.Folder.Read(path, maxGivenBack)
	if err != nil {
		return false
	}
	for line := range bytes.Lines(text) {
		if bytes.Equal(bytes.TrimSuffix(line, []byte{'\n'}), raw) {
			return true
		}
	}
	return false
}

// isLine reports whether what stands in a file of that size at offset is these bytes, between line
// feeds or the file's ends.
func isLine(f io.ReaderAt, size, offset int64, raw []byte) bool {
	line := raw
	if offset+int64(len(raw)) < size {
		line = append(slices.Clip(line), '\n')
	}
	if offset > 0 {
		line = append([]byte{'\n'}, line...)
		offset--
	}
	there := make([]byte, len(line))
	n, _ := f.ReadAt(there, offset)
	return n == len(line) && bytes.Equal(there, line)
}
