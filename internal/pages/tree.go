package pages

import (
	"encoding/binary"
	"math"
	"slices"
)

// The kinds of pages of trees.
const (
	interiorIndex = 0x02
	interiorTable = 0x05
	leafIndex     = 0x0a
	leafTable     = 0x0d
)

// A Row is a cell of a tree that holds a row. Rowid counts in a table only.
type Row struct {
	Rowid  int64
	Values []any // nil, int64, float64, string or []byte
}

// A Page is what could be read of a page of a tree.
type Page struct {
	Number   int
	Table    bool // of a table, and not of an index or a table without rowid
	Leaf     bool
	Children []int
	Keys     []int64 // of a table's inner page: the largest rowid below each child but the last
	Rows     []Row
	Overflow []int // pages on which the content of rows continues
	Lost     int   // cells that could not be read
	// Sound: cells, free blocks and fragments fill the page as SQLite leaves it, so that it holds no
	// cell that was not read.
	Sound bool
}

// Read reads a page of a tree; false if the page is not one, or too damaged to be one.
func (f *File) Read(n int) (Page, bool) {
	p := Page{Number: n}
	content, err := f.page(n)
	if err != nil {
		return p, false
	}
	h := 0
	if n == 1 {
		h = headerSize
	}
	kind := content[h]
	p.Table = kind == leafTable || kind == interiorTable
	p.Leaf = kind == leafTable || kind == leafIndex
	if !p.Table && kind != leafIndex && kind != interiorIndex {
		return p, false
	}
	cells := int(binary.BigEndian.Uint16(content[h+3:]))
	pointers := h + 8
	if !p.Leaf {
		pointers += 4
	}
	if pointers+2*cells > f.usable {
		return p, false
	}
	var used []extent
	for i := range cells {
		at := int(binary.BigEndian.Uint16(content[pointers+2*i:]))
		if at < pointers+2*cells || at+4 > f.usable {
			p.Lost++
			continue
		}
		length, ok := f.cell(&p, content[at:f.usable])
		if !ok {
			p.Lost++
		}
		used = append(used, extent{at, at + length})
	}
	if !p.Leaf {
		p.Children = append(p.Children, int(binary.BigEndian.Uint32(content[h+8:])))
	}
	p.Sound = f.filled(content, h, pointers+2*cells, used)
	return p, true
}

// An extent is a part of a page.
type extent struct{ from, to int }

// filled does the sum of SQLite's integrity check: bytes that belong to no cell and no free block
// are fragments.
func (f *File) filled(content []byte, header, pointersEnd int, used []extent) bool {
	const freeBlockSize = 4
	start := int(binary.BigEndian.Uint16(content[header+5:]))
	if start == 0 {
		start = 65536
	}
	for at := int(binary.BigEndian.Uint16(content[header+1:])); at != 0; {
		if at+freeBlockSize > f.usable || len(used) > f.usable {
			return false
		}
		used = append(used, extent{at, at + int(binary.BigEndian.Uint16(content[at+2:]))})
		at = int(binary.BigEndian.Uint16(content[at:]))
	}
	slices.SortFunc(used, func(a, b extent) int { return a.from - b.from })
	fragments, end := 0, start
	for _, e := range used {
		if e.from < end || e.to > f.usable {
			return false
		}
		fragments, end = fragments+e.from-end, e.to
	}
	return start >= pointersEnd && end <= f.usable && fragments+f.usable-end == int(content[header+7])
}

// cell reads a cell into the page, and returns the bytes that it occupies there.
func (f *File) cell(p *Page, cell []byte) (length int, ok bool) {
	const least = 4 // the least bytes of a cell, so that it can become a free block
	if !p.Leaf {
		p.Children = append(p.Children, int(binary.BigEndian.Uint32(cell)))
		length = 4
		if p.Table {
			key, n := varint(cell[length:])
			p.Keys = append(p.Keys, int64(key)) //nolint:gosec // its two's complement, as SQLite keeps it
			return length + n, n > 0
		}
	}
	row, n, overflow, ok := f.row(cell[length:], p.Table)
	if ok {
		p.Rows, p.Overflow = append(p.Rows, row), append(p.Overflow, overflow...)
	}
	return max(length+n, least), ok
}

// row reads a cell from its payload's length on. It takes length bytes of its page.
func (f *File) row(cell []byte, table bool) (r Row, length int, overflow []int, ok bool) {
	size, n := varint(cell)
	if n == 0 || size > uint64(f.Count)*uint64(f.PageSize) {
		return r, 0, nil, false
	}
	length = n
	most := f.usable - 35
	if table {
		rowid, n := varint(cell[length:])
		if n == 0 {
			return r, 0, nil, false
		}
		r.Rowid = int64(rowid) //nolint:gosec // its two's complement, as SQLite keeps it
		length += n
	} else {
		most = (f.usable-12)*64/255 - 23
	}
	payload, local, overflow, ok := f.payload(cell[length:], int(size), most) //nolint:gosec // bounded above
	if ok {
		r.Values, ok = record(payload)
	}
	return r, length + local, overflow, ok
}

// payload puts together what of a cell's content lies in it, which is length bytes long, and what
// on overflow pages.
func (f *File) payload(cell []byte, size, most int) (content []byte, length int, overflow []int, ok bool) {
	if size <= most {
		if size > len(cell) {
			return nil, 0, nil, false
		}
		return cell[:size], size, nil, true
	}
	least := (f.usable-12)*32/255 - 23
	local := least + (size-least)%(f.usable-4)
	if local > most {
		local = least
	}
	if local+4 > len(cell) {
		return nil, 0, nil, false
	}
	content = append(content, cell[:local]...)
	next := int(binary.BigEndian.Uint32(cell[local:]))
	for len(content) < size {
		page, err := f.page(next)
		if err != nil {
			return nil, local + 4, nil, false
		}
		overflow = append(overflow, next)
		content = append(content, page[4:4+min(f.usable-4, size-len(content))]...)
		next = int(binary.BigEndian.Uint32(page))
	}
	return content, local + 4, overflow, next == 0
}

// varint is SQLite's: up to nine bytes, big end first.
func varint(b []byte) (v uint64, n int) {
	for i := range min(9, len(b)) {
		if i == 8 {
			return v<<8 | uint64(b[i]), 9
		}
		v = v<<7 | uint64(b[i]&0x7f)
		if b[i] < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

// record decodes the values of a row.
func record(payload []byte) (values []any, ok bool) {
	size, n := varint(payload)
	if n == 0 || size > uint64(len(payload)) || size < uint64(n) {
		return nil, false
	}
	header, body := payload[n:size], payload[size:]
	for len(header) > 0 {
		kind, n := varint(header)
		if n == 0 {
			return nil, false
		}
		header = header[n:]
		length := width(kind)
		if length < 0 || length > len(body) {
			return nil, false
		}
		v, ok := value(kind, body[:length])
		if !ok {
			return nil, false
		}
		values, body = append(values, v), body[length:]
	}
	return values, len(body) == 0
}

// width is how many bytes a value of a serial type takes; below 0 for an unknown type.
func width(kind uint64) int {
	switch {
	case kind <= 4:
		return int(kind) //nolint:gosec // at most 4
	case kind == 5:
		return 6
	case kind == 6, kind == 7:
		return 8
	case kind == 8, kind == 9:
		return 0
	case kind >= 12 && kind < 1<<32:
		return int(kind-12) / 2 //nolint:gosec // bounded
	}
	return -1
}

func value(kind uint64, b []byte) (any, bool) {
	switch {
	case kind == 0:
		return nil, true
	case kind <= 6:
		n := int64(int8(b[0])) //nolint:gosec // the sign is its first bit
		for _, c := range b[1:] {
			n = n<<8 | int64(c)
		}
		return n, true
	case kind == 7:
		return math.Float64frombits(binary.BigEndian.Uint64(b)), true
	case kind == 8, kind == 9:
		return int64(kind - 8), true //nolint:gosec // 0 or 1
	case kind%2 == 0:
		return append([]byte{}, b...), true
	}
	return string(b), true
}
