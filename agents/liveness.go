package agents

import (
	"errors"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"selvedge/db"
	registry "selvedge/internal/agents"
)

// Liveness is what can be said about the process behind an entry.
type Liveness string

// The three answers. Only Dead ends a reservation; Unknown holds it like Alive.
const (
	Alive   Liveness = "alive"
	Dead    Liveness = "dead"
	Unknown Liveness = "unknown"
)

// LivenessFor judges an entry by its pid and boot id, as the original does: an entry that is not active is Dead; without
// a pid it is Unknown; it is Dead when no process has the pid, or when its boot id and the machine's are known and
// differ; else it is Alive. A pid that another process got since counts as alive: a lease tells better, see Lease.
func LivenessFor(e Entry) Liveness { return judge(e.Status, e.PID, e.BootID) }

func judge(status Status, pid *uint32, bootID *string) Liveness {
	if status != Active {
		return Dead
	}
	if pid == nil {
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

// CurrentBootID identifies the machine's present start in an entry's BootID, in the original's spelling; nil where the
// system does not say.
func CurrentBootID() *string {
	boot := currentBoot()
	if boot == "" {
		return nil
	}
	return &boot
}

// liveness judges a row: by its lease where it has one, else as LivenessFor. A lease ends when its time is over, when the
// process that it is tied to is gone, and when the entry's own process is. Each of these is for ever.
func (r *Registry) liveness(rx *db.Rx, w *registry.Row) (Liveness, error) {
	judged := judge(Status(w.Status), w.PID, w.BootID)
	if w.LeaseUntil == nil || judged == Dead {
		return judged, nil
	}
	until := db.BootTime{Boot: *w.LeaseBootID, Since: time.Duration(*w.LeaseUntil)}
	if until.Reached(r.bootTime()) {
		return Dead, nil
	}
	if w.LeaseOwner != nil {
		if alive, err := rx.OwnerAlive(*w.LeaseOwner); err != nil || !alive {
			return Dead, err
		}
	}
	if w.LeasePIDBorn != nil && w.PID != nil {
		if born := processBorn(*w.PID); born != nil && *born != *w.LeasePIDBorn {
			return Dead, nil
		}
	}
	return Alive, nil
}
