package pages

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
)

// A frameSpec is a frame to be: a page, its number where it is the first, and whether a commit ends with it.
type frameSpec struct {
	page   int
	number uint32
	ends   bool
}

// makeWAL makes a WAL of pages of size bytes.
func makeWAL(size int, frames ...frameSpec) []byte {
	order := binary.LittleEndian
	header := make([]byte, walHeaderSize)
	binary.BigEndian.PutUint32(header, walMagic)
	binary.BigEndian.PutUint32(header[4:], 3007000)
	binary.BigEndian.PutUint32(header[8:], uint32(size))
	copy(header[walHeaderSaltsAt:], "saltsalt")
	put := func(at []byte, sum [2]uint32) {
		binary.BigEndian.PutUint32(at, sum[0])
		binary.BigEndian.PutUint32(at[4:], sum[1])
	}
	sum := walSum([2]uint32{}, header[:walHeaderSummedLen], order)
	put(header[walHeaderSummedLen:], sum)
	wal := header
	for _, f := range frames {
		frame := make([]byte, frameHeaderSize+size)
		binary.BigEndian.PutUint32(frame, uint32(f.page))
		if f.ends {
			binary.BigEndian.PutUint32(frame[4:], 9)
		}
		copy(frame[frameSaltsAt:], "saltsalt")
		binary.BigEndian.PutUint32(frame[frameHeaderSize+numberAt:], f.number)
		sum = walSum(walSum(sum, frame[:8], order), frame[frameHeaderSize:], order)
		put(frame[frameChecksumAt:], sum)
		wal = append(wal, frame...)
	}
	return wal
}

// makeHeader makes the header of a database in WAL mode.
func makeHeader(number uint32) []byte {
	header := make([]byte, headerSize)
	binary.BigEndian.PutUint16(header[pageSizeAt:], 4096)
	header[modeAt] = walMode
	binary.BigEndian.PutUint32(header[numberAt:], number)
	return header
}

func TestForeign(t *testing.T) {
	rollback := makeHeader(7)
	rollback[modeAt] = 1
	commit := makeWAL(4096, frameSpec{1, 7, false}, frameSpec{5, 0, true})
	unnumbered := makeWAL(4096, frameSpec{5, 0, true}, frameSpec{1, 8, true})
	for name, c := range map[string]struct {
		header, wal []byte
		want        bool
	}{
		"nothing":              {makeHeader(7), nil, false},
		"a header":             {makeHeader(8), makeWAL(4096), false},
		"half of a commit":     {makeHeader(8), makeWAL(4096, frameSpec{1, 7, false}), false},
		"a torn commit":        {makeHeader(8), commit[:len(commit)-1], false},
		"its own":              {makeHeader(7), commit, false},
		"another's":            {makeHeader(8), commit, true},
		"another's, with more": {makeHeader(8), append(bytes.Clone(commit), 1, 2, 3), true},
		"page 1 comes last": {
			makeHeader(8),
			makeWAL(4096, frameSpec{5, 0, false}, frameSpec{1, 7, true}), true,
		},
		"moved up to a later number": {
			makeHeader(8),
			makeWAL(4096, frameSpec{1, 7, true}, frameSpec{5, 0, true}, frameSpec{1, 8, true}), false,
		},
		"settled by counting up": {makeHeader(6), makeWAL(4096, frameSpec{1, 7, true}), false},
		"counted up later": {
			makeHeader(7),
			makeWAL(4096, frameSpec{1, 7, true}, frameSpec{1, 8, true}), false,
		},
		"below what was counted up": {
			makeHeader(7),
			makeWAL(4096, frameSpec{1, 3, true}, frameSpec{1, 8, true}), true,
		},
		"counted up beyond the largest": {makeHeader(0x7fffffff), makeWAL(4096, frameSpec{1, 0, true}), false},
		"without a number":              {makeHeader(7), unnumbered, false},
		"a file in no WAL mode":         {rollback, commit, true},
		"a file in no WAL mode, old":    {rollback, unnumbered, true},
		"pages of another size":         {makeHeader(7), makeWAL(1024, frameSpec{1, 7, true}), true},
		"no file":                       {nil, unnumbered, true},
		"no file, and no commit":        {nil, makeWAL(4096, frameSpec{1, 7, false}), false},
	} {
		var database io.ReaderAt
		if c.header != nil {
			database = bytes.NewReader(c.header)
		}
		if got, err := Foreign(database, bytes.NewReader(c.wal)); err != nil || got != c.want {
			t.Errorf("%s: %v (%v)", name, got, err)
		}
	}
}

// A changing is a file that is another at each look.
type changing [][]byte

func (c *changing) ReadAt(p []byte, off int64) (int, error) {
	now := (*c)[0]
	if len(*c) > 1 {
		*c = (*c)[1:]
	}
	return bytes.NewReader(now).ReadAt(p, off)
}

func TestForeign_LooksAgainAtALiveFile(t *testing.T) {
	wal := makeWAL(4096, frameSpec{1, 8, true})
	database := changing{makeHeader(7), makeHeader(8)} // it was begun anew behind the first look
	if got, err := Foreign(&database, bytes.NewReader(wal)); err != nil || got {
		t.Errorf("%v (%v)", got, err)
	}
	database = changing{makeHeader(6), makeHeader(6), makeHeader(7)}
	if got, err := Foreign(&database, bytes.NewReader(wal)); err != nil || !got {
		t.Errorf("%v (%v)", got, err)
	}
}
