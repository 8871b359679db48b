package agents

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"

	"selvedge/internal/txn"
)

var currentBoot = sync.OnceValue(func() string {
	if id := txn.BootID(); id != nil {
		return *id
	}
	return ""
})

// processBorn is when the process started, in clock ticks since the machine's start: field 22 of
// /proc/PID/stat (proc(5)). The fields are counted from the last ')', since a program's name may
// hold anything.
func processBorn(pid uint32) *int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const startTime = 22 - 3 // the first field after the name is the third
	if len(fields) <= startTime {
		return nil
	}
	born, err := strconv.ParseInt(string(fields[startTime]), 10, 64)
	if err != nil {
		return nil
	}
	return &born
}
