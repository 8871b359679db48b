package machine

import "os"

// Allocate makes the disk hold so many bytes for file.
func Allocate(file *os.File, bytes int64) error { return fill(file, bytes) }
