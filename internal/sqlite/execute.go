package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math/bits"
	"reflect"
	"time"
	"unsafe"

	"github.com/jmoiron/sqlx"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/internal/engine"
	"selvedge/internal/scan"
)

// prepare prepares the statement for its first use.
func (st *statement) prepare() error {
	if st.prepared != nil {
		return nil
	}
	s := st.session
	err := s.conn.Raw(func(conn any) error {
		prepared, err := conn.(driver.ConnPrepareContext).PrepareContext(background, st.query)
		if err == nil {
			st.prepared = prepared
			st.handle, err = pointerIn(prepared, "pstmt")
		}
		return err
	})
	if err != nil || st.handle == 0 {
		return err
	}
	st.places = int(sqlite3.Xsqlite3_bind_parameter_count(s.tls, st.handle))
	for i := range st.places {
		name := libc.GoString(sqlite3.Xsqlite3_bind_parameter_name(s.tls, st.handle, int32(i+1)))
		if name != "" && name[0] != '?' && st.named == nil {
			st.named = make([]string, st.places)
		}
		if st.named != nil {
			st.named[i] = name
		}
	}
	return nil
}

// pointerIn returns the SQLite pointer in a private field of a driver's value. The version of the
// driver is pinned, and opening a connection fails if the field is missing.
func pointerIn(value any, name string) (uintptr, error) {
	v := reflect.ValueOf(value)
	if v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
		if field := v.Elem().FieldByName(name); field.IsValid() && field.Kind() == reflect.Uintptr {
			return uintptr(field.Uint()), nil
		}
	}
	return 0, fmt.Errorf("the SQLite driver has a %T without a %s", value, name)
}

// bind binds the arguments until reset. Texts and blobs are copied to memory of SQLite's: SQLite
// keeps addresses as integers, which Go forbids for its own memory (unsafe.Pointer) and the race
// detector reports. Also, a caller may change its bytes inside a loop over the rows.
func (st *statement) bind(args []any) error {
	st.bound = st.bound[:0] // a Valuer that panicked has left some
	size := 0
	for i := range st.places {
		arg, err := st.argument(i, args)
		if err != nil {
			return err
		}
		switch arg.(type) {
		case nil, int64, string, []byte, float64, bool:
		default: // as database/sql does
			if arg, err = driver.DefaultParameterConverter.ConvertValue(arg); err != nil {
				return fmt.Errorf("%w: argument %d: %w", engine.ErrInvalid, i+1, err)
			}
		}
		switch v := arg.(type) {
		case string:
			size += len(v) + 1 // an empty value needs an address too: without one it is NULL
		case []byte:
			size += len(v) + 1
		}
		st.bound = append(st.bound, arg)
	}
	var free []byte
	var err error
	if size > 0 {
		if st.room, err = st.session.takeRoom(size); err != nil {
			return err
		}
		free = st.room.bytes()
	}
	for i := 0; err == nil && i < len(st.bound); i++ {
		err = st.bindOne(i, st.bound[i], &free)
	}
	clear(st.bound)
	return err
}

// argument returns the argument for a parameter.
func (st *statement) argument(i int, args []any) (any, error) {
	if st.named != nil && st.named[i] != "" && st.named[i][0] != '?' {
		for _, arg := range args {
			if named, ok := arg.(sql.NamedArg); ok && named.Name == st.named[i][1:] {
				return named.Value, nil
			}
		}
		return nil, fmt.Errorf("%w: there is no argument named %s", engine.ErrInvalid, st.named[i][1:])
	}
	if i >= len(args) {
		return nil, fmt.Errorf("%w: there is no argument %d", engine.ErrInvalid, i+1)
	}
	if named, ok := args[i].(sql.NamedArg); ok {
		return named.Value, nil
	}
	return args[i], nil
}

// bindOne binds an argument, and takes what it needs of the free room.
func (st *statement) bindOne(i int, arg any, free *[]byte) error {
	tls, at := st.session.tls, int32(i+1)
	var rc int32
	switch v := arg.(type) {
	case int64:
		rc = sqlite3.Xsqlite3_bind_int64(tls, st.handle, at, v)
	case bool:
		n := int64(0)
		if v {
			n = 1
		}
		rc = sqlite3.Xsqlite3_bind_int64(tls, st.handle, at, n)
	case float64:
		rc = sqlite3.Xsqlite3_bind_double(tls, st.handle, at, v)
	case string:
		rc = sqlite3.Xsqlite3_bind_text64(tls, st.handle, at, put(free, v), uint64(len(v)), sqliteStatic,
			sqlite3.SQLITE_UTF8)
	case []byte:
		if v != nil {
			rc = sqlite3.Xsqlite3_bind_blob64(tls, st.handle, at, put(free, v), uint64(len(v)), sqliteStatic)
			break
		}
		rc = sqlite3.Xsqlite3_bind_null(tls, st.handle, at)
	case nil:
		rc = sqlite3.Xsqlite3_bind_null(tls, st.handle, at)
	default:
		return fmt.Errorf("%w: argument %d is a %T", engine.ErrInvalid, i+1, arg)
	}
	if rc != sqlite3.SQLITE_OK {
		return st.session.sqliteError(rc)
	}
	return nil
}

// sqliteStatic says that a value stays where it is (sqlite.org/c3ref/c_static.html).
const sqliteStatic = 0

// put copies a text or a blob to the beginning of what is free, and returns its address.
func put[T string | []byte](free *[]byte, value T) uintptr {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(*free)))
	*free = (*free)[copy(*free, value):]
	return at
}

// A room is memory from SQLite's allocator, for the texts and blobs among the arguments of one use.
// A statement refers to it until it is bound again, and reads it only before reset.
type room struct {
	at   uintptr // 0: none
	size int
}

// A session keeps one room of at most mostRoom bytes, a power of two, as the allocator rounds up.
const (
	leastRoom = 1 << 12
	mostRoom  = 1 << 18
)

func (r room) bytes() []byte { return unsafe.Slice(*(**byte)(unsafe.Pointer(&r.at)), r.size) }

// takeRoom returns a room of at least size bytes: the spare one, if that is large enough.
func (s *session) takeRoom(size int) (room, error) {
	r := s.spare
	s.spare = room{}
	if r.size >= size {
		return r, nil
	}
	s.freeRoom(r)
	if r.size = size; size <= mostRoom {
		r.size = max(leastRoom, 1<<bits.Len(uint(size-1)))
	}
	if r.at = libc.Xmalloc(s.tls, libc.Tsize_t(r.size)); r.at == 0 {
		return room{}, s.sqliteError(sqlite3.SQLITE_NOMEM)
	}
	return r, nil
}

// giveRoom makes a room the spare one, or frees it.
func (s *session) giveRoom(r room) {
	if r.at != 0 && s.spare.at == 0 && r.size <= mostRoom {
		s.spare = r
		return
	}
	s.freeRoom(r)
}

func (s *session) freeRoom(r room) {
	if r.at != 0 {
		libc.Xfree(s.tls, r.at)
	}
}

// step runs the statement to its next row, and reports whether there is one. The end of ctx interrupts it.
func (st *statement) step(ctx context.Context) (row bool, err error) {
	s := st.session
	if ctx.Done() != nil {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		defer s.interruptAfter(ctx)()
	}
	switch rc := sqlite3.Xsqlite3_step(s.tls, st.handle); rc {
	case sqlite3.SQLITE_ROW:
		return true, nil
	case sqlite3.SQLITE_DONE:
		return false, nil
	default:
		return false, endedBy(ctx, s.sqliteError(rc))
	}
}

// endedBy returns the context's error for a statement that was interrupted because ctx ended, and
// err for others.
func endedBy(ctx context.Context, err error) error {
	if primary(err) == sqlite3.SQLITE_INTERRUPT {
		return cmp.Or(ctx.Err(), err)
	}
	return err
}

// interruptAfter interrupts the connection's statements from the end of ctx until enough is called.
// It repeats the interrupt, which a statement that is about to begin would miss.
func (s *session) interruptAfter(ctx context.Context) (enough func()) {
	over, left := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(left)
		for {
			s.interrupt()
			select {
			case <-over:
				return
			case <-time.After(interruptAgain):
			}
		}
	})
	return func() {
		close(over)
		if !stop() {
			<-left
		}
	}
}

// reset ends the use of the statement. It repeats the error of the last step.
func (st *statement) reset() (err error) {
	s := st.session
	if rc := sqlite3.Xsqlite3_reset(s.tls, st.handle); rc != sqlite3.SQLITE_OK {
		err = s.sqliteError(rc)
	}
	s.giveRoom(st.room)
	st.room = room{}
	return err
}

// script has the driver run a text of several statements, or of none. All of them get the same
// arguments.
func (st *statement) script(args []any) (n int64, err error) {
	values := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: arg}
		if named, ok := arg.(sql.NamedArg); ok {
			values[i].Name, values[i].Value = named.Name, named.Value
		}
		if values[i].Value, err = driver.DefaultParameterConverter.ConvertValue(values[i].Value); err != nil {
			return 0, fmt.Errorf("%w: argument %d: %w", engine.ErrInvalid, i+1, err)
		}
	}
	err = st.session.conn.Raw(func(any) error {
		result, err := st.prepared.(driver.StmtExecContext).ExecContext(background, values)
		if err == nil && result != nil { // a comment has none
			n, err = result.RowsAffected()
		}
		return err
	})
	return n, err
}

// run runs a query to its first row. The end of ctx interrupts it.
func (st *statement) run(ctx context.Context, args []any) (*scan.Rows, error) {
	if err := st.prepare(); err != nil {
		return nil, err
	}
	if st.handle == 0 {
		defer st.session.interruptAfter(ctx)()
		rows, err := st.session.conn.QueryxContext(background, st.query, args...)
		return &scan.Rows{Source: scripted{rows, st.session, ctx}}, endedBy(ctx, err)
	}
	f := &st.found
	f.statement, f.ctx, f.over = st, ctx, false
	err := st.bind(args)
	if err == nil {
		f.ahead, err = st.step(ctx)
	}
	if err != nil {
		_ = st.reset() // repeats the error
		return nil, err
	}
	f.over = !f.ahead
	f.name()
	return &st.rows, nil
}

// scripted are the rows of a text of several statements.
type scripted struct {
	*sqlx.Rows
	session *session
	ctx     context.Context
}

// Next moves to the next row. The end of the context interrupts it.
func (s scripted) Next() bool {
	defer s.session.interruptAfter(s.ctx)()
	return s.Rows.Next()
}

// Err returns the error that ended the rows early.
func (s scripted) Err() error { return endedBy(s.ctx, s.Rows.Err()) }

// Take leaves all rows to database/sql.
func (scripted) Take([]any) bool { return false }

// found are the rows of a statement.
type found struct {
	*statement
	ctx     context.Context
	columns []string
	version int32 // how often the statement was prepared again when its columns were named

	ahead  bool // it is at a row that was not returned yet
	here   bool // it is at the row that was returned last
	over   bool // another step would begin it anew
	failed error
}

var _ scan.Source = (*found)(nil)

// name reads the names of the columns, again only after SQLite has prepared the statement anew for
// a changed schema.
func (f *found) name() {
	tls := f.session.tls
	version := sqlite3.Xsqlite3_stmt_status(tls, f.handle, sqlite3.SQLITE_STMTSTATUS_REPREPARE, 0)
	if f.columns != nil && version == f.version {
		return
	}
	f.columns, f.version = make([]string, sqlite3.Xsqlite3_column_count(tls, f.handle)), version
	for i := range f.columns {
		f.columns[i] = libc.GoString(sqlite3.Xsqlite3_column_name(tls, f.handle, int32(i)))
	}
	f.rows = scan.Rows{Source: f}
}

// Columns are the names of the columns.
func (f *found) Columns() ([]string, error) { return f.columns, nil }

// Declared returns the declared type of the table's column that a result column shows; "" for an
// expression.
func (f *found) Declared(i int) string {
	return libc.GoString(sqlite3.Xsqlite3_column_decltype(f.session.tls, f.handle, int32(i)))
}

// Next moves to the next row.
func (f *found) Next() bool {
	if !f.ahead && !f.over {
		f.ahead, f.failed = f.step(f.ctx)
		f.over = !f.ahead
	}
	f.here, f.ahead = f.ahead, false
	return f.here
}

// Err returns the error that ended the rows early.
func (f *found) Err() error { return f.failed }

// Close ends the query.
func (f *found) Close() error {
	err := cmp.Or(f.failed, f.reset())
	*f = found{statement: f.statement, columns: f.columns, version: f.version, over: true}
	return err
}

// Take scans the row if all destinations have common types, and reports whether it did.
func (f *found) Take(dest []any) bool {
	if !f.here || len(dest) != len(f.columns) {
		return false
	}
	for i, d := range dest {
		if !f.take(int32(i), d) {
			return false
		}
	}
	return true
}

func (f *found) take(i int32, dest any) bool {
	tls, kind := f.session.tls, sqlite3.Xsqlite3_column_type(f.session.tls, f.handle, i)
	switch d := dest.(type) {
	case *int64:
		if kind == sqlite3.SQLITE_INTEGER {
			*d = sqlite3.Xsqlite3_column_int64(tls, f.handle, i)
		}
		return kind == sqlite3.SQLITE_INTEGER
	case *string:
		if kind == sqlite3.SQLITE_TEXT {
			*d = f.text(i)
		}
		return kind == sqlite3.SQLITE_TEXT
	case **int64:
		switch kind {
		case sqlite3.SQLITE_NULL:
			*d = nil
			return true
		case sqlite3.SQLITE_INTEGER:
			*d = new(sqlite3.Xsqlite3_column_int64(tls, f.handle, i))
			return true
		}
		return false
	case **string:
		switch kind {
		case sqlite3.SQLITE_NULL:
			*d = nil
			return true
		case sqlite3.SQLITE_TEXT:
			*d = new(f.text(i))
			return true
		}
		return false
	case *[]byte:
		switch kind {
		case sqlite3.SQLITE_NULL:
			*d = nil
			return true
		case sqlite3.SQLITE_BLOB:
			*d = f.copied(i, sqlite3.Xsqlite3_column_blob(tls, f.handle, i))
			return true
		}
		return false
	}
	return scan.Assign(dest, f.value(i))
}

// value returns a column's value as the driver would.
func (f *found) value(i int32) any {
	tls := f.session.tls
	switch sqlite3.Xsqlite3_column_type(tls, f.handle, i) {
	case sqlite3.SQLITE_INTEGER:
		return sqlite3.Xsqlite3_column_int64(tls, f.handle, i)
	case sqlite3.SQLITE_FLOAT:
		return sqlite3.Xsqlite3_column_double(tls, f.handle, i)
	case sqlite3.SQLITE_TEXT:
		return f.text(i)
	case sqlite3.SQLITE_BLOB:
		return f.copied(i, sqlite3.Xsqlite3_column_blob(tls, f.handle, i))
	}
	return nil
}

func (f *found) text(i int32) string {
	b := f.copied(i, sqlite3.Xsqlite3_column_text(f.session.tls, f.handle, i))
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// copied copies a text or a blob, which SQLite keeps only until the next step.
func (f *found) copied(i int32, at uintptr) []byte {
	n := sqlite3.Xsqlite3_column_bytes(f.session.tls, f.handle, i)
	if at == 0 || n == 0 {
		return nil
	}
	return append(make([]byte, 0, n), unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), n)...)
}

// Scan has database/sql convert the row.
func (f *found) Scan(dest ...any) error {
	if !f.here {
		return scan.ErrNoRow
	}
	row := make([]driver.Value, len(f.columns))
	for i := range row {
		row[i] = f.value(int32(i))
	}
	return scan.Convert(f.columns, row, dest)
}
