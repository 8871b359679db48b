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

// The bytes of a -shm file that readers keep locked while they use the WAL:
// sqlite.org/walformat.html, "WAL Locks".
const firstReadMark, lastReadMark = 123, 127

// Readers are the other processes that have a read transaction on the WAL whose -shm file lies at
// path; empty when that can't be told. The lines of /proc/locks are described in proc(5).
func Readers(path string) []int {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return nil
	}
	defer locks.Close() //nolint:errcheck // nothing was written
	suffix := fmt.Sprintf(":%d", info.Sys().(*syscall.Stat_t).Ino)
	var pids []int
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 8 || words[1] != "POSIX" || words[3] != "READ" || !strings.HasSuffix(words[5], suffix) {
			continue
		}
		from, err := strconv.ParseInt(words[6], 10, 64)
		if err != nil || from < firstReadMark || from > lastReadMark {
			continue
		}
		if pid, err := strconv.Atoi(words[4]); err == nil && pid != os.Getpid() && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}
