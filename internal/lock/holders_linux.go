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

// Holders are the pids of the other processes that have the file at path locked with flock. Empty
// when that can't be told: processes of other pid namespaces are not listed.
func Holders(path string) []int {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(locks(info, "FLOCK", "", -1), func(pid int) bool { return pid == os.Getpid() })
}

// walWriteLock is the byte of the -shm file that SQLite has locked while it writes to the WAL:
// sqlite.org/walformat.html, section 2.3.
const walWriteLock = 120

// WALWriters are the pids of the processes, this one among them, that have the write lock of the
// database whose -shm file lies at path. The file is not opened: closing it would drop SQLite's
// locks.
func WALWriters(path string) []int {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return locks(info, "POSIX", "WRITE", walWriteLock)
}

// locks reads /proc/locks, which proc(5) describes: number, kind, ADVISORY, READ or WRITE, pid,
// device and inode, first and last byte. A line that begins with "->" is of one who waits.
func locks(info os.FileInfo, kind, how string, at int64) (pids []int) {
	list, err := os.Open("/proc/locks")
	if err != nil {
		return nil
	}
	defer list.Close() //nolint:errcheck // nothing was written
	suffix := fmt.Sprintf(":%d", info.Sys().(*syscall.Stat_t).Ino)
	for lines := bufio.NewScanner(list); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 8 || words[1] != kind || how != "" && words[3] != how ||
			!strings.HasSuffix(words[5], suffix) {
			continue
		}
		if at >= 0 && !covers(words[6], words[7], at) {
			continue
		}
		if pid, err := strconv.Atoi(words[4]); err == nil && pid > 0 && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func covers(first, last string, at int64) bool {
	from, err := strconv.ParseInt(first, 10, 64)
	if err != nil || from > at {
		return false
	}
	to, err := strconv.ParseInt(last, 10, 64)
	return last == "EOF" || err == nil && to >= at
}
