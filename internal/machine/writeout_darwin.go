package machine

// WriteOut has no counterpart on macOS.
func WriteOut(int, int64, int64) {}
