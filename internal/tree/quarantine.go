package tree

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// Quarantined is a row of the quarantine: bytes of a source that could not be imported as they are,
// and why.
type Quarantined struct {
	ID         int64     `json:"id" db:"id"`
	Scope      string    `json:"scope" db:"scope"`
	Kind       string    `json:"kind" db:"kind"`
	Source     string    `json:"source" db:"-"` // the folder
	File       string    `json:"file" db:"-"`   // relative to the source; bytes that are not UTF-8 become \xFF
	ByteOffset int64     `json:"byte_offset" db:"byte_offset"`
	What       string    `json:"what" db:"what"` // line, tail, file, conflict or name; see the table
	Reason     string    `json:"reason" db:"reason"`
	Group      *string   `json:"group" db:"entity_group"` // of the Entity: for a run, its agent's id
	Entity     *string   `json:"entity" db:"entity_id"`   // what the bytes are or would be
	Bytes      int64     `json:"bytes" db:"bytes"`        // that are kept
	FoundAt    time.Time `json:"found_at" db:"-"`
}

// What a row of the quarantine is about; see the column quarantine.what.
const (
	WhatLine     = "line"
	WhatTail     = "tail"
	WhatFile     = "file"
	WhatConflict = "conflict"
	WhatName     = "name"
)

// PartBytes is the size of the parts in which a row's bytes are stored.
const PartBytes = 256 << 10

var (
	quarantineColumns = `SELECT q.id, sc.name AS scope, s.kind, s.root, q.path, q.byte_offset, q.what, q.reason,
	q.entity_group, q.entity_id, q.bytes, q.found_at, q.source AS source_id, q.scope AS scope_id
FROM quarantine AS q JOIN import_sources AS s ON s.id = q.source JOIN scopes AS sc ON sc.id = q.scope `
	sqlListQuarantine = quarantineColumns + `WHERE q.scope = ? AND q.id > ? ORDER BY q.id LIMIT ?`
	sqlShowQuarantine = quarantineColumns + `WHERE q.id = ?`
	sqlFindQuarantine = quarantineColumns + `WHERE q.source = ?1 AND ` + paging.Same("q.path", "?2") +
		` AND q.byte_offset = ?3 AND q.what = ?4`
	sqlQuarantineBelow = quarantineColumns + `WHERE q.` + below + ` ORDER BY q.id`
	sqlRecordsBefore   = `SELECT count(*) FROM quarantine WHERE ` + ofFile +
		` AND what IN ('line', 'conflict') AND byte_offset < ?3`
	sqlQuarantinePart = `SELECT raw FROM quarantine_parts WHERE quarantine = ? AND part = ?`

	sqlAddQuarantine = `
INSERT INTO quarantine (scope, source, path, byte_offset, what, reason, entity_group, entity_id, found_at,
	checksum, id, bytes)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)`
	sqlGrowQuarantine   = `UPDATE quarantine SET bytes = bytes + ? WHERE id = ?`
	sqlCountParts       = `SELECT count(*) FROM quarantine_parts WHERE quarantine = ?`
	sqlAddPart          = `INSERT INTO quarantine_parts (quarantine, part, raw, checksum) VALUES (?, ?, ?, ?)`
	sqlReleaseOne       = `DELETE FROM quarantine WHERE ` + ofFile + ` AND byte_offset = ?3 AND what = ?4`
	sqlReleaseWholeFile = `DELETE FROM quarantine WHERE ` + ofFile
	sqlFileQuarantine   = `SELECT id, byte_offset, what, reason, entity_group, entity_id, found_at
		FROM quarantine WHERE ` + ofFile
	// below ends at the character after '/'.
	below = `source = ?1 AND (q.path = ?2 OR q.path > ?3 AND q.path < ?4)
	AND ` + paging.Start("q.path") + ` >= ` + paging.Start("?2") +
		` AND ` + paging.Start("q.path") + ` <= ` + paging.Start("?4")
	ofFile            = `source = ?1 AND ` + paging.Same("path", "?2")
	sqlMoveQuarantine = `UPDATE quarantine SET path = ?, checksum = ? WHERE id = ?`
	sqlReleaseBelow   = `DELETE FROM quarantine AS q WHERE q.` + below
	sqlUnreadFiles    = `SELECT path FROM quarantine WHERE source = ?1 AND what = 'file'`
)

// A quarantineRow is a row of the quarantine as it is stored.
type quarantineRow struct {
	Quarantined
	SourceID int64  `db:"source_id"`
	ScopeID  int64  `db:"scope_id"`
	Root     []byte `db:"root"`
	Path     []byte `db:"path"`
	Found    int64  `db:"found_at"`
}

func (r *quarantineRow) public() Quarantined {
	q := r.Quarantined
	q.Source, q.File, q.FoundAt = Shown(string(r.Root)), Shown(string(r.Path)), db.Time(r.Found)
	return q
}

// tree is the tree that the row belongs to.
func (r *quarantineRow) tree(d *db.DB, l Layout, o Options) *Tree {
	o.Scope = r.Scope
	return knownTree(d, l, Source{ID: r.SourceID, Scope: r.ScopeID, kind: r.Kind}, string(r.Root), o)
}

// ListQuarantine lists the rows of a scope's quarantine, oldest first.
func ListQuarantine(ctx context.Context, d *db.DB, scope string, at db.At) (db.Page[Quarantined], error) {
	return page(ctx, d, "quarantine", scope, at, 0, sqlListQuarantine,
		func(r *quarantineRow) (Quarantined, error) { return r.public(), nil },
		func(q *Quarantined) (int64, int) { return q.ID, 500 + len(q.Source) + len(q.File) + len(q.Reason) })
}

// ShowQuarantine returns one row of the quarantine, of any scope; db.ErrNotFound if there is none
// of that id.
func ShowQuarantine(ctx context.Context, d *db.DB, id int64) (Quarantined, error) {
	const op = "show quarantine"
	return stores.Get(ctx, d.Read, op, func(rx *db.Rx) (Quarantined, error) {
		row, err := findQuarantined(rx, op, id, "see the ids: migrate quarantine list")
		return row.public(), err
	})
}

func findQuarantined(rx *db.Rx, op string, id int64, hint string) (row quarantineRow, err error) {
	ok, err := rx.Find(&row, sqlShowQuarantine, id)
	if err == nil && !ok {
		err = &db.Error{
			Op: op, Entity: "quarantine row", ID: fmt.Sprint(id), Err: db.ErrNotFound, Hint: hint,
		}
	}
	return row, err
}

// QuarantineRaw writes the bytes of the row to w, part by part.
func QuarantineRaw(ctx context.Context, d *db.DB, id int64, w io.Writer) error {
	for part := 0; ; part++ {
		var raw []byte
		ok, err := stores.Get(ctx, d.Read, "read quarantine", func(rx *db.Rx) (bool, error) {
			return rx.Find(&raw, sqlQuarantinePart, id, part)
		})
		if err != nil || !ok {
			return err
		}
		if _, err := w.Write(raw); err != nil {
			return err
		}
	}
}

// A Finding is what goes into the quarantine.
type Finding struct {
	Path   string
	Offset int64
	What   string
	Reason string
	Whose  *Entity // nil: unknown
	Raw    []byte
	// File, if set, opens a file with the bytes, of any size. Then Raw is nil.
	File  func() (*os.File, int64, error)
	Taken bool // the bytes were imported as well
}

// Only reports whether only the quarantine keeps the bytes of the finding.
func (f *Finding) Only() bool { return !f.Taken && len(f.Raw) > 0 || f.File != nil }

// Quarantine adds the finding. If there is already one with that file, offset and kind, it stays
// instead.
func (s Source) Quarantine(tx *db.Tx, f Finding) (q Quarantined, err error) {
	q, ok, err := s.Quarantined(&tx.Rx, f.Path, f.Offset, f.What)
	if err != nil || ok {
		return q, err
	}
	number, err := tx.Store().Number("quarantine")
	if err != nil {
		return q, err
	}
	var group, id any
	if f.Whose != nil {
		group, id = f.Whose.Group, f.Whose.ID
	}
	columns := []any{s.Scope, s.ID, []byte(f.Path), f.Offset, f.What, f.Reason, group, id, db.Nanos(tx.Now())}
	columns = append(columns, txn.Checksum(columns...), number)
	if err := tx.Store().Queue(sqlAddQuarantine, columns...); err != nil {
		return q, err
	}
	row := &rawParts{tx: tx, row: number}
	_, err = row.Write(f.Raw)
	if err == nil && f.File != nil {
		err = row.fill(f.File)
	}
	if err != nil {
		return q, err
	}
	s.aside.add(spot{f.Path, f.Offset, f.What})
	q = Quarantined{
		ID: number, Scope: s.scope, Kind: s.kind, Source: Shown(s.root), File: Shown(f.Path),
		ByteOffset: f.Offset, What: f.What, Reason: f.Reason, Bytes: row.bytes,
		FoundAt: db.Time(db.Nanos(tx.Now())),
	}
	if f.Whose != nil {
		q.Group, q.Entity = &f.Whose.Group, &f.Whose.ID
	}
	return q, nil
}

// An aside remembers what an import puts into the quarantine of its source, if nothing was there when
// the import began. It may remember rows that are gone: those are queried.
type aside struct {
	spots map[spot]struct{}
	lost  bool // there is too much to remember
}

// A spot identifies a row of the quarantine within its source or, with only the path, any of a file.
type spot struct {
	path   string
	offset int64
	what   string
}

// mostSpots bounds how much of a quarantine is kept in memory. Beyond it, each row is queried.
const mostSpots = 200_000

func (a *aside) add(at spot) {
	switch {
	case a == nil:
	case len(a.spots) >= mostSpots:
		a.lost = true
	default:
		a.spots[at], a.spots[spot{path: at.path}] = struct{}{}, struct{}{}
	}
}

// lacks reports whether there is certainly no row at a spot.
func (a *aside) lacks(at spot) bool {
	if a == nil || a.lost {
		return false
	}
	_, there := a.spots[at]
	return !there
}

func (a *aside) empty() bool { return a != nil && !a.lost && len(a.spots) == 0 }

// PutAside is Quarantine, and names the finding in the report.
func (s Source) PutAside(tx *db.Tx, part *Part, f Finding) error {
	q, err := s.Quarantine(tx, f)
	if err == nil {
		part.Aside(q)
	}
	return err
}

// Quarantined finds a row.
func (s Source) Quarantined(rx *db.Rx, path string, offset int64, what string) (Quarantined, bool, error) {
	if s.aside.lacks(spot{path, offset, what}) {
		return Quarantined{}, false, nil
	}
	var row quarantineRow
	ok, err := rx.Find(&row, sqlFindQuarantine, s.ID, []byte(path), offset, what)
	return row.public(), ok, err
}

// CountBefore returns how many records that precede the row a in its file are in quarantine.
func (s Source) CountBefore(rx *db.Rx, a *Aside) (n int, err error) {
	err = rx.Get(&n, sqlRecordsBefore, s.ID, []byte(a.Path), a.ByteOffset)
	return n, err
}

// rawParts are the bytes of a row, in parts.
type rawParts struct {
	tx    *db.Tx
	row   int64
	parts int   // that are there
	bytes int64 // that were added
}

// fill appends the content of a file.
func (p *rawParts) fill(open func() (*os.File, int64, error)) error {
	f, size, err := open()
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(p, PartBytes)
	_, err = io.Copy(out, io.LimitReader(f, size))
	return errors.Join(err, out.Flush(), f.Close())
}

// GrowQuarantine appends bytes to those of a row.
func GrowQuarantine(tx *db.Tx, id int64, raw []byte) error {
	p := &rawParts{tx: tx, row: id}
	err := tx.Get(&p.parts, sqlCountParts, id)
	if err == nil {
		_, err = p.Write(raw)
	}
	return err
}

// Write appends bytes.
func (p *rawParts) Write(raw []byte) (n int, err error) {
	if len(raw) == 0 {
		return 0, nil
	}
	p.bytes += int64(len(raw))
	err = p.tx.Store().Queue(sqlGrowQuarantine, len(raw), p.row)
	for part := range slices.Chunk(raw, PartBytes) {
		if err == nil {
			err = p.tx.Store().Queue(sqlAddPart, p.row, p.parts, part, txn.Checksum(p.row, p.parts, part))
		}
		p.parts++
	}
	return len(raw), err
}

// moveQuarantine changes the path of a file's rows in quarantine.
func (s Source) moveQuarantine(tx *db.Tx, from, to string) error {
	var rows []quarantineRow
	if err := tx.Select(&rows, sqlFileQuarantine, s.ID, []byte(from)); err != nil {
		return err
	}
	for _, r := range rows {
		sum := txn.Checksum(s.Scope, s.ID, []byte(to), r.ByteOffset, r.What, r.Reason, r.Group, r.Entity, r.Found)
		if _, err := tx.Exec(sqlMoveQuarantine, []byte(to), sum, r.ID); err != nil {
			return err
		}
	}
	return nil
}

// Release removes a finding, such as a tail that has become a line.
func (s Source) Release(tx *db.Tx, path string, offset int64, what string) error {
	if s.aside.lacks(spot{path, offset, what}) {
		return nil
	}
	// Not queued: Exec also drops prefetched answers, in which the finding still is.
	_, err := tx.Exec(sqlReleaseOne, s.ID, []byte(path), offset, what)
	return err
}

// ReleaseReadable is Release for a file that is in quarantine because it could not be read.
func (s Source) ReleaseReadable(tx *db.Tx, path string) error {
	_, there, err := s.Quarantined(&tx.Rx, path, 0, WhatFile)
	if err == nil && there {
		err = s.Release(tx, path, 0, WhatFile)
	}
	return err
}

// ReleaseBelow removes all findings about a folder and below it, except those that keep reports true
// for; nil keeps none.
func (s Source) ReleaseBelow(tx *db.Tx, path string, keep func(*Aside) bool) error {
	switch {
	case s.aside.empty():
		return nil
	case keep == nil:
		return tx.Store().Queue(sqlReleaseBelow, belowArgs(s, path)...)
	}
	var rows []quarantineRow
	if err := tx.Select(&rows, sqlQuarantineBelow, belowArgs(s, path)...); err != nil {
		return err
	}
	for i := range rows {
		if keep(&Aside{rows[i].public(), string(rows[i].Path)}) {
			continue
		}
		if _, err := tx.Exec(sqlDropOne, rows[i].ID); err != nil {
			return err
		}
	}
	return nil
}

// ReleaseFile removes all findings about a file that is about to be imported again.
func (s Source) ReleaseFile(tx *db.Tx, path string) error {
	if s.aside.lacks(spot{path: path}) {
		return nil
	}
	return tx.Store().Queue(sqlReleaseWholeFile, s.ID, []byte(path))
}

// ReleasePrefetched is ReleaseFile after Prefetcher.Aside. It uses up the prefetched answer, since a
// later query may have another one.
func (t *Tree) ReleasePrefetched(tx *db.Tx, path string) error {
	if t.Unread {
		if _, _, err := t.Source.Quarantined(&tx.Rx, path, 0, WhatFile); err != nil {
			return err
		}
	}
	return t.Source.ReleaseFile(tx, path)
}

// belowArgs are the arguments of a query for a path and what is below it.
func belowArgs(s Source, path string) []any {
	return []any{s.ID, []byte(path), []byte(path + "/"), []byte(path + "0")}
}

// NameAside reports again what is in quarantine of a file, or of a folder and below it, so that
// every import of an unchanged tree reports the same. lines is how many records there part counts
// as undecodable: those without a row were dropped from the quarantine, so they no longer count as
// quarantined.
func (t *Tree) NameAside(rx *db.Rx, path string, lines int64, part *Part) error {
	var rows []quarantineRow
	if t.Aside {
		if err := rx.Select(&rows, sqlQuarantineBelow, belowArgs(t.Source, path)...); err != nil {
			return err
		}
	}
	dropped := lines
	for i := range rows {
		part.Aside(rows[i].public())
		if what := rows[i].What; what != WhatConflict && what != WhatName {
			dropped--
		}
	}
	if dropped > 0 {
		part.Count(Undecodable, func(c *Count) { c.Quarantined -= dropped; c.Already += dropped })
		part.remark(&part.Report.Ignored, path, fmt.Sprintf("undecodable records that were dropped from the "+
			"quarantine: %d", dropped))
	}
	return nil
}

// Unread returns the paths after one, at most 1,000, of what is in quarantine because it could not be
// read.
func (s Source) Unread(rx *db.Rx, after []byte) (paths [][]byte, err error) {
	err = rx.Select(&paths, sqlUnreadFiles+pathsAfter(rx), s.ID, after, 1000)
	return paths, err
}
