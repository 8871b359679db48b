package txn

import "selvedge/internal/machine"

// A BootTime is a moment on the clock that leases use: it starts with the machine, runs while the
// machine sleeps, and can't be set. Moments of different boots, and of different time namespaces,
// can't be compared.
type BootTime = machine.BootTime

// BootTime is the time of this transaction on the clock that leases run on, the same at every call.
func (rx *Rx) BootTime() BootTime {
	rx.mu.Lock()
	now := rx.boot
	rx.mu.Unlock()
	if now != (BootTime{}) {
		return now
	}
	now = rx.in.BootTime() // without the lock: the clock is the user's
	rx.mu.Lock()
	defer rx.mu.Unlock()
	if rx.boot == (BootTime{}) {
		rx.boot = now
	}
	return rx.boot
}

// ReadBootTime reads the clock again. Call it after waiting for a row lock, before judging a lease.
// BootTime returns the same value from then on.
func (tx *Tx) ReadBootTime() BootTime {
	tx.mu.Lock()
	tx.boot = BootTime{}
	tx.mu.Unlock()
	return tx.BootTime()
}

// BootID identifies the current boot of the machine; nil if the system does not report it. On
// Linux it is /proc/sys/kernel/random/boot_id.
func BootID() *string { return machine.BootID() }

// PIDNamespace identifies the namespace of this process's pids; nil if the system has none. A pid
// of another namespace means nothing here. On Linux it is the inode of /proc/self/ns/pid.
func PIDNamespace() *int64 { return machine.PIDNamespace() }
