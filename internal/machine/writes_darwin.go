package machine

import "errors"

// Writes has no counterpart on macOS: kqueue wants a descriptor of the file, whose closing would
// drop SQLite's locks.
type Writes struct{ Seen chan struct{} }

func watchWrites(string) (*Writes, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (f *Writes) Close() error { return nil }
