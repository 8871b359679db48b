package lock

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// The bytes of a -shm file that SQLite locks: one while it writes to the WAL, and others while it
// reads from it (sqlite.org/walformat.html, section 2.3).
const (
	walWriteLock                = 120
	firstReadMark, lastReadMark = 123, 127
)

// Holders returns the pids of the other processes that have the file at path locked with flock.
// Processes of other pid namespaces are not listed.
func Holders(path string) []int {
	return locks(path, func(kind, _ string, _, _ int64) bool { return kind == "FLOCK" })
}

// WALWriters returns the pids of the other processes that have the write lock of the database
// whose -shm file lies at path.
func WALWriters(path string) []int {
	return locks(path, func(kind, how string, first, last int64) bool {
		return kind == "POSIX" && how == "WRITE" && first <= walWriteLock && last >= walWriteLock
	})
}

// Readers returns the pids of the other processes that have a read transaction on the WAL whose
// -shm file lies at path.
func Readers(path string) []int {
	return locks(path, func(kind, how string, first, _ int64) bool {
		return kind == "POSIX" && how == "READ" && first >= firstReadMark && first <= lastReadMark
	})
}

// locks reads /proc/locks, which proc(5) describes: number, kind, ADVISORY, READ or WRITE, pid,
// device and inode, first and last byte. A line that begins with "->" is of a lock that is waited
// for. The file at path is not opened: closing it would drop SQLite's locks.
func locks(path string, wanted func(kind, how string, first, last int64) bool) (pids []int) {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	list, err := os.Open("/proc/locks")
	if err != nil {
		return nil
	}
	defer list.Close() //nolint:errcheck // nothing was written
	suffix := fmt.Sprintf(":%d", info.Sys().(*syscall.Stat_t).Ino)
	for lines := bufio.NewScanner(list); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 8 || !strings.HasSuffix(words[5], suffix) {
			continue
		}
		first, err := strconv.ParseInt(words[6], 10, 64)
		last, eof := strconv.ParseInt(words[7], 10, 64)
		if eof != nil {
			last = 1<<63 - 1 // "EOF"
		}
		if err != nil || !wanted(words[1], words[3], first, last) {
			continue
		}
		if pid, err := strconv.Atoi(words[4]); err == nil && pid > 0 && pid != os.Getpid() &&
			!slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}
