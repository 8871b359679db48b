package db

import (
	"selvedge/db/internal/machine"
)

// A BootTime is a moment on the clock that leases run on: it starts with the machine, goes on while the machine sleeps,
// and nobody can set it. Moments of different starts, and of different time namespaces, can't be compared.
type BootTime = machine.BootTime

// ReadBootTime reads the clock.
func ReadBootTime() BootTime { return machine.ReadBootTime() }

// BootID identifies the machine's current start, or is nil where the system doesn't say. On Linux it is
// /proc/sys/kernel/random/boot_id.
func BootID() *string { return machine.BootID() }

// PIDNamespace identifies the namespace that this process's pids belong to, nil where the system has none: a pid of another
// namespace says nothing here. On Linux it is the inode of /proc/self/ns/pid.
func PIDNamespace() *int64 {
	id := machine.PIDNamespace()
	if id == 0 {
		return nil
	}
	return &id
}
