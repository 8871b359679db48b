package pages

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
)

// A WAL: sqlite.org/walformat.html.
const (
	walHeaderSize      = 32
	frameHeaderSize    = 24
	walMagic           = 0x377f0682 // the last bit is the byte order of its checksums
	frameSaltsAt       = 8
	frameChecksumAt    = 16
	walHeaderSaltsAt   = 16
	walHeaderSummedLen = 24
)

// A log is a WAL that is read frame by frame, as far as a recovery would believe it.
type log struct {
	pageSize int
	page     int    // number of the page in the frame
	pages    int    // of the database after the commit that the frame ends; 0 if it ends none
	content  []byte // of the page, until the next frame is read
	at       int64  // where the frame begins

	file   io.ReaderAt
	header [walHeaderSize]byte
	frame  []byte
	order  binary.ByteOrder
	sum    [2]uint32
}

// openLog is nil for a WAL in which a recovery finds nothing.
func openLog(file io.ReaderAt) *log {
	l := &log{file: file, order: binary.LittleEndian}
	if _, err := file.ReadAt(l.header[:], 0); err != nil {
		return nil
	}
	magic := binary.BigEndian.Uint32(l.header[:])
	if magic&1 == 1 {
		l.order = binary.BigEndian
	}
	l.sum = walSum(l.sum, l.header[:walHeaderSummedLen], l.order)
	l.pageSize = int(binary.BigEndian.Uint32(l.header[8:]))
	if magic&^1 != walMagic || !sums(l.header[walHeaderSummedLen:], l.sum) || l.pageSize < 512 ||
		l.pageSize > 1<<16 {
		return nil
	}
	l.frame = make([]byte, frameHeaderSize+l.pageSize)
	l.at = walHeaderSize - int64(len(l.frame))
	return l
}

// next reads a frame; false at the end, or for a torn frame, which is of no commit.
func (l *log) next() bool {
	l.at += int64(len(l.frame))
	if _, err := l.file.ReadAt(l.frame, l.at); err != nil {
		return false
	}
	if !bytes.Equal(l.frame[frameSaltsAt:frameSaltsAt+8], l.header[walHeaderSaltsAt:walHeaderSaltsAt+8]) {
		return false
	}
	l.content = l.frame[frameHeaderSize:]
	l.sum = walSum(walSum(l.sum, l.frame[:8], l.order), l.content, l.order)
	l.page, l.pages = int(binary.BigEndian.Uint32(l.frame)), int(binary.BigEndian.Uint32(l.frame[4:]))
	return sums(l.frame[frameChecksumAt:], l.sum)
}

func walSum(sum [2]uint32, data []byte, order binary.ByteOrder) [2]uint32 {
	for ; len(data) >= 8; data = data[8:] {
		sum[0] += order.Uint32(data) + sum[1]
		sum[1] += order.Uint32(data[4:]) + sum[0]
	}
	return sum
}

func sums(stored []byte, sum [2]uint32) bool {
	return binary.BigEndian.Uint32(stored) == sum[0] && binary.BigEndian.Uint32(stored[4:]) == sum[1]
}

// Foreign reports whether a WAL holds commits of another database than the one beside it, which
// is nil if there is none. Others may be working with both.
//
// The first commit in a WAL has page 1, with a number in its header, user_version, that was drawn
// for that WAL. The database gets the same number before the WAL can be read, so it has a number
// of the WAL's page 1, however much of the WAL was checkpointed into it. A copy from before has
// another number. A program that does not draw numbers leaves the number as it is, or increments
// it to settle a commit that failed. A WAL whose first commit lacks page 1 comes from such a
// program, and nothing shows to which database it belongs. Decision 0022.
func Foreign(database io.ReaderAt, wal io.ReaderAt) (bool, error) {
	for {
		header, err := headerOf(database)
		l := openLog(wal)
		if err != nil || l == nil || !l.foreignTo(header) {
			return false, err
		}
		after, err := headerOf(database)
		again := openLog(wal)
		if err != nil || again != nil && again.header == l.header && numberOf(after) == numberOf(header) {
			return err == nil, err
		}
		// A program that has both open has since restarted the WAL.
	}
}

// headerOf is nil without a database.
func headerOf(database io.ReaderAt) ([]byte, error) {
	if database == nil {
		return nil, nil
	}
	header := make([]byte, headerSize)
	_, err := database.ReadAt(header, 0)
	return header, err
}

// numberOf is the user_version in a header, and -1 without one.
func numberOf(header []byte) int64 {
	if header == nil {
		return -1
	}
	return int64(binary.BigEndian.Uint32(header[numberAt:]))
}

// foreignTo is Foreign for a database with a header.
func (l *log) foreignTo(header []byte) bool {
	number := numberOf(header)
	// A database leaves WAL mode without a WAL, and keeps the size of its pages in it.
	never := header == nil || header[modeAt] != walMode ||
		pageSize(binary.BigEndian.Uint16(header[pageSizeAt:])) != l.pageSize
	commits, numbered := 0, false
	for l.next() {
		if l.page == 1 && !never {
			n := numberOf(l.content)
			if n == number || commits == 0 && n == (number+1)&math.MaxInt32 { // settled
				return false
			}
			numbered = true
		}
		if l.pages > 0 {
			commits++
			if never || !numbered {
				return never
			}
		}
	}
	return commits > 0
}
