package db

import "errors"

// fileWrites has no counterpart on macOS: kqueue wants a descriptor of the file, whose closing would drop SQLite's locks.
type fileWrites struct{ seen chan struct{} }

func fileWritten(string) (*fileWrites, error) { return nil, errors.ErrUnsupported }

func (f *fileWrites) close() error { return nil }
