package postgres

import (
	"context"
	"encoding/binary"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Rows that are queued one by one go to the server as one statement, with an array for each
// column: the server then plans and runs one insert instead of many.

// fewestFolded is how many inserts of one text must follow one another before they are folded:
// the statement for many has to be prepared once for each connection.
const fewestFolded = 8

// A plainInsert inserts one row of given values, as rebind writes it. A computed value might
// depend on the row before it.
var plainInsert = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^\s*(INSERT INTO \S+ \([^()]*\))\s+VALUES \((\$\d+(?:,\s*(?:\$\d+|\d+))*)\)\s*$`)
})

var parameter = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$(\d+)`)
})

// arrays are the array types whose elements are encoded as encode does single values.
var arrays = map[uint32]string{
	oidBytea: "bytea[]", oidInt8: "bigint[]", oidInt4: "integer[]", oidInt2: "smallint[]",
	oidFloat8: "double precision[]", oidText: "text[]",
}

// folded returns the statement that inserts many rows for one that inserts one row; "" if there
// is none.
func folded(text string, params []uint32) string {
	parts := plainInsert().FindStringSubmatch(text)
	if parts == nil {
		return ""
	}
	var all, names []string
	for i, oid := range params {
		if arrays[oid] == "" {
			return ""
		}
		all = append(all, "$"+strconv.Itoa(i+1)+"::"+arrays[oid])
		names = append(names, "p"+strconv.Itoa(i+1))
	}
	return parts[1] + " SELECT " + parameter().ReplaceAllString(parts[2], "u.p$1") +
		" FROM unnest(" + strings.Join(all, ", ") + ") AS u (" + strings.Join(names, ", ") + ")"
}

// fold joins a statement with those of the same text right before it; ok is false if it has to go
// alone.
func (w *wire) fold(ctx context.Context, b *bound) (ok bool, err error) {
	if !b.foldable() {
		return false, nil
	}
	if last := len(w.ahead) - 1; last >= 0 && w.ahead[last].of == b.prepared {
		w.ahead[last].addRow(b)
		return true, nil
	}
	if len(w.ahead)-w.sameFrom(b) < fewestFolded-1 {
		return false, nil
	}
	many := bound{of: b.prepared}
	if many.prepared, err = w.statement(ctx, b.many); err != nil {
		return false, err
	}
	from := w.sameFrom(b) // some may have been sent to prepare it
	for i := from; i < len(w.ahead); i++ {
		many.addRow(&w.ahead[i])
	}
	many.addRow(b)
	w.ahead = append(w.ahead[:from], many)
	return true, nil
}

// sameFrom is the index in w.ahead from which all statements have the text of b.
func (w *wire) sameFrom(b *bound) int {
	from := len(w.ahead)
	for from > 0 && w.ahead[from-1].prepared == b.prepared && w.ahead[from-1].foldable() {
		from--
	}
	return from
}

// foldable reports whether the values are encoded as the elements of an array are.
func (b *bound) foldable() bool {
	if b.prepared == nil || b.many == "" || b.question != "" {
		return false
	}
	for i, value := range b.values {
		if value != nil && b.formats[i] != binaryFormat && b.ParamOIDs[i] != oidText {
			return false
		}
	}
	return true
}

// The size of the head of an array on the wire, and the offset of the count in it
// (src/backend/utils/adt/arrayfuncs.c): the number of dimensions, whether there may be NULLs, the
// elements' type, the number of elements, and the index of the first.
const arrayHead, arrayCount = 20, 12

// addRow appends a row.
func (b *bound) addRow(row *bound) {
	if b.values == nil {
		b.values, b.formats = make([][]byte, len(row.values)), make([]int16, len(row.values))
		for i, oid := range row.ParamOIDs {
			head := make([]byte, 0, arrayHead+fewestFolded*(4+len(row.values[i])))
			for _, n := range []uint32{1, 1, oid, 0, 1} {
				head = binary.BigEndian.AppendUint32(head, n)
			}
			b.values[i], b.formats[i] = head, binaryFormat
		}
	}
	for i, value := range row.values {
		size := uint32(len(value))
		if value == nil {
			size = 1<<32 - 1
		}
		b.values[i] = append(binary.BigEndian.AppendUint32(b.values[i], size), value...)
		count := b.values[i][arrayCount:]
		binary.BigEndian.PutUint32(count, binary.BigEndian.Uint32(count)+1)
	}
}
