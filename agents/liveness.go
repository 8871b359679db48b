package agents

import (
	"errors"
	"math"

	"golang.org/x/sys/unix"

	"selvedge/db"
	"selvedge/internal/txn"
)

// Liveness is what can be said about the process behind an entry.
type Liveness string

// The three answers. Only Dead ends a reservation; Unknown holds it like Alive.
const (
	Alive   Liveness = "alive"
	Dead    Liveness = "dead"
	Unknown Liveness = "unknown"
)

// LivenessFor judges an entry by its pid and boot id: an entry that is not active is Dead; without
// a pid it is Unknown, and so it is where the pid was given in another pid namespace, as another
// container's; it is Dead when no process has the pid, or when its boot id and the machine's are
// known and differ; else it is Alive. A pid that another process got since counts as alive: a lease
// tells better, see Lease.
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

// processAlive asks the system. What it does not let us signal is alive; so is a zombie.
func processAlive(pid uint32) bool {
	if pid == 0 || pid > math.MaxInt32 {
		return false
	}
	return !errors.Is(unix.Kill(int(pid), 0), unix.ESRCH)
}

// CurrentBootID identifies the machine's present start in an entry's BootID, in the spelling of
// older programs; nil where the system does not say.
func CurrentBootID() *string {
	boot := currentBoot()
	if boot == "" {
		return nil
	}
	return &boot
}

// liveness judges a row: by its lease where it has one, else as LivenessFor; but of a database that
// other machines use too a pid counts only where the entry says that it is of this machine's
// present start. What is dead is so for ever. Under a lease that is tied to a process its time and
// that process's lock decide alone; the entry's pid is a hint, and ends no more than a detached
// lease.
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

// reused reports whether the pid of a detached lease's entry, which has one, belongs to another
// process than when the lease was made.
func reused(w *stored) bool {
	if w.LeasePIDBorn == nil {
		return false
	}
	born := processBorn(*w.PID)
	return born != nil && *born != *w.LeasePIDBorn
}
