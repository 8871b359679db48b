package runs

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"

	"selvedge/internal/tree"
)

const (
	// pieceBytes is how many bytes of a file are read and decoded at once, at most; a longer line
	// is a piece of its own.
	pieceBytes = 512 << 10
	// maxLine is the longest line that is imported, in bytes. SQLite holds values of a billion
	// bytes.
	maxLine = 512 << 20
)

// A record is a line of a source file.
type record struct {
	offset int64
	parsedLine
}

// A piece is a series of whole lines of a file.
type piece struct {
	from, to int64 // the bytes it covers
	sum      []byte
	records  []record
	raw      []byte // the bytes, line feeds included
	openLine bool   // the last record is complete without a line feed
	tail     []byte // a torn last line at the end of the file; not covered
	last     bool   // the file ends here
}

// lineReader splits a file into pieces. What is appended to the file after it was opened is left
// for the next import.
type lineReader struct {
	f      *os.File
	size   int64
	step   int // bytes of a piece
	pos    int64
	hash   hash.Hash // of everything before pos
	ahead  *piece    // the first piece, once first has read it
	after  hash.Hash // of ahead
	decode func(text []byte) parsedLine
}

func readerOf(f *os.File, size int64, step int) *lineReader {
	return &lineReader{f: f, size: size, step: step, hash: sha256.New(), decode: readLine}
}

// errLineTooLong ends the reading of a file.
var errLineTooLong = errors.New("a line is too long")

// skip reads the first n bytes and returns their hash. The next piece begins after them.
func (r *lineReader) skip(n int64) ([]byte, error) {
	r.hash = sha256.New()
	if _, err := io.Copy(r.hash, io.NewSectionReader(r.f, 0, n)); err != nil {
		return nil, err
	}
	r.pos, r.ahead = n, nil
	return r.hash.Sum(nil), nil
}

// rewind returns to the beginning of the file.
func (r *lineReader) rewind() { r.pos, r.hash = 0, sha256.New() }

// first returns the first piece and rewinds. The piece is kept for the call of next that reads it
// again.
func (r *lineReader) first() (*piece, error) {
	r.rewind()
	if r.ahead == nil {
		p, err := r.next()
		if err != nil {
			return nil, err
		}
		r.ahead, r.after = p, r.hash
		r.rewind()
	}
	return r.ahead, nil
}

// closeLine reads the line feed that the last consumed line lacked. It returns false if another
// byte is there, which means that the file has changed.
func (r *lineReader) closeLine() (bool, error) {
	var b [1]byte
	if _, err := r.f.ReadAt(b[:], r.pos); err != nil {
		return false, err
	}
	if b[0] != '\n' {
		return false, nil
	}
	r.hash.Write(b[:])
	r.pos++
	return true, nil
}

// rest reports whether the remaining bytes equal want, but for what was erased from want.
func (r *lineReader) rest(want []byte) (bool, error) {
	if r.size-r.pos != int64(len(want)) {
		return false, nil
	}
	have := make([]byte, len(want))
	if _, err := r.f.ReadAt(have, r.pos); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return tree.IsErased(want, have), nil
}

// next returns the next piece. An empty file has one piece, without records.
func (r *lineReader) next() (*piece, error) {
	if p := r.ahead; p != nil && r.pos == p.from {
		r.pos, r.hash, r.ahead = p.to, r.after, nil
		return p, nil
	}
	buf, err := r.read(int(min(r.size-r.pos, int64(r.step))))
	if err != nil {
		return nil, err
	}
	end := bytes.LastIndexByte(buf, '\n') + 1
	if atEnd := r.pos+int64(len(buf)) == r.size; end == 0 && !atEnd {
		if buf, err = r.longLine(len(buf)); err != nil {
			return nil, err
		}
		end = bytes.LastIndexByte(buf, '\n') + 1
	}
	p := &piece{from: r.pos, last: r.pos+int64(len(buf)) == r.size}
	if p.last && end < len(buf) {
		if final := r.decode(buf[end:]); final.record != nil { // complete, not torn
			p.openLine = true
			end = len(buf)
		} else {
			p.tail = buf[end:]
		}
	}
	p.raw = buf[:end:end]
	p.to = r.pos + int64(end)
	p.last = p.to+int64(len(p.tail)) == r.size
	p.records = make([]record, 0, bytes.Count(p.raw, newline)+1)
	for offset := r.pos; offset < p.to; {
		line, _, _ := bytes.Cut(buf[offset-r.pos:end], newline)
		p.records = append(p.records, record{offset, r.decode(slices.Clip(line))})
		offset += int64(len(line)) + 1
	}
	r.hash.Write(p.raw)
	p.sum = r.hash.Sum(nil)
	r.pos = p.to
	return p, nil
}

var newline = []byte{'\n'}

// read reads n bytes from the current position. If the file has become shorter, it ends where it
// now ends.
func (r *lineReader) read(n int) ([]byte, error) {
	buf := make([]byte, n)
	got, err := r.f.ReadAt(buf, r.pos)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if got < n {
		r.size = r.pos + int64(got)
	}
	return buf[:got], err
}

// longLine reads a line that is longer than n bytes. It finds the end first, so that the line is in
// memory only once.
func (r *lineReader) longLine(n int) ([]byte, error) {
	length := int64(n)
	in := bufio.NewReaderSize(io.NewSectionReader(r.f, r.pos+length, r.size-r.pos-length), pieceBytes)
	for {
		part, err := in.ReadSlice('\n')
		length += int64(len(part))
		switch {
		case length > maxLine:
			return nil, fmt.Errorf("%w: the one at byte %d has more than %d MiB", errLineTooLong, r.pos, maxLine>>20)
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		default:
			return r.read(int(length))
		}
	}
}
