package machine

import "errors"

// A Place has no counterpart on macOS: kqueue wants a descriptor of the file, whose closing would
// drop SQLite's locks.
type Place struct{}

func watchPlace(string) (*Place, error) { return nil, errors.ErrUnsupported }

// Changed says that it can't tell.
func (p *Place) Changed() bool { return true }

// Close does nothing.
func (p *Place) Close() error { return nil }
