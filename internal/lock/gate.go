package lock

import (
	"os"

	"golang.org/x/sys/unix"
)

// A Gate asks the readers of all processes to leave a gap, in which the WAL can start again from
// its beginning: a writer that wants the gap keeps a byte locked, which each new read checks. The file
// also holds what writers note for the observers of other processes.
type Gate struct{ file *os.File }

// gateByte lies beyond the bytes that are locked for anything else.
const gateByte = 1 << 40

// OpenGate opens the file at path.
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

// listenByte is locked by those who read what the writers of other processes note in the file. It lies
// beside aloneByte.
const listenByte = gateByte + 2

// Listen asks the writers of other processes to note their commits, until Unlisten.
func (g *Gate) Listen() { _ = Byte(g.file, unix.F_RDLCK, listenByte) }

// Unlisten takes it back.
func (g *Gate) Unlisten() { _ = Byte(g.file, unix.F_UNLCK, listenByte) }

// IsHeard reports whether another process listens.
func (g *Gate) IsHeard() bool {
	heard, err := ByteHeld(g.file, listenByte)
	return heard && err == nil
}

// ReadAt reads what a writer noted.
func (g *Gate) ReadAt(b []byte, at int64) (int, error) { return g.file.ReadAt(b, at) }

// WriteAt notes something.
func (g *Gate) WriteAt(b []byte, at int64) (int, error) { return g.file.WriteAt(b, at) }

// Close closes the file.
func (g *Gate) Close() error { return g.file.Close() }
