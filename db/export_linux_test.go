package db

import (
	"testing"

	"selvedge/internal/machine"
)

// PretendFilesystem makes every path lie on a file system with this f_type for the length of a test.
func PretendFilesystem(t *testing.T, kind int64) {
	real := machine.StatfsType
	machine.StatfsType = func(string) (int64, error) { return kind, nil }
	t.Cleanup(func() { machine.StatfsType = real })
}
