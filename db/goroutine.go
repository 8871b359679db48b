package db

import (
	"bytes"
	"runtime"
	"strconv"
)

// goroutineID is the number in the first line of a stack trace, "goroutine 17 [running]:". Go offers no other way to
// it, and it costs about 2 µs: ask only where a callback is known to be running.
func goroutineID() uint64 {
	var buf [64]byte
	line := buf[:runtime.Stack(buf[:], false)]
	line = bytes.TrimPrefix(line, []byte("goroutine "))
	if i := bytes.IndexByte(line, ' '); i > 0 {
		line = line[:i]
	}
	id, err := strconv.ParseUint(string(line), 10, 64)
	if err != nil {
		panic("db: the stack trace has no goroutine number: " + err.Error())
	}
	return id
}
