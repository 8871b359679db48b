package machine

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A BootTime is a moment on the clock that leases run on: it starts with the machine, goes on while the machine sleeps,
// and nobody can set it. Moments of different starts can't be compared; Boot tells them apart.
type BootTime struct {
	Boot  string        // identifies the machine's start
	Since time.Duration // time since then
}

// ReadBootTime reads the clock.
func ReadBootTime() BootTime {
	var ts unix.Timespec
	if err := unix.ClockGettime(bootClock, &ts); err != nil {
		panic(fmt.Sprintf("read the clock of the machine's start: %v", err)) // every system that we run on has it
	}
	return BootTime{Boot: thisBoot(), Since: time.Duration(ts.Nano())}
}

// thisBoot can't change while the process lives.
var thisBoot = sync.OnceValue(readBoot)

// Add is the moment d later.
func (b BootTime) Add(d time.Duration) BootTime { return BootTime{Boot: b.Boot, Since: b.Since + d} }

// Reached reports whether, at now, the moment has come: it is in the past, or of another start of the machine, which
// nothing that ran then has survived.
func (b BootTime) Reached(now BootTime) bool { return b.Boot != now.Boot || now.Since >= b.Since }

// BootID identifies the machine's current start, or is nil where the system doesn't say. On Linux it is
// /proc/sys/kernel/random/boot_id.
func BootID() *string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil
	}
	id := strings.TrimSpace(string(text))
	if id == "" {
		return nil
	}
	return &id
}
