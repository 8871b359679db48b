package lock

// Holders returns nil: macOS does not list the holders of locks.
func Holders(string) []int { return nil }

// WALWriters returns nil: macOS does not list the holders of locks.
func WALWriters(string) []int { return nil }

// Readers returns nil: macOS does not list the holders of locks.
func Readers(string) []int { return nil }
