package lock

import (
	"fmt"
	"strings"
)

// Name names processes for a message: "process 17". "" for none.
func Name(pids []int) string {
	switch len(pids) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("process %d", pids[0])
	}
	words := strings.Fields(strings.Trim(fmt.Sprint(pids), "[]"))
	return "processes " + strings.Join(words, ", ")
}
