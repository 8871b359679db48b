package agents

import (
	"errors"
	"math"

	"golang.org/x/sys/unix"

	"selvedge/db"
	"selvedge/internal/txn"
)

// Liveness is the state of the process behind an entry, as far as it is known.
type Liveness string

// The three answers. Only Dead ends a reservation; Unknown holds it like Alive.
const (
	Alive   Liveness = "alive"
	Dead    Liveness = "dead"
	Unknown Liveness = "unknown"
)

// LivenessFor judges an entry by its pid and boot id. An entry that is not active is Dead. One
// without a pid is Unknown, and so is one with a pid of another pid namespace, such as another
// container's. It is Dead if no process has the pid, or if its boot id and the machine's are known
// and differ; else it is Alive. A pid that another process got since counts as alive; a lease is
// more precise, see Lease.
func LivenessFor(e Entry) Liveness { return judgePID(e.Status, e.PID, e.pidNS(), e.BootID) }

func judgePID(status Status, pid *uint32, pidNS *int64, bootID *string) Liveness {
	if status != Active {
		return Dead
	}
	if own := txn.PIDNamespace(); pid == nil || pidNS != nil && own != nil && *pidNS != *own {
		return Unknown
	}
	if !processAlive(*pid) {
		return Dead
	}
	if boot := CurrentBootID(); boot != nil && bootID != nil && *bootID != *boot {
		return Dead
	}
	return Alive
}

// processAlive reports whether the system has a process with the pid. One that we may not signal is
// alive; so is a zombie.
func processAlive(pid uint32) bool {
	if pid == 0 || pid > math.MaxInt32 {
		return false
	}
	return !errors.Is(unix.Kill(int(pid), 0), unix.ESRCH)
}

// CurrentBootID identifies the machine's present start in an entry's BootID, in the spelling of
// older programs; nil if the system has none.
func CurrentBootID() *string {
	boot := currentBoot()
	if boot == "" {
		return nil
	}
	return &boot
}

// liveness judges a row by its lease, or without one as LivenessFor does. In a database that other
// machines use too, a pid counts only if the entry has the boot id of this machine's present start.
// Dead is final. For a lease that is tied to a process, only its time and that process's lock
// decide; the entry's pid can end only a detached lease.
func liveness(rx *db.Rx, w *stored) (Liveness, error) {
	judged := judgePID(w.Status, w.PID, w.PIDNS, w.BootID)
	if boot := CurrentBootID(); !rx.Store().OneMachine() && w.Status == Active &&
		(boot == nil || w.BootID == nil || *boot != *w.BootID) {
		judged = Unknown // its pid may be another machine's
	}
	if w.TTL == nil || w.Status != Active {
		return judged, nil
	}
	state, err := rx.Store().LeaseState(w.LeaseColumns)
	switch {
	case err != nil:
		return Unknown, err
	case state.Over():
		return Dead, nil
	case state == txn.LeaseUnknown:
		return Unknown, nil
	case w.Owner != nil || judged == Alive && !reused(w) || judged == Unknown:
		return Alive, nil
	}
	return Dead, nil
}

// reused reports whether the pid of a detached lease's entry belongs to another process than when
// the lease was made. The entry must have a pid.
func reused(w *stored) bool {
	if w.LeasePIDBorn == nil {
		return false
	}
	born := processBorn(*w.PID)
	return born != nil && *born != *w.LeasePIDBorn
}
