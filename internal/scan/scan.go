package scan

import (
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx/reflectx"

	"selvedge/internal/engine"
)

// One reads the first row into dest, a pointer to a struct with db tags or to what takes a column,
// and closes the rows. No row is engine.ErrNotFound; a struct is zero then.
func One(r *Rows, dest any) (err error) {
	defer closeAfter(r, &err)
	to, err := target(dest)
	if err != nil {
		return err
	}
	r.whole = true
	fields, err := r.takes(to.Type())
	if err != nil {
		return err
	}
	if !r.Next() {
		if err := r.Err(); err != nil {
			return err
		}
		if fields {
			to.SetZero()
		}
		return engine.ErrNotFound
	}
	return r.into(to, fields)
}

// All reads all rows into dest, a pointer to a slice of what One takes, or of pointers to it, and
// closes them.
func All(r *Rows, dest any) (err error) {
	defer closeAfter(r, &err)
	list, err := target(dest)
	if err != nil {
		return err
	}
	if list.Kind() != reflect.Slice {
		return fmt.Errorf("%w: rows are read into a pointer to a slice, not into a %T", engine.ErrInvalid, dest)
	}
	list.SetLen(0)
	of := list.Type().Elem()
	pointers := of.Kind() == reflect.Pointer
	if pointers {
		of = of.Elem()
	}
	r.whole = true
	fields, err := r.takes(of)
	for n := 0; err == nil && r.Next(); n++ {
		list.Grow(1)
		list.SetLen(n + 1)
		to := list.Index(n)
		to.SetZero()
		if pointers {
			to.Set(reflect.New(of))
			to = to.Elem()
		}
		if err = r.into(to, fields); err != nil {
			list.SetLen(n)
		}
	}
	if err == nil {
		err = r.Err()
	}
	return err
}

func closeAfter(r *Rows, err *error) {
	if closed := r.Close(); *err == nil {
		*err = closed
	}
}

func target(dest any) (reflect.Value, error) {
	v := reflect.ValueOf(dest)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return v, fmt.Errorf("%w: rows are read into what a pointer points to, not into a %T", engine.ErrInvalid,
			dest)
	}
	return v.Elem(), nil
}

// Rows are the rows of a query, read one by one.
type Rows struct {
	Source
	whole   bool         // they are closed before the caller sees the values
	of      reflect.Type // the last struct
	fields  [][]int      // the positions of its fields, by column
	dest    []any        // a row's fields
	targets []any        // passed to Source.Scan: a row's destinations, but for the Scanners
	waiting []waiting    // the Scanners among a row's destinations
}

// A Source has the rows of a query.
type Source interface {
	Columns() ([]string, error)
	// Next moves to the next row.
	Next() bool
	// Take reads the row into usual destinations, and reports whether it could.
	Take(dest []any) bool
	// Scan reads the row as database/sql does.
	Scan(dest ...any) error
	// Err returns the error that ended the rows early.
	Err() error
	Close() error
}

// Close closes the rows, and forgets what was read.
func (r *Rows) Close() error {
	clear(r.dest[:cap(r.dest)])
	clear(r.targets[:cap(r.targets)])
	clear(r.waiting[:cap(r.waiting)])
	r.whole = false
	return r.Source.Close()
}

// mapper names a struct's fields as sqlx does.
var mapper = reflectx.NewMapperFunc("db", strings.ToLower)

// takes reports whether a row goes into the fields of a type. Otherwise it goes into one column.
func (r *Rows) takes(t reflect.Type) (fields bool, err error) {
	if t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(scanner) &&
		len(mapper.TypeMap(t).Index) > 0 {
		return true, r.find(t)
	}
	columns, err := r.Columns()
	if err == nil && len(columns) > 1 {
		err = fmt.Errorf("%w: a row of %d columns does not fit into a %v", engine.ErrInvalid, len(columns), t)
	}
	return false, err
}

// find looks up the positions of a struct's fields.
func (r *Rows) find(t reflect.Type) error {
	if r.of == t {
		return nil
	}
	columns, err := r.Columns()
	if err != nil {
		return err
	}
	fields := mapper.TraversalsByName(t, columns)
	for i, path := range fields {
		if len(path) == 0 {
			return fmt.Errorf("%w: missing destination name %s in %v", engine.ErrInvalid, columns[i], t)
		}
	}
	r.of, r.fields = t, fields
	return nil
}

func (r *Rows) into(to reflect.Value, fields bool) error {
	if !fields {
		return r.Scan(to.Addr().Interface())
	}
	r.dest = slices.Grow(r.dest[:0], len(r.fields))
	for _, path := range r.fields {
		r.dest = append(r.dest, field(to, path).Addr().Interface())
	}
	return r.Scan(r.dest...)
}

// field returns the field at a path, and makes the structs on the way.
func field(v reflect.Value, path []int) reflect.Value {
	for i, n := range path {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(n)
	}
	return v
}

// ScanStruct reads the row into the fields of a struct with db tags.
func (r *Rows) ScanStruct(dest any) error {
	to, err := target(dest)
	if err != nil {
		return err
	}
	if to.Kind() != reflect.Struct {
		return fmt.Errorf("%w: a row's columns go into a struct, not into a %T", engine.ErrInvalid, dest)
	}
	if err := r.find(to.Type()); err != nil {
		return err
	}
	return r.into(to, true)
}

// waiting is a destination that is, or leads to, a Scanner, and the value that it gets.
type waiting struct {
	column int
	dest   any
	value  any
}

var scanner = reflect.TypeFor[sql.Scanner]()

// Scan reads the row's columns in their order.
func (r *Rows) Scan(dest ...any) error {
	if !slices.ContainsFunc(dest, unusual) && r.Take(dest) {
		return nil
	}
	r.targets, r.waiting = append(r.targets[:0], dest...), r.waiting[:0]
	for i, d := range dest {
		if !unusual(d) {
			continue
		}
		v := reflect.ValueOf(d)
		if leadsToScanner(v) {
			r.waiting = append(r.waiting, waiting{column: i, dest: d})
		} else if v.Kind() == reflect.Pointer && v.IsNil() { // some make database/sql panic
			return fmt.Errorf("%w: destination %d is a nil pointer", engine.ErrInvalid, i+1)
		}
		if _, raw := d.(*sql.RawBytes); raw && r.whole {
			return fmt.Errorf("%w: a sql.RawBytes is gone with its row; read a []byte", engine.ErrInvalid)
		}
	}
	for i := range r.waiting {
		r.targets[r.waiting[i].column] = &r.waiting[i].value
	}
	if err := r.Source.Scan(r.targets...); err != nil {
		return unfit(err)
	}
	for _, w := range r.waiting {
		if err := w.give(); err != nil {
			columns, _ := r.Columns()
			return fmt.Errorf("scan column %d, %q: %w", w.column+1, columns[w.column], err)
		}
	}
	return nil
}

// Assign moves a value of a driver to a usual destination, and reports whether it has the destination's type.
func Assign(dest, value any) bool {
	switch d := dest.(type) {
	case *string:
		return put(d, value)
	case *int64:
		return put(d, value)
	case *[]byte:
		if value == nil {
			*d = nil
			return true
		}
		return put(d, value)
	case *bool:
		n, is := value.(int64)
		if *d = n == 1; is {
			return n == 0 || n == 1
		}
		return false
	case **string:
		return point(d, value)
	case **int64:
		return point(d, value)
	case *any:
		*d = value
		return true
	}
	return assignKind(reflect.ValueOf(dest).Elem(), value)
}

// assignKind is Assign for what has only the kind of a usual type.
func assignKind(to reflect.Value, value any) bool {
	if to.Kind() == reflect.Pointer {
		if value == nil {
			to.SetZero()
			return true
		}
		at := reflect.New(to.Type().Elem())
		if !assignKind(at.Elem(), value) {
			return false
		}
		to.Set(at)
		return true
	}
	switch v := value.(type) {
	case string:
		if to.Kind() == reflect.String {
			to.SetString(v)
			return true
		}
	case float64:
		if to.Kind() == reflect.Float64 {
			to.SetFloat(v)
			return true
		}
	case int64:
		switch {
		case to.CanInt() && !to.OverflowInt(v):
			to.SetInt(v)
			return true
		case to.CanUint() && v >= 0 && !to.OverflowUint(uint64(v)):
			to.SetUint(uint64(v))
			return true
		}
	}
	return false
}

func put[T any](to *T, value any) bool {
	v, is := value.(T)
	if is {
		*to = v
	}
	return is
}

func point[T any](to **T, value any) bool {
	if value == nil {
		*to = nil
		return true
	}
	v, is := value.(T)
	if is {
		*to = &v
	}
	return is
}

// unfit returns ErrInvalid for a value that its destination does not take.
func unfit(err error) error {
	if err == nil || !strings.HasPrefix(err.Error(), "sql: ") {
		return err
	}
	return fmt.Errorf("%w: %w", engine.ErrInvalid, err)
}

// unusual is false of pointers to the usual types, and to types of their kinds, for which database/sql would
// run no code of a caller.
func unusual(dest any) bool {
	switch d := dest.(type) {
	case *string:
		return d == nil
	case *int64:
		return d == nil
	case *[]byte:
		return d == nil
	case *bool:
		return d == nil
	case *any:
		return d == nil
	case **string:
		return d == nil
	case **int64:
		return d == nil
	}
	v := reflect.ValueOf(dest)
	if v.Kind() != reflect.Pointer || v.IsNil() || leadsToScanner(v) {
		return true
	}
	of := v.Type().Elem()
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch of.Kind() {
	case reflect.String, reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64, reflect.Float64:
		return false
	}
	return true
}

// leadsToScanner reports whether database/sql would call a Scanner for this destination: itself, or
// one that is reached by pointers, which it makes.
func leadsToScanner(dest reflect.Value) bool {
	if !dest.IsValid() {
		return false
	}
	t := dest.Type()
	if t.Implements(scanner) {
		return true
	}
	if t.Kind() != reflect.Pointer || dest.IsNil() {
		return false
	}
	for t = t.Elem(); t.Kind() == reflect.Pointer; t = t.Elem() {
		if t.Implements(scanner) {
			return true
		}
	}
	return false
}

// give calls the Scanner, and makes the pointers that lead to it. NULL sets the first of those
// pointers to nil.
func (w *waiting) give() error {
	for at := reflect.ValueOf(w.dest); ; at = at.Elem() {
		if s, ok := reflect.TypeAssert[sql.Scanner](at); ok {
			return s.Scan(w.value)
		}
		if w.value == nil {
			at.Elem().SetZero()
			return nil
		}
		at.Elem().Set(reflect.New(at.Type().Elem().Elem()))
	}
}

// ErrNoRow is the error of reading a row before Next.
var ErrNoRow = fmt.Errorf("%w: there is no row to read: call Next first", engine.ErrInvalid)
