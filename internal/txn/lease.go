package txn

import (
	"math"
	"time"
)

// LeaseSkew is how far the wall clocks of two holders may differ. It matters only for a lease
// without an owner that is judged after a reboot or in another time namespace: such a lease ends
// that much later.
const LeaseSkew = time.Minute

// LeaseTerms are db.LeaseTerms.
type LeaseTerms struct {
	TTL      time.Duration
	Detached bool
}

// LeaseColumns are the columns of a lease in a store's table; a row's struct embeds it. NULL means
// absent; all NULL means no lease.
//
// A lease ends when its time is over, on a clock that runs while the machine sleeps and that nobody
// can set, or when its process ends. After a reboot, or in another time namespace, that clock can't
// be compared: then the process's lock, which the kernel keeps, decides alone, and for a lease
// without an owner the wall clock, with LeaseSkew.
type LeaseColumns struct {
	Owner     *int64  `db:"owner_id"`         // owners.id of the process whose death ends it; nil: detached
	TTL       *int64  `db:"lease_ttl"`        // nanoseconds from each renewal; nil: as long as the process lives
	Until     *int64  `db:"lease_until"`      // nanoseconds of the boot clock at which it ends
	Boot      *string `db:"lease_boot_id"`    // the machine's start that Until counts from
	TimeNS    *int64  `db:"lease_time_ns"`    // time namespace that Until counts in; nil: as the asker's
	WallUntil *int64  `db:"lease_wall_until"` // Unix nanoseconds at which it ends by the wall clock
}

// LeaseColumnNames are the columns of a lease, in the order of Values.
const LeaseColumnNames = `owner_id, lease_ttl, lease_until, lease_boot_id, lease_time_ns, lease_wall_until`

// Values are the lease's columns as arguments of a statement.
func (l LeaseColumns) Values() []any {
	return []any{l.Owner, l.TTL, l.Until, l.Boot, l.TimeNS, l.WallUntil}
}

// LeaseState is the state of a lease.
type LeaseState string

// The states of a lease.
const (
	LeaseHeld LeaseState = "held"
	// its time is not over, and its process can't be asked: it counts as held
	LeaseUnknown LeaseState = "unknown"
	LeaseExpired LeaseState = "expired" // its time is over
	LeaseDead    LeaseState = "dead"    // its process is gone
)

// Over reports whether the lease has ended for good.
func (s LeaseState) Over() bool { return s == LeaseExpired || s == LeaseDead }

// GrantLease returns the columns of a lease that begins now. ErrInvalid: terms under which it would
// never end, or never hold.
func (tx *Tx) GrantLease(terms LeaseTerms) (LeaseColumns, error) {
	switch {
	case terms.TTL < 0:
		return LeaseColumns{}, Invalid("use 0 for as long as the process lives", "a lease can't last %v", terms.TTL)
	case terms.Detached && terms.TTL == 0:
		return LeaseColumns{}, Invalid("set LeaseTerms.TTL", "a lease without a process needs a time to live")
	}
	var l LeaseColumns
	if terms.TTL > 0 {
		ttl := int64(terms.TTL)
		l.TTL = &ttl
		l = tx.RenewLease(l)
	}
	if !terms.Detached {
		owner, err := tx.Owner()
		if err != nil {
			return LeaseColumns{}, err
		}
		l.Owner = &owner
	}
	return l, nil
}

// RenewLease returns the columns of the same lease with its time counted from now. Check with
// HoldsLease, in the same transaction, that it still holds: an ended lease must not come back.
func (rx *Rx) RenewLease(l LeaseColumns) LeaseColumns {
	if l.TTL == nil {
		return l
	}
	end := rx.BootTime().Add(time.Duration(*l.TTL))
	until, wall := int64(end.Since), Nanos(rx.now)
	if wall > math.MaxInt64-*l.TTL {
		wall = math.MaxInt64
	} else {
		wall += *l.TTL
	}
	l.Until, l.Boot, l.TimeNS, l.WallUntil = &until, &end.Boot, &end.Namespace, &wall
	return l
}

// LeaseState judges a lease at the time of this transaction. A statement that removes something
// because its lease is over repeats what was judged, epoch and lease_until, in its condition.
//
// In a Read the answer is that of its snapshot: a timely renewal may not be committed yet. Only a
// write transaction may act on it.
func (rx *Rx) LeaseState(l LeaseColumns) (LeaseState, error) {
	if l.TTL == nil && l.Owner == nil {
		return LeaseUnknown, nil
	}
	if l.expired(rx.BootTime(), rx.now) {
		return LeaseExpired, nil
	}
	if l.Owner == nil {
		return LeaseHeld, nil
	}
	life, err := rx.OwnerLife(*l.Owner)
	switch {
	case err != nil:
		return LeaseUnknown, err
	case life == LifeDead:
		return LeaseDead, nil
	case life == LifeUnknown:
		return LeaseUnknown, nil
	}
	return LeaseHeld, nil
}

// expired reports whether the lease's time is over, by the clock that is comparable.
func (l LeaseColumns) expired(now BootTime, wall time.Time) bool {
	if l.Until == nil || l.Boot == nil {
		return false
	}
	end := l.end()
	if l.TimeNS == nil { // written by a program that kept none
		end.Namespace = now.Namespace
	}
	switch {
	case end.Comparable(now):
		return now.Since >= end.Since
	case l.Owner != nil:
		return false // its lock decides
	case l.WallUntil == nil:
		return true // written by a program that kept no wall clock: the start it counted from is over
	}
	return !wall.Before(Time(*l.WallUntil).Add(LeaseSkew))
}

// HoldsLease reports whether this process may act under the lease: it is not over, and it belongs
// to this process or is detached.
func (rx *Rx) HoldsLease(l LeaseColumns) (bool, error) {
	if l.Owner != nil {
		if own, err := rx.Owns(*l.Owner); err != nil || !own {
			return false, err
		}
	}
	state, err := rx.LeaseState(l)
	return err == nil && state == LeaseHeld, err
}

// LeaseEnd is the end of a lease on this process's clock, for its handle. A lease that was granted
// on another clock counts as having a whole TTL left: it is renewed at once.
func (rx *Rx) LeaseEnd(l LeaseColumns) BootTime {
	if l.TTL == nil {
		return BootTime{Since: math.MaxInt64}
	}
	until := rx.BootTime().Add(time.Duration(*l.TTL))
	if end := l.end(); end.Comparable(until) {
		return end
	}
	return until
}

// end is the end of a lease that has one, on the clock of its grant.
func (l LeaseColumns) end() BootTime {
	end := BootTime{Boot: *l.Boot, Since: time.Duration(*l.Until)}
	if l.TimeNS != nil {
		end.Namespace = *l.TimeNS
	}
	return end
}
