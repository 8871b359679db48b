package tree

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"selvedge/db"
)

// sqlScopeQuarantine reads what is in quarantine of all sources of a kind.
var sqlScopeQuarantine = quarantineColumns +
	`WHERE q.scope = ? AND s.kind = ? AND q.id > ? ORDER BY q.id LIMIT ?`

// maxGivenBack is the most bytes that are read of a file, or of the quarantine, at once.
const maxGivenBack = 64 << 20

// giveBack makes an export account for all that is in quarantine. Whole files are written under the
// names that they had. A part of a file must be in the file that was written. All else is reported.
func (t *Tree) giveBack(ctx context.Context) error {
	if t.Source.Scope == 0 {
		return nil
	}
	t.Folder = Folder{path: t.Root}
	rows := Each(ctx, t.DB, "look into the quarantine",
		func(rx *db.Rx, last *quarantineRow, rows *[]quarantineRow) error {
			return rx.Select(rows, sqlScopeQuarantine, t.Source.Scope, t.layout.Name(), last.ID, PageRows)
		})
	return ForEach(rows, func(row *quarantineRow) error { return t.giveBackOne(ctx, row) })
}

func (t *Tree) giveBackOne(ctx context.Context, row *quarantineRow) error {
	path := string(row.Path)
	// it has no bytes, or is about a file that exists now
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

// givesBack reports whether a whole file in quarantine is written back to its old path.
func (t *Tree) givesBack(path string) bool {
	whole, ok := t.layout.(WholeFiles)
	return ok && whole.GivesBack(t.Folder, path)
}

// holds reports whether a file that was written has the bytes of a row: as the whole file or, for a
// line or a tail, as a line. A tail may have become a line at its place, and a line may have moved.
func (t *Tree) holds(row *quarantineRow, raw []byte) bool {
	path := string(row.Path)
	f, size, err := t.Folder.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // opened for reading only
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

// isLine reports whether a file of that size has these bytes at offset, between line feeds or the
// file's ends.
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
