package lock

// Holders can't be told on macOS.
func Holders(string) []int { return nil }

// WALWriters can't be told on macOS.
func WALWriters(string) []int { return nil }

// Readers can't be told on macOS.
func Readers(string) []int { return nil }
