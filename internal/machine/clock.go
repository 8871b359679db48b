package machine

import (
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A BootTime is a moment on the clock that leases run on: it starts with the machine, continues
// while the machine sleeps, and can't be set. Moments of different starts can't be compared, and
// neither can those of different time namespaces, which containers may have: their clocks are
// ahead or behind by a fixed time (time_namespaces(7)).
type BootTime struct {
	Boot      string        // identifies the machine's start; "" if the system does not report it
	Namespace int64         // identifies the time namespace; 0 if the system has none
	Since     time.Duration // time since then
}

// ReadBootTime reads the clock.
func ReadBootTime() BootTime {
	var ts unix.Timespec
	if err := unix.ClockGettime(bootClock, &ts); err != nil {
		panic(fmt.Sprintf("read the clock of the machine's start: %v", err)) // every system that we run on has it
	}
	return BootTime{Boot: thisBoot(), Namespace: thisTimeNamespace(), Since: time.Duration(ts.Nano())}
}

// Neither can change while the process lives: only a program of one thread can enter another time namespace.
var (
	thisBoot          = sync.OnceValue(readBoot)
	thisTimeNamespace = sync.OnceValue(func() int64 { return namespace("time") })
)

// PIDNamespace identifies the namespace that this process's pids belong to; nil if the system has
// none.
var PIDNamespace = sync.OnceValue(func() *int64 {
	if id := namespace("pid"); id != 0 {
		return &id
	}
	return nil
})

// Add is the moment d later, at most the last one that can be expressed.
func (b BootTime) Add(d time.Duration) BootTime {
	if d > 0 && b.Since > math.MaxInt64-d {
		b.Since = math.MaxInt64
	} else {
		b.Since += d
	}
	return b
}

// Comparable reports whether the two moments are of one clock.
func (b BootTime) Comparable(other BootTime) bool {
	return b.Boot != "" && b.Boot == other.Boot && b.Namespace == other.Namespace
}

// Reached reports whether, at now, the moment has come: it is in the past, or of another start of
// the machine, which no process of that time has survived.
func (b BootTime) Reached(now BootTime) bool { return b.Boot != now.Boot || now.Since >= b.Since }

// BootID returns an id of the machine's current start, or nil if the system does not report it.
// On Linux it is /proc/sys/kernel/random/boot_id.
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
