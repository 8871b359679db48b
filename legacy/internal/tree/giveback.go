package tree

import (
	"bytes"
	"context"
	"fmt"

	"selvedge/db"
)

// sqlScopeQuarantine is what is in quarantine of all sources of a kind.
const sqlScopeQuarantine = quarantineColumns + `WHERE q.scope = ? AND s.kind = ? AND q.id > ? ORDER BY q.id LIMIT 1`

// maxGivenBack is the most that is read at once of a file, or of the quarantine, to be compared.
const maxGivenBack = 64 << 20

// giveBack sees that nothing in quarantine is passed over by an export: whole files go under the names that they had, what is part of
// a file that was written is there, and all else is named.
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
	if row.What == WhatName || row.Bytes == 0 && !t.Folder.Lacks(path) { // it has no bytes of its own, or stands for a file that is there now
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
	if t.holds(path, row.ByteOffset, raw.Bytes()) {
		return nil
	}
	whole, ok := t.layout.(WholeFiles)
	if row.What != WhatFile || !ok || !whole.GivesBack(path) {
		t.Report.LeaveOut(path, why)
		return nil
	}
	problem, err := t.Write(path, raw.Bytes())
	if problem != "" {
		t.Report.LeaveOut(path, why+"; "+problem)
	}
	return err
}

// holds reports whether a file that was written has these bytes, at that place or at another.
func (t *Tree) holds(path string, offset int64, raw []byte) bool {
	f, size, err := t.Folder.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	there := make([]byte, len(raw))
	if n, _ := f.ReadAt(there, offset); n == len(raw) && bytes.Equal(there, raw) {
		return true
	}
	if size > maxGivenBack {
		return false
	}
	text, err := t.Folder.Read(path, maxGivenBack)
	return err == nil && bytes.Contains(text, raw)
}
