package legacy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"selvedge/db"
)

// Quarantined is a row of the quarantine: bytes of a source that could not be taken as they are, and why.
type Quarantined struct {
	ID         int64     `json:"id"`
	Scope      string    `json:"scope"`
	Kind       string    `json:"kind"`
	Source     string    `json:"source"` // the folder
	File       string    `json:"file"`   // relative to the source; bytes that are no UTF-8 are shown as \xFF
	ByteOffset int64     `json:"byte_offset"`
	What       string    `json:"what"` // line, tail, file, conflict or name; see the table
	Reason     string    `json:"reason"`
	Group      *string   `json:"group"` // with Entity, whose the bytes are or would be: for a run its agent's id
	Entity     *string   `json:"entity"`
	Bytes      int64     `json:"bytes"` // that are kept
	FoundAt    time.Time `json:"found_at"`
}

// What a row of the quarantine is about; see the column quarantine.what.
const (
	whatLine     = "line"
	whatTail     = "tail"
	whatFile     = "file"
	whatConflict = "conflict"
	whatName     = "name"
)

// partBytes is how much of a row's bytes stands in one part.
const partBytes = 256 << 10

const (
	quarantineColumns = `
SELECT q.id, sc.name AS scope, s.kind, s.root, q.path, q.byte_offset, q.what, q.reason, q.entity_group, q.entity_id, q.bytes, q.found_at
FROM quarantine AS q JOIN import_sources AS s ON s.id = q.source JOIN scopes AS sc ON sc.id = q.scope
`
	sqlListQuarantine = quarantineColumns + `WHERE q.scope = ? AND q.id > ? ORDER BY q.id LIMIT ?`
	sqlShowQuarantine = quarantineColumns + `WHERE q.id = ?`
	sqlFindQuarantine = quarantineColumns + `WHERE q.source = ? AND q.path = ? AND q.byte_offset = ? AND q.what = ?`
	sqlQuarantinePart = `SELECT raw FROM quarantine_parts WHERE quarantine = ? AND part = ?`

	sqlAddQuarantine = `
INSERT INTO quarantine (scope, source, path, byte_offset, what, reason, entity_group, entity_id, found_at, checksum, bytes)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0) RETURNING id`
	sqlGrowQuarantine   = `UPDATE quarantine SET bytes = bytes + ? WHERE id = ?`
	sqlCountParts       = `SELECT count(*) FROM quarantine_parts WHERE quarantine = ?`
	sqlAddPart          = `INSERT INTO quarantine_parts (quarantine, part, raw, checksum) VALUES (?, ?, ?, ?)`
	sqlReleaseOne       = `DELETE FROM quarantine WHERE source = ? AND path = ? AND byte_offset = ? AND what = ?`
	sqlReleaseUnread    = `DELETE FROM quarantine WHERE source = ? AND path = ? AND what = 'file'`
	sqlReleaseWholeFile = `DELETE FROM quarantine WHERE source = ? AND path = ?`
	sqlFileQuarantine   = `SELECT id, byte_offset, what, reason, entity_group, entity_id, found_at FROM quarantine WHERE source = ? AND path = ?`
	sqlMoveQuarantine   = `UPDATE quarantine SET path = ?, checksum = ? WHERE id = ?`
	sqlUnreadFiles      = `SELECT path FROM quarantine WHERE source = ? AND what = 'file' AND path > ? ORDER BY path LIMIT ?`
)

type quarantineRow struct {
	ID          int64   `db:"id"`
	Scope       string  `db:"scope"`
	Kind        string  `db:"kind"`
	Root        []byte  `db:"root"`
	Path        []byte  `db:"path"`
	ByteOffset  int64   `db:"byte_offset"`
	What        string  `db:"what"`
	Reason      string  `db:"reason"`
	EntityGroup *string `db:"entity_group"`
	EntityID    *string `db:"entity_id"`
	Bytes       int64   `db:"bytes"`
	FoundAt     int64   `db:"found_at"`
}

func (r *quarantineRow) public() Quarantined {
	return Quarantined{
		ID: r.ID, Scope: r.Scope, Kind: r.Kind, Source: shown(string(r.Root)), File: shown(string(r.Path)), ByteOffset: r.ByteOffset,
		What: r.What, Reason: r.Reason, Group: r.EntityGroup, Entity: r.EntityID, Bytes: r.Bytes, FoundAt: db.Time(r.FoundAt),
	}
}

// ListQuarantine gives the next rows of a scope's quarantine behind the id after, oldest first, at most limit of them.
func ListQuarantine(ctx context.Context, d *db.DB, scope string, after int64, limit int) (list []Quarantined, err error) {
	err = d.Read(ctx, "list quarantine", func(rx *db.Rx) error {
		list = nil
		id, ok, err := rx.Scope(scope)
		if err != nil || !ok {
			return err
		}
		var rows []quarantineRow
		if err := rx.Select(&rows, sqlListQuarantine, id, after, limit); err != nil {
			return err
		}
		for i := range rows {
			list = append(list, rows[i].public())
		}
		return nil
	})
	return list, err
}

// ShowQuarantine gives one row of the quarantine, of whichever scope; db.ErrNotFound if there is none of that id.
func ShowQuarantine(ctx context.Context, d *db.DB, id int64) (q Quarantined, err error) {
	err = d.Read(ctx, "show quarantine", func(rx *db.Rx) error {
		var row quarantineRow
		ok, err := rx.Find(&row, sqlShowQuarantine, id)
		if err == nil && !ok {
			err = &db.Error{
				Op: "show quarantine", Entity: "quarantine row", ID: fmt.Sprint(id), Err: db.ErrNotFound,
				Hint: "quarantine list shows the ids",
			}
		}
		q = row.public()
		return err
	})
	return q, err
}

// QuarantineRaw writes the bytes that are kept for the row to w, as they were, piece by piece.
func QuarantineRaw(ctx context.Context, d *db.DB, id int64, w io.Writer) error {
	for part := 0; ; part++ {
		var raw []byte
		var ok bool
		err := d.Read(ctx, "read quarantine", func(rx *db.Rx) (err error) {
			ok, err = rx.Find(&raw, sqlQuarantinePart, id, part)
			return err
		})
		if err != nil || !ok {
			return err
		}
		if _, err := w.Write(raw); err != nil {
			return err
		}
	}
}

// finding is what goes into the quarantine.
type finding struct {
	path   string
	offset int64
	what   string
	reason string
	whose  *entity // nil: not known
	raw    []byte
	file   string // where the bytes are in place of raw: all that this file holds, however much
	taken  bool   // the bytes were taken as well
}

// only reports whether the quarantine is the only place for bytes of the finding.
func (f *finding) only() bool { return !f.taken && len(f.raw) > 0 || f.file != "" }

// quarantine adds the finding. One that is there already, the same file, place and sort, stays as it is.
func (s source) quarantine(tx *db.Tx, f finding) (q Quarantined, err error) {
	q, ok, err := s.quarantined(&tx.Rx, f.path, f.offset, f.what)
	if err != nil || ok {
		return q, err
	}
	var group, id any
	if f.whose != nil {
		group, id = f.whose.group, f.whose.id
	}
	var row int64
	columns := []any{s.scope, s.id, []byte(f.path), f.offset, f.what, f.reason, group, id, db.Nanos(tx.Now())}
	if err = tx.Get(&row, sqlAddQuarantine, append(columns, db.Checksum(columns...))...); err != nil {
		return q, err
	}
	if err := growQuarantine(tx, row, f.raw); err != nil {
		return q, err
	}
	if err := fillQuarantine(tx, row, f.file); err != nil {
		return q, err
	}
	q, _, err = s.quarantined(&tx.Rx, f.path, f.offset, f.what)
	return q, err
}

// putAside is quarantine for a finding that a report names.
func (s source) putAside(tx *db.Tx, part *Report, f finding) error {
	q, err := s.quarantine(tx, f)
	if err == nil {
		part.quarantined(q)
	}
	return err
}

func (s source) quarantined(rx *db.Rx, path string, offset int64, what string) (Quarantined, bool, error) {
	var row quarantineRow
	ok, err := rx.Find(&row, sqlFindQuarantine, s.id, []byte(path), offset, what)
	return row.public(), ok, err
}

// fillQuarantine puts what a file holds into a row.
func fillQuarantine(tx *db.Tx, id int64, file string) error {
	if file == "" {
		return nil
	}
	f, _, err := openSource(file)
	if err != nil {
		return err
	}
	for buffer := make([]byte, partBytes); err == nil; {
		var n int
		if n, err = io.ReadFull(f, buffer); n > 0 {
			err = errors.Join(growQuarantine(tx, id, buffer[:n]), err)
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// growQuarantine puts more bytes behind those of a row.
func growQuarantine(tx *db.Tx, id int64, raw []byte) error {
	if len(raw) == 0 {
		return nil
	}
	var part int
	if err := tx.Get(&part, sqlCountParts, id); err != nil {
		return err
	}
	if _, err := tx.Exec(sqlGrowQuarantine, len(raw), id); err != nil {
		return err
	}
	for ; len(raw) > 0; part++ {
		n := min(len(raw), partBytes)
		if _, err := tx.Exec(sqlAddPart, id, part, raw[:n], db.Checksum(id, part, raw[:n])); err != nil {
			return err
		}
		raw = raw[n:]
	}
	return nil
}

// moveQuarantine gives what is in quarantine of a file the file's new path.
func (s source) moveQuarantine(tx *db.Tx, from, to string) error {
	var rows []quarantineRow
	if err := tx.Select(&rows, sqlFileQuarantine, s.id, []byte(from)); err != nil {
		return err
	}
	for _, r := range rows {
		sum := db.Checksum(s.scope, s.id, []byte(to), r.ByteOffset, r.What, r.Reason, r.EntityGroup, r.EntityID, r.FoundAt)
		if _, err := tx.Exec(sqlMoveQuarantine, []byte(to), sum, r.ID); err != nil {
			return err
		}
	}
	return nil
}

// release takes one finding out again: a tail that has become a line.
func (s source) release(tx *db.Tx, path string, offset int64, what string) error {
	_, err := tx.Exec(sqlReleaseOne, s.id, []byte(path), offset, what)
	return err
}

// releaseUnread takes out what was said about a file that could not be read and now can.
func (s source) releaseUnread(tx *db.Tx, path string) error {
	_, err := tx.Exec(sqlReleaseUnread, s.id, []byte(path))
	return err
}

// releaseFile takes out everything about a file that is about to be imported anew.
func (s source) releaseFile(tx *db.Tx, path string) error {
	_, err := tx.Exec(sqlReleaseWholeFile, s.id, []byte(path))
	return err
}
