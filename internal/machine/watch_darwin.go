package machine

import "errors"

// Watches have no counterpart on macOS: kqueue wants a descriptor of the file, whose closing would
// drop SQLite's locks.
type (
	// A Place is where a file lies.
	Place struct{}
	// Writes reports writes to a file.
	Writes struct{ Seen chan struct{} }
)

func watchPlace(string) (*Place, error)   { return nil, errors.ErrUnsupported }
func watchWrites(string) (*Writes, error) { return nil, errors.ErrUnsupported }

// Changed reports that something may have changed.
func (*Place) Changed() bool { return true }

// Close does nothing.
func (*Place) Close() error { return nil }

// Close does nothing.
func (*Writes) Close() error { return nil }
