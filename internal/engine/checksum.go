package engine

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"sync"
	"unsafe"
)

// checksumSpace holds buffers for rows, so that a checksum costs no allocation.
var checksumSpace = sync.Pool{New: func() any { return new([256]byte) }}

// Checksum is documented at db.Checksum.
func Checksum(values ...any) int64 {
	table := crc32.MakeTable(crc32.Castagnoli) // made once, at the first call
	var sum uint32
	var nulls int // trailing NULLs, which count only if a value follows
	space := checksumSpace.Get().(*[256]byte)
	defer checksumSpace.Put(space)
	buf := space[:0]
	put := func(kind byte, n uint64) {
		if len(buf)+9 > cap(buf) {
			sum = crc32.Update(sum, table, buf)
			buf = buf[:0]
		}
		buf = binary.LittleEndian.AppendUint64(append(buf, kind), n)
	}
	number := func(kind byte, n uint64) {
		for ; nulls > 0; nulls-- {
			put('0', 0)
		}
		put(kind, n)
	}
	bytes := func(kind byte, b []byte) {
		number(kind, uint64(len(b)))
		if len(buf)+len(b) <= cap(buf) {
			buf = append(buf, b...)
			return
		}
		sum = crc32.Update(crc32.Update(sum, table, buf), table, b)
		buf = buf[:0]
	}
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			nulls++
		case int64:
			number('i', uint64(v))
		case int:
			number('i', uint64(v))
		case *int64:
			if v == nil {
				nulls++
			} else {
				number('i', uint64(*v))
			}
		case *string:
			if v == nil {
				nulls++
			} else {
				bytes('t', unsafe.Slice(unsafe.StringData(*v), len(*v)))
			}
		case *uint32:
			if v == nil {
				nulls++
			} else {
				number('i', uint64(*v))
			}
		case *float64:
			if v == nil {
				nulls++
			} else {
				number('f', math.Float64bits(*v))
			}
		case bool:
			n := uint64(0)
			if v {
				n = 1
			}
			number('i', n)
		case float64:
			number('f', math.Float64bits(v))
		case string:
			bytes('t', unsafe.Slice(unsafe.StringData(v), len(v)))
		case []byte:
			bytes('b', v)
		default:
			bytes('?', fmt.Append(nil, v)) // no column holds such a value, so no stored checksum equals this one
		}
	}
	return int64(crc32.Update(sum, table, buf))
}
