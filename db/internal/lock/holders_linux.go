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

// holders names the processes that have file locked, for a message: " (process 17)". Empty when that can't be told. The
// lines of /proc/locks are described in proc(5); the sixth word is device and inode.
func holders(file *os.File) string {
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return ""
	}
	defer locks.Close() //nolint:errcheck // nothing was written
	suffix := fmt.Sprintf(":%d", info.Sys().(*syscall.Stat_t).Ino)
	var pids []string
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 6 || words[1] != "FLOCK" || !strings.HasSuffix(words[5], suffix) {
			continue
		}
		if pid, err := strconv.Atoi(words[4]); err == nil && pid != os.Getpid() && !slices.Contains(pids, words[4]) {
			pids = append(pids, words[4])
		}
	}
	switch len(pids) {
	case 0:
		return ""
	case 1:
		return " (process " + pids[0] + ")"
	}
	return " (processes " + strings.Join(pids, ", ") + ")"
}
