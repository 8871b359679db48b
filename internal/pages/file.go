package pages

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
)

// A File is a database and the commits in its WAL.
type File struct {
	PageSize int
	Count    int // pages

	file    *os.File
	wal     *os.File
	usable  int           // bytes of a page that SQLite uses
	inWAL   map[int]int64 // offset of the page's newest committed frame
	vacuums bool          // it has pointer map pages
}

const (
	headerSize      = 100
	defaultPageSize = 4096
	largestRootAt   = 52
	pageSizeAt      = 16
	modeAt          = 18
	walMode         = 2
	reservedAt      = 20
	firstFreeAt     = 32
	freeCountAt     = 36
	numberAt        = 60
	pendingByte     = 0x40000000
)

// Open opens the file at path for reading. Nothing may write it while it is open.
func Open(path string) (_ *File, err error) {
	f := &File{PageSize: defaultPageSize, inWAL: map[int]int64{}}
	if f.file, err = os.Open(path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	info, err := f.file.Stat()
	if err != nil {
		return nil, err
	}
	header := make([]byte, headerSize)
	if _, err := f.file.ReadAt(header, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if size := pageSize(binary.BigEndian.Uint16(header[pageSizeAt:])); size > 0 {
		f.PageSize = size
	}
	if f.wal, err = os.Open(path + "-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f.Count = int(info.Size()) / f.PageSize
	if err := f.readWAL(); err != nil {
		return nil, err
	}
	if first, err := f.page(1); err == nil {
		copy(header, first)
	}
	f.usable = f.PageSize
	if r := int(header[reservedAt]); r <= f.PageSize/4 &&
		pageSize(binary.BigEndian.Uint16(header[pageSizeAt:])) > 0 {
		f.usable -= r
	}
	f.vacuums = binary.BigEndian.Uint32(header[largestRootAt:]) != 0 ||
		pageSize(binary.BigEndian.Uint16(header[pageSizeAt:])) == 0
	return f, nil
}

// Close closes the files.
func (f *File) Close() error {
	err := f.file.Close()
	if f.wal != nil {
		err = errors.Join(err, f.wal.Close())
	}
	return err
}

func pageSize(stored uint16) int {
	switch {
	case stored == 1:
		return 65536
	case stored >= 512 && stored&(stored-1) == 0:
		return int(stored)
	}
	return 0
}

// readWAL finds the newest frame of each page up to the last commit, as a recovery would.
func (f *File) readWAL() error {
	if f.wal == nil {
		return nil
	}
	l := openLog(f.wal)
	if l == nil || l.pageSize != f.PageSize { // it holds nothing, or is of another file
		return nil
	}
	open := map[int]int64{} // of the transaction under way
	for l.next() {
		open[l.page] = l.at + frameHeaderSize
		if l.pages > 0 {
			maps.Copy(f.inWAL, open)
			clear(open)
			f.Count = l.pages
		}
	}
	return nil
}

var errDamaged = errors.New("the page can't be read as what it should be")

// page reads a page.
func (f *File) page(n int) ([]byte, error) {
	if n < 1 || n > f.Count {
		return nil, errDamaged
	}
	content := make([]byte, f.PageSize)
	if offset, ok := f.inWAL[n]; ok {
		_, err := f.wal.ReadAt(content, offset)
		return content, err
	}
	if _, err := f.file.ReadAt(content, int64(n-1)*int64(f.PageSize)); err != nil {
		return nil, err
	}
	return content, nil
}

// Free are the pages that are in no use: what lies on them was deleted.
func (f *File) Free() map[int]bool {
	free := map[int]bool{}
	first, err := f.page(1)
	if err != nil {
		return free
	}
	for trunk := int(binary.BigEndian.Uint32(first[firstFreeAt:])); trunk > 0 && !free[trunk]; {
		page, err := f.page(trunk)
		if err != nil {
			break
		}
		free[trunk] = true
		leaves := min(int(binary.BigEndian.Uint32(page[4:])), f.usable/4-2)
		for i := range leaves {
			if leaf := int(binary.BigEndian.Uint32(page[8+4*i:])); leaf > 1 && leaf <= f.Count {
				free[leaf] = true
			}
		}
		trunk = int(binary.BigEndian.Uint32(page))
	}
	if len(free) == int(binary.BigEndian.Uint32(first[freeCountAt:])) {
		return free
	}
	for n := 2; n <= f.Count; n++ { // the list is broken; the pointer map records it too
		if kind, _ := f.pointer(n); kind == pointsFree {
			free[n] = true
		}
	}
	return free
}

// The kinds of entries of a pointer map.
const (
	pointsRoot      = 1
	pointsFree      = 2
	pointsOverflow  = 3 // the first overflow page of a row; its parent is the row's page
	pointsOverflow2 = 4 // another one; its parent is the one before it
	pointsBTree     = 5
)

// mapOf returns the page of the pointer map that has the entry of a page.
func (f *File) mapOf(n int) int {
	group := f.usable/5 + 1
	at := (n-2)/group*group + 2
	if at == f.pending() {
		at++
	}
	return at
}

// pending is the page with the bytes that SQLite locks, on which it keeps nothing.
func (f *File) pending() int { return pendingByte/f.PageSize + 1 }

// Reserved reports whether a page holds nothing of any tree: it is of the pointer map, or never used.
func (f *File) Reserved(n int) bool { return n == f.pending() || f.vacuums && n > 1 && f.mapOf(n) == n }

// pointer returns the pointer map's entry for a page: its kind, and its parent if it is in a
// tree.
func (f *File) pointer(n int) (kind, parent int) {
	if !f.vacuums || n < 3 {
		return 0, 0
	}
	at := f.mapOf(n)
	if n <= at {
		return 0, 0
	}
	page, err := f.page(at)
	offset := 5 * (n - at - 1)
	if err != nil || offset+5 > f.usable {
		return 0, 0
	}
	return int(page[offset]), int(binary.BigEndian.Uint32(page[offset+1:]))
}

// Root returns the root of the tree that a page belongs to, by the pointer map; 0 if it is
// unknown.
func (f *File) Root(n int) int {
	for range 64 { // no tree is that deep
		switch kind, parent := f.pointer(n); kind {
		case pointsRoot:
			return n
		case pointsBTree:
			n = parent
		default:
			return 0
		}
	}
	return 0
}

// Owner is Root, of an overflow page too.
func (f *File) Owner(n int) int {
	for range f.Count {
		kind, parent := f.pointer(n)
		if kind != pointsOverflow && kind != pointsOverflow2 {
			break
		}
		n = parent
	}
	return f.Root(n)
}

// IsRoot reports whether a page is the root of a tree by the pointer map.
func (f *File) IsRoot(n int) bool {
	kind, _ := f.pointer(n)
	return kind == pointsRoot
}
