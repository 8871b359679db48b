package lock

import (
	"os"

	"golang.org/x/sys/unix"
)

// A Gate asks the readers of all processes to leave a gap, in which the WAL can start again from
// its beginning: a writer that wants the gap keeps a byte locked, which each new read checks.
type Gate struct{ file *os.File }

// gateByte lies beyond the bytes that are locked for anything else.
const gateByte = 1 << 40

// OpenGate opens the file at path, which is only ever locked.
func OpenGate(path string) (*Gate, error) {
	file, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	return &Gate{file: file}, nil
}

// Shut asks for a gap. It is enough if another process already asks.
func (g *Gate) Shut() { _ = Byte(g.file, unix.F_WRLCK, gateByte) }

// Open takes it back.
func (g *Gate) Open() { _ = Byte(g.file, unix.F_UNLCK, gateByte) }

// IsShut reports whether another process asks for a gap.
func (g *Gate) IsShut() bool {
	shut, err := ByteHeld(g.file, gateByte)
	return shut && err == nil
}

// Close closes the file.
func (g *Gate) Close() error { return g.file.Close() }
