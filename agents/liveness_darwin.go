package agents

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// currentBoot is spelled as programs in the same registry take it from sysctl -n kern.boottime.
var currentBoot = sync.OnceValue(func() string {
	at, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("{ sec = %d, usec = %d }", at.Sec, at.Usec)
})

// processBorn is when the process started, in microseconds.
func processBorn(pid uint32) *int64 {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", int(pid))
	if err != nil {
		return nil
	}
	at := info.Proc.P_starttime
	born := at.Sec*1_000_000 + int64(at.Usec)
	return &born
}
