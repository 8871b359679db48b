package db

import (
	"selvedge/db/internal/machine"
)

// A BootTime is a moment on the clock that leases run on: it starts with the machine, goes on while the machine sleeps,
// and nobody can set it. Moments of different starts can't be compared; Boot tells them apart.
type BootTime = machine.BootTime

// ReadBootTime reads the clock.
func ReadBootTime() BootTime { return machine.ReadBootTime() }

// BootID identifies the machine's current start, or is nil where the system doesn't say. On Linux it is
// /proc/sys/kernel/random/boot_id.
func BootID() *string { return machine.BootID() }
