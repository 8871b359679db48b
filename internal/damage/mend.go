package damage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"selvedge/internal/engine"
)

// A Writer is a connection to a file that may be changed.
type Writer interface {
	Conn
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// An entry is a row of sqlite_schema as the file has it.
type entry struct {
	Rowid int64
	Object
}

// OpenUnread makes a connection usable whose schema can't be parsed. Afterwards it has the part of
// the schema that can be parsed.
func OpenUnread(ctx context.Context, w Writer) error {
	// With writable_schema, SQLite continues after what it can't parse. The first statement still
	// fails.
	if _, err := w.ExecContext(ctx, "PRAGMA writable_schema = ON"); err != nil {
		return err
	}
	if _, err := w.ExecContext(ctx, "SELECT 1 FROM sqlite_schema"); err == nil {
		return nil
	}
	_, err := w.ExecContext(ctx, "SELECT 1 FROM sqlite_schema")
	return err
}

// MendTexts restores, in the caller's transaction, the texts of schema entries in which a few bits
// have flipped. If a user's view can't be parsed any more, MendTexts replaces it by a view that
// holds the text. It returns the names of what it changed. The connection must come from OpenUnread
// and be closed afterwards: it still has the old schema.
func MendTexts(ctx context.Context, w Writer, expected []Object) (done []string, err error) {
	there, err := entries(ctx, w)
	if err != nil {
		return nil, err
	}
	free := map[int64]entry{} // entries that match nothing expected
	for _, e := range there {
		free[e.Rowid] = e
	}
	var missing []Object
	for _, want := range expected {
		found := false
		for _, e := range there {
			if _, ok := free[e.Rowid]; ok && e.Object == want {
				delete(free, e.Rowid)
				found = true
				break
			}
		}
		if !found {
			missing = append(missing, want)
		}
	}
	for _, want := range missing {
		for _, e := range there {
			if _, ok := free[e.Rowid]; !ok || !near(e.Object, want) {
				continue
			}
			delete(free, e.Rowid)
			var text any = want.SQL
			if want.SQL == "" {
				text = nil // SQLite's own index
			}
			if _, err := w.ExecContext(ctx, `UPDATE sqlite_schema SET type = ?, name = ?, tbl_name = ?, sql = ?
				WHERE rowid = ?`,
				want.Type, want.Name, want.Table, text, e.Rowid); err != nil {
				return nil, err
			}
			done = append(done, want.Type+" "+want.Name)
			break
		}
	}
	guests, err := mendGuests(ctx, w, there, free)
	if done = append(done, guests...); err != nil || len(done) == 0 {
		return done, err
	}
	version, err := Integers(ctx, w, "PRAGMA schema_version")
	if err != nil || len(version) != 1 {
		return nil, errors.Join(err, errors.New("the file has no schema version"))
	}
	// This makes other connections read the schema again.
	_, err = w.ExecContext(ctx, fmt.Sprintf("PRAGMA schema_version = %d", version[0]+1))
	return done, err
}

// near reports whether a and b are the same but for a few bits of one column.
func near(a, b Object) bool {
	fields := [][2]string{{a.Type, b.Type}, {a.Name, b.Name}, {a.Table, b.Table}, {a.SQL, b.SQL}}
	other := 0
	for _, f := range fields {
		if f[0] == f[1] {
			continue
		}
		other++
		if !fewBits(f[0], f[1]) {
			return false
		}
	}
	return other == 1
}

// maxBytes is the largest number of bytes in which damage may have changed a text: more differences
// are an edit.
const maxBytes = 2

func fewBits(a, b string) bool { return len(a) == len(b) && others(a, b) <= maxBytes }

// Alike reports whether two texts have the same length and differ in at most a tenth of their
// bytes.
func Alike(a, b string) bool { return len(a) == len(b) && others(a, b) <= len(a)/10 }

// others returns in how many bytes two texts of the same length differ.
func others(a, b string) (n int) {
	for i := range len(a) {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

// mendGuests replaces the user's views that can't be parsed. It tries in memory whether they can
// be.
func mendGuests(ctx context.Context, w Writer, there []entry, free map[int64]entry) (done []string,
	err error,
) {
	for _, e := range there {
		if _, ok := free[e.Rowid]; !ok || e.Type != "view" || parses(ctx, e.SQL) {
			continue
		}
		stub := fmt.Sprintf("CREATE VIEW %s AS SELECT '%s' AS damaged", engine.Quoted(e.Name),
			strings.ReplaceAll(strings.ToValidUTF8(e.SQL, "?"), "'", "''"))
		if !parses(ctx, stub) {
			continue
		}
		if _, err := w.ExecContext(ctx, `UPDATE sqlite_schema SET sql = ? WHERE rowid = ?`, stub,
			e.Rowid); err != nil {
			return nil, err
		}
		done = append(done, fmt.Sprintf("view %s, of its damaged text", e.Name))
	}
	return done, nil
}

// parses reports whether SQLite can parse the statement that creates a view. The tables that it
// refers to need not exist.
func parses(ctx context.Context, text string) bool {
	c, err := sql.Open("sqlite", "file::memory:")
	if err != nil {
		return true
	}
	defer c.Close() //nolint:errcheck // a writer to memory
	_, err = c.ExecContext(ctx, text)
	return err == nil
}

// Remake creates, in the caller's transaction, the views, triggers and indexes that are missing,
// and replaces those that differ.
func Remake(ctx context.Context, w Writer, expected []Object) (done []string, err error) {
	there, err := Objects(ctx, w)
	if err != nil {
		return nil, err
	}
	kept := map[string]Object{}
	for _, o := range there {
		kept[o.Type+" "+o.Name] = o
	}
	for _, want := range expected {
		if want.Type == "table" || want.SQL == "" {
			continue
		}
		has, ok := kept[want.Type+" "+want.Name]
		if ok && has.Table == want.Table && same(has, want) {
			continue
		}
		if ok {
			if _, err := w.ExecContext(ctx, "DROP "+want.Type+" "+engine.Quoted(want.Name)); err != nil {
				return done, fmt.Errorf("drop %s %s: %w", want.Type, want.Name, err)
			}
		}
		if _, err := w.ExecContext(ctx, want.SQL); err != nil {
			return done, fmt.Errorf("make %s %s: %w", want.Type, want.Name, err)
		}
		done = append(done, want.Type+" "+want.Name)
	}
	return done, nil
}

func entries(ctx context.Context, c Conn) (list []entry, err error) {
	err = c.SelectContext(ctx, &list, `SELECT rowid, coalesce(CAST(type AS TEXT), '') AS type,
		coalesce(CAST(name AS TEXT), '') AS name, coalesce(CAST(tbl_name AS TEXT), '') AS tbl_name,
		coalesce(CAST(sql AS TEXT), '') AS sql FROM sqlite_schema ORDER BY rowid`)
	return list, err
}
