package maintenance

import (
	"context"
	"fmt"
	"hash/crc32"
	"iter"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"selvedge/db"
	"selvedge/internal/engine"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/migrations"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/search"
)

// A Redaction selects what to erase. Pattern, or one of Run and Agent, must be set.
type Redaction struct {
	// Pattern is what to erase wherever it matches: in texts, and in every unescaped string and number
	// of JSON, including JSON in a string. It does not match in base64, percent-encoding or UTF-16, or
	// across records. nil erases everything that people and models wrote into the rows of Run and
	// Agent. Ids, times, statuses and names of members stay, and so do numbers outside of the input
	// and output of tools and the state of a workflow.
	Pattern *regexp.Regexp
	// Scope is the scope of Run and Agent. A Pattern alone applies to the whole file.
	Scope string
	// Run limits the redaction to a run: its trace, its live run, its checkpoint and its quarantine.
	// Agent limits it to an agent: its entry, its traces, the live runs of its session, the
	// checkpoints of both, and its quarantine. "" is no limit. With both, only what belongs to both is
	// erased.
	Run, Agent string
}

// Redacted is the result of a redaction.
type Redacted struct {
	Tables []RedactedTable // with at least one row, by name
	// Backups are the copies of older versions of the file beside it. They are not changed.
	Backups []string
}

// Rows is the number of rows that are changed.
func (r Redacted) Rows() (n int64) {
	for _, t := range r.Tables {
		n += t.Rows
	}
	return n
}

// Kept is the number of rows with ids that match the pattern.
func (r Redacted) Kept() (n int64) {
	for _, t := range r.Tables {
		n += t.Kept
	}
	return n
}

// A RedactedTable is the result of a redaction in one table.
type RedactedTable struct {
	Table  string `json:"table"`  // its name
	Rows   int64  `json:"rows"`   // that are touched
	Places int64  `json:"places"` // in them
	// rows in whose ids or paths the pattern is found, which stay as they are
	Kept int64 `json:"kept"`
}

// PlanRedaction returns what Redact would change.
func PlanRedaction(ctx context.Context, d *db.DB, r Redaction) (Redacted, error) {
	done, err := r.each(ctx, d, "look", func(*redactedTable, [][]any) error { return nil })
	return done, db.Heard(ctx, err)
}

// Redact erases everywhere in the file: in columns, raw bytes, documents and the quarantine, and
// then, by Scrub, in free pages and the -wal. A mark of the same number of bytes replaces each
// match: "[redacted]", or stars if that is too long. So sizes and positions stay correct; checksums
// are computed again. Programs that have the file open continue, and keep what they have read.
// Redact can be stopped at any point and called again; a call after a complete one finds nothing.
//
// Writes during the call may add matches again. Imported trees still hold the erased text, and
// verify reports the difference.
func Redact(ctx context.Context, d *db.DB, r Redaction) (done Redacted, err error) {
	defer func() { err = db.Heard(ctx, err) }()
	done, err = r.each(ctx, d, "erase", func(t *redactedTable, keys [][]any) error {
		for group := range slices.Chunk(keys, redactGroup) {
			err := d.Write(ctx, "redact", func(tx *db.Tx) error {
				for _, key := range group {
					if err := t.erase(tx, key); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return done, err
	}
	// Remains of deleted runs may still be in the file. Prune with an empty policy removes only them.
	for _, s := range []pruner{runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{})} {
		if _, err := s.Prune(ctx, db.Policy{}); err != nil {
			return done, err
		}
	}
	if err := search.Forget(ctx, d); err != nil {
		return done, err
	}
	return done, Scrub(ctx, d)
}

const (
	redactGroup = 50       // rows in a transaction
	redactRows  = 500      // rows read in a transaction
	redactBytes = 16 << 20 // of them, at most
)

func (r Redaction) check() error {
	var why string
	switch {
	case r.Pattern == nil && r.Run == "" && r.Agent == "":
		why = "a redaction needs a pattern, a run or an agent"
	case r.Pattern != nil && r.Pattern.MatchString(""):
		why = fmt.Sprintf("the pattern %q matches everything, an empty text too", r.Pattern)
	default:
		return nil
	}
	const hint = "say what to erase: a pattern, as sk-[A-Za-z0-9]{20,}, or what belongs to a run or an agent"
	return &db.Error{Op: "redact", Hint: hint, Err: fmt.Errorf("%w: %s", db.ErrInvalid, why)}
}

// each calls visit for each table with the keys of the rows that have a match.
func (r Redaction) each(
	ctx context.Context, d *db.DB, step string, visit func(*redactedTable, [][]any) error,
) (done Redacted, err error) {
	if err := r.check(); err != nil {
		return done, err
	}
	var scope int64
	if r.Run != "" || r.Agent != "" {
		scope, _, err = stores.Find(ctx, d.Read, "redact",
			func(rx *db.Rx) (int64, bool, error) { return rx.Store().Scope(r.Scope) })
		if err != nil {
			return done, err
		}
	}
	far := begin(ctx, d, step)
	var tables []*redactedTable
	var keys [][][]any
	named := map[string]*redactedTable{}
	for _, texts := range migrations.TextColumns {
		t := r.table(texts, scope)
		if t == nil {
			continue
		}
		t.far = far
		found, rows, err := t.find(ctx, d)
		if err != nil {
			return done, fmt.Errorf("redact %s: %w", texts.Table, err)
		}
		tables, keys, named[t.Table] = append(tables, t), append(keys, rows), t
		if found.Rows+found.Kept > 0 {
			done.Tables = append(done.Tables, found)
		}
	}
	for i, t := range tables { // only now that all are found: a visit also erases rows of another table
		t.from = named[derived[t.Table].from]
		if err := visit(t, keys[i]); err != nil {
			return done, err
		}
	}
	done.Backups, err = backupsOf(d)
	return done, err
}

// A redactedTable reads and changes the rows of a table.
type redactedTable struct {
	migrations.Texts
	sum     *migrations.Checksum // nil: it has none
	columns []string             // as they are read
	where   []string
	args    []any
	eraser  eraser
	far     *far
	from    *redactedTable // see derived
}

// table returns nil if the redaction does not apply to the table.
func (r Redaction) table(texts migrations.Texts, scope int64) *redactedTable {
	t := &redactedTable{Texts: texts, eraser: eraser{r.Pattern}}
	for _, narrow := range []struct{ id, where string }{{r.Run, texts.Run}, {r.Agent, texts.Agent}} {
		switch {
		case narrow.id == "":
		case narrow.where == "":
			return nil
		default:
			t.where, t.args = append(t.where, "("+narrow.where+")"), append(t.args, scope, narrow.id)
		}
	}
	if len(texts.Key) == 0 && (r.Pattern == nil || len(texts.Names) == 0) {
		return nil
	}
	t.sum = checksumOf(texts.Table)
	t.columns = slices.Concat(texts.Key, texts.Plain, texts.JSON, texts.Kinds, texts.Names)
	if t.sum != nil {
		t.columns = append(append(t.columns, t.sum.Column), t.sum.Covered...)
	}
	slices.Sort(t.columns)
	t.columns = slices.Compact(t.columns)
	return t
}

// checksumOf returns nil if a table has no checksums.
func checksumOf(table string) *migrations.Checksum {
	for i, sum := range migrations.Checksums {
		if sum.Table == table {
			return &migrations.Checksums[i]
		}
	}
	return nil
}

// A textRow is a row by the names of its columns, each as the table keeps it.
type textRow map[string]any

func (t *redactedTable) sql(where ...string) string {
	list := make([]string, 0, 2*len(t.columns))
	for _, name := range t.columns {
		list = append(list, name, name+" IS NULL") // an empty BLOB scans like NULL
	}
	query := "SELECT " + strings.Join(list, ", ") + " FROM " + t.Table
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	if len(t.Key) > 0 {
		query += " ORDER BY " + strings.Join(t.Key, ", ")
	}
	return query
}

// rows returns the rows of a query made by sql.
func (t *redactedTable) rows(query iter.Seq2[*db.Row, error]) iter.Seq2[textRow, error] {
	return func(yield func(textRow, error) bool) {
		for row, err := range query {
			values, null := make([]any, len(t.columns)), make([]bool, len(t.columns))
			dest := make([]any, 0, 2*len(values))
			for i := range values {
				dest = append(dest, &values[i], &null[i])
			}
			if err == nil {
				err = row.Scan(dest...)
			}
			r := textRow{}
			for i, name := range t.columns {
				if r[name] = values[i]; values[i] == nil && !null[i] {
					r[name] = []byte{}
				}
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

func (t *redactedTable) key(r textRow) (key []any) {
	for _, name := range t.Key {
		key = append(key, r[name])
	}
	return key
}

func (t *redactedTable) keyed(op string) string {
	return "(" + strings.Join(t.Key, ", ") + ") " + op + " (" +
		strings.TrimSuffix(strings.Repeat("?, ", len(t.Key)), ", ") + ")"
}

// find reads the table in short transactions, so that none holds the WAL for long.
func (t *redactedTable) find(ctx context.Context, d *db.DB) (found RedactedTable, keys [][]any, err error) {
	found.Table = t.Table
	var after []any
	for more := true; more && err == nil; {
		where, args := slices.Clone(t.where), slices.Clone(t.args)
		if after != nil {
			where, args = append(where, t.keyed(">")), append(args, after...)
		}
		var rows []textRow // the pieces of the current text
		text := func() {
			changed, places := t.change(rows)
			found.Places += places
			for i := range rows {
				if len(changed[i]) > 0 {
					found.Rows++
					keys = append(keys, t.key(rows[i]))
					if t.Pieces { // one key is enough: erase changes all pieces
						found.Rows += int64(len(rows)) - 1
						break
					}
				}
			}
			for _, r := range rows {
				if t.named(r) {
					found.Kept++
				}
			}
			rows = nil
		}
		err = d.Read(ctx, "redact", func(rx *db.Rx) error {
			more = false
			rows = nil
			read, bytes := 0, 0
			for r, err := range t.rows(rx.Query(t.sql(where...), args...)) {
				if err != nil {
					return err
				}
				size := 0
				for _, value := range r {
					size += len(bytesOf(value))
				}
				if same := t.Pieces && len(rows) > 0 && rows[0][t.Key[0]] == r[t.Key[0]]; !same {
					if len(rows) > 0 {
						after = t.key(rows[len(rows)-1])
						text()
					}
					if len(t.Key) > 0 && (read >= redactRows || bytes > redactBytes) {
						more = true
						return nil
					}
				}
				read, bytes = read+1, bytes+size
				t.far.more(int64(size))
				rows = append(rows, r)
			}
			text()
			return nil
		})
	}
	return found, keys, err
}

// named reports whether the pattern matches in a name of the row.
func (t *redactedTable) named(r textRow) bool {
	found := func(name string) bool { return t.eraser.pattern.Match(bytesOf(r[name])) }
	return t.eraser.pattern != nil && slices.ContainsFunc(t.Names, found)
}

// change returns the changed columns of a row, or of the pieces of one text, and the number of
// places.
func (t *redactedTable) change(rows []textRow) (changed []textRow, places int64) {
	changed = make([]textRow, len(rows))
	for i := range rows {
		changed[i] = textRow{}
	}
	texts := slices.Concat(t.Plain, t.JSON)
	if t.eraser.pattern != nil {
		texts = append(texts, t.Kinds...)
	}
	for _, column := range texts {
		var whole []byte
		for _, r := range rows {
			whole = append(whole, bytesOf(r[column])...)
		}
		var erased []byte
		var n int64
		if slices.Contains(t.JSON, column) {
			erased, n = t.eraser.json(column, whole)
		} else {
			erased, n = t.eraser.text(whole)
		}
		places += n
		for i, r := range rows {
			old := bytesOf(r[column])
			piece := erased[:len(old)]
			erased = erased[len(old):]
			if string(piece) == string(old) {
				continue
			}
			if _, text := r[column].(string); text {
				changed[i][column] = string(piece)
			} else {
				changed[i][column] = slices.Clone(piece)
			}
		}
	}
	return changed, places
}

func bytesOf(value any) []byte {
	switch v := value.(type) {
	case []byte:
		return v
	case string:
		return []byte(v)
	}
	return nil
}

// derived has the tables whose columns are derived from another table: its name, and the condition for the
// rows that belong to the key ?1. One transaction erases both, since Check compares them.
var derived = map[string]struct{ from, rows string }{
	"runs": {"run_records", `id > CAST(?1 AS BIGINT) << 24 AND id < (CAST(?1 AS BIGINT) + 1) << 24
		AND kind <> 'turn'`},
	"checkpoints": {"checkpoint_documents", `checkpoint = ?1`},
}

// erase changes the row of a key, or the text that a piece of that key belongs to, the rows that it is
// derived from, and their checksums.
func (t *redactedTable) erase(tx *db.Tx, key []any) error {
	where, args := t.keyed("="), key
	if t.Pieces {
		where, args = t.Key[0]+" = ?", key[:1]
	}
	var rows []textRow
	for r, err := range t.rows(tx.Query(t.sql(where), args...)) {
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	changed, _ := t.change(rows)
	for i, r := range rows {
		if len(changed[i]) == 0 {
			continue
		}
		if err := t.write(tx, r, changed[i]); err != nil {
			return err
		}
	}
	if t.from == nil {
		return nil
	}
	var keys [][]any
	for r, err := range t.from.rows(tx.Query(t.from.sql(derived[t.Table].rows), key...)) {
		if err != nil {
			return err
		}
		keys = append(keys, t.from.key(r))
	}
	for _, key := range keys {
		if err := t.from.erase(tx, key); err != nil {
			return err
		}
	}
	return nil
}

func (t *redactedTable) write(tx *db.Tx, r, changed textRow) error {
	maps.Copy(r, changed)
	if t.sum != nil && r[t.sum.Column] != nil {
		var covered []any
		for _, name := range t.sum.Covered {
			covered = append(covered, r[name])
		}
		changed[t.sum.Column] = txn.Checksum(covered...)
	}
	var set []string
	var args []any
	for name, value := range changed {
		set, args = append(set, name+" = ?"), append(args, value)
	}
	if _, err := tx.Exec("UPDATE "+t.Table+" SET "+strings.Join(set, ", ")+" WHERE "+t.keyed("="),
		append(args, t.key(r)...)...); err != nil {
		return err
	}
	if t.Table == "checkpoint_documents" {
		return rereadCheckpoint(tx, r)
	}
	if part, ok := runtimeParts[t.Table]; ok {
		return part.touch(tx, r[t.Key[0]].(int64))
	}
	return nil
}

// A runtimePart is a table of rows that belong to runtimes, or to workers of runtimes.
type runtimePart struct {
	bits     int // that its key has below the key of the runtime or of the worker
	ofWorker bool
}

var runtimeParts = map[string]runtimePart{
	"worker_runtimes": {}, "worker_runtime_documents": {}, "worker_events": {bits: 40},
	"worker_diagnostics": {bits: 40}, "worker_entries": {bits: 24, ofWorker: true},
	"worker_requests": {ofWorker: true}, "worker_documents": {ofWorker: true},
}

const sqlImportOfRuntime = `entity_id = '' AND entity_row = ? AND last_sequence > 0
	AND entity_group = (SELECT runtime_id FROM worker_runtimes WHERE key = ?)
	AND source IN (SELECT id FROM import_sources WHERE kind = 'workers')`

// touch makes the runtime of a row count as written to since it was imported. Otherwise the next
// change of its folder would bring back what was erased.
func (p runtimePart) touch(tx *db.Tx, key int64) error {
	key >>= p.bits
	if p.ofWorker {
		if err := tx.Get(&key, `SELECT runtime FROM workers WHERE key = ?`, key); err != nil {
			return err
		}
	}
	return put(tx, "import_files", []string{"source", "path"}, textRow{"last_sequence": int64(0)},
		sqlImportOfRuntime, key, key)
}

// rereadCheckpoint updates the checksum of the document in its checkpoint.
func rereadCheckpoint(tx *db.Tx, document textRow) error {
	checksum := crc32.Checksum(bytesOf(document["document"]), crc32.MakeTable(crc32.Castagnoli))
	return put(tx, "checkpoints", []string{"id"}, textRow{"checksum": int64(checksum)}, "id = ?",
		document["checkpoint"])
}

// put changes the rows of a table that a condition selects, and their checksums.
func put(tx *db.Tx, table string, key []string, values textRow, where string, args ...any) error {
	t := &redactedTable{Texts: migrations.Texts{Table: table, Key: key}, sum: checksumOf(table)}
	t.columns = slices.Concat(key, []string{t.sum.Column}, t.sum.Covered)
	for r, err := range t.rows(tx.Query(t.sql(where), args...)) {
		if err == nil {
			err = t.write(tx, r, maps.Clone(values))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// backupsOf returns the copies that commands keep beside the file.
func backupsOf(d *db.DB) (found []string, err error) {
	if d.Path() == ":memory:" || engine.IsAddress(d.Path()) {
		return nil, nil
	}
	for _, suffix := range []string{".schema-*.bak", ".before-restore*"} {
		list, err := filepath.Glob(globbed(d.Path()) + suffix)
		if err != nil {
			return nil, err
		}
		found = append(found, list...)
	}
	return found, nil
}

// globbed escapes a path for Glob.
func globbed(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
