package db

import "selvedge/db/internal/engine"

// Checksum is the CRC-32C of the values of a row's columns, each with its type and, where it has one, its length, so that
// nothing can move from one column to the next unnoticed. The values are as they come out of a table: nil, int64, float64,
// string, []byte; a pointer counts as what it points at; an int, or a bool, counts as the integer that it is kept as. NULLs at the
// end don't count, so that a row stays right when its table gets another column. Which columns a table's checksums cover is said in
// migrations.Checksums.
func Checksum(values ...any) int64 { return engine.Checksum(values...) }
