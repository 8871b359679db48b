package postgres

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"selvedge/internal/engine"
	"selvedge/internal/machine"
)

// An owner is a handle of a process, so that closing it frees what it holds. It is alive until the
// time in its row in owner_beats, by the server's clock. Heartbeats extend that time while the
// process runs. A heartbeat that comes too late, because the process was stopped or cut off,
// changes nothing: the owner is dead for good, and the handle gets another number at its next
// claim. The epochs of its claims fence off writes to what it still believes to hold.

// DefaultTTL is how long a process may be silent before it counts as dead. It sends six heartbeats
// in that time.
const (
	DefaultTTL  = 60 * time.Second
	shortestTTL = time.Second
)

// beatEvery is the time between two heartbeats of a process.
func (a *Address) beatEvery() time.Duration { return a.ttl / 6 }

// beatPause returns the pause between two heartbeats. Tests shorten it.
var beatPause = (*Address).beatEvery

// certain is how long after a heartbeat a process assumes that it counts as alive: less than the
// TTL, since its clock may be slower than the server's.
func (a *Address) certain() time.Duration { return a.ttl - a.ttl/10 }

const (
	sqlAddOwner = `WITH made AS (INSERT INTO owners (token, pid, boot_id, program, registered_at, pid_ns,
	checksum) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id)
INSERT INTO owner_beats (owner, until) SELECT id, server_nanos() + ? FROM made RETURNING owner`
	// sqlBeat compares the token too: after a backup of the server was restored, another process
	// may have got the number.
	sqlBeat = `WITH beaten AS (UPDATE owner_beats SET until = server_nanos() + ?
	WHERE owner = (SELECT id FROM owners WHERE id = ? AND token = ?)
	AND until > server_nanos() RETURNING 1)
SELECT (SELECT count(*) FROM beaten) AS beaten, server_nanos() AS now`
	sqlLives = `SELECT until, server_nanos() AS now,
		CAST(extract(epoch FROM now()) * 1000000000 AS BIGINT) AS began FROM owner_beats WHERE owner = ?`

	// sqlStays is sqlLives, and locks the row against changes; several transactions may do so at
	// once.
	sqlStays = sqlLives + ` FOR SHARE`

	sqlDropOwner = `DELETE FROM owners WHERE id = ? AND token = ?`
	sqlDie       = `UPDATE owner_beats SET until = 0
		WHERE owner = (SELECT id FROM owners WHERE id = ? AND token = ?)`

	// sqlForgettable finds owners that are dead and own nothing, and locks their rows. It skips
	// rows that other transactions have locked: waiting for them in the middle of a transaction
	// could deadlock. For the same reason it checks itself what owners own: the foreign keys
	// would refuse the deletion too, but wait for transactions that change the references. An
	// owner without a row in owner_beats came from a file.
	sqlForgettable = `WITH idle AS MATERIALIZED (SELECT id FROM owners AS o WHERE id = ANY (CAST(? AS BIGINT[]))
	AND NOT EXISTS (SELECT 1 FROM runs WHERE owner_id = o.id)
	AND NOT EXISTS (SELECT 1 FROM live_runs WHERE owner_id = o.id)
	AND NOT EXISTS (SELECT 1 FROM live_leavings WHERE owner_id = o.id)
	AND NOT EXISTS (SELECT 1 FROM checkpoints WHERE owner_id = o.id)
	AND NOT EXISTS (SELECT 1 FROM leases WHERE owner_id = o.id)
	AND NOT EXISTS (SELECT 1 FROM agent_reservations WHERE owner_id = o.id)),
dead AS (SELECT o.id FROM owners AS o JOIN owner_beats AS b ON b.owner = o.id
	WHERE o.id IN (SELECT id FROM idle) AND b.until <= server_nanos() FOR UPDATE SKIP LOCKED),
silent AS (SELECT id FROM owners AS o
	WHERE id IN (SELECT id FROM idle)
	AND NOT EXISTS (SELECT 1 FROM owner_beats WHERE owner = o.id) FOR UPDATE SKIP LOCKED)
SELECT id FROM dead UNION ALL SELECT id FROM silent`
	sqlDropOwners = `DELETE FROM owners WHERE id = ANY (CAST(? AS BIGINT[]))`
)

// A home is the place of a handle among the owners: its number and its heartbeats.
type home struct {
	engine  *Engine
	certain time.Duration

	making sync.Mutex // held while the number is renewed or made

	mu      sync.Mutex
	id      int64
	token   uuid.UUID          // of the row of this number
	until   time.Duration      // since the machine's start: it certainly lives until then
	stop    context.CancelFunc // ends the heartbeats; nil while none run
	stopped chan struct{}
}

// homes holds the homes of this process, by the path of the database.
var homes struct {
	sync.Mutex
	open map[string][]*home
}

func homeOf(e *Engine) *home {
	h := &home{engine: e, certain: e.address.certain()}
	homes.Lock()
	defer homes.Unlock()
	if homes.open == nil {
		homes.open = map[string][]*home{}
	}
	homes.open[e.Path()] = append(homes.open[e.Path()], h)
	return h
}

// withNumber returns the home of this process that has the number; nil if none has.
func (e *Engine) withNumber(id int64) *home {
	homes.Lock()
	all := slices.Clone(homes.open[e.Path()])
	homes.Unlock()
	for _, h := range all {
		if h.number() == id {
			return h
		}
	}
	return nil
}

// known returns the handle's number while it certainly lives; 0 if it has none.
func (h *home) known() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.id != 0 && machine.ReadBootTime().Since < h.until {
		return h.id
	}
	return 0
}

// number is the handle's number, whether it lives or not.
func (h *home) number() int64 {
	id, _ := h.row()
	return id
}

// row returns the number and the token of the handle's row; 0 if it has none.
func (h *home) row() (id int64, token uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.id, h.token
}

// doubt makes the handle ask whether it lives before it next claims anything.
func (h *home) doubt() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = 0
}

// setAlive records that the handle has this number, and was alive at the moment from.
func (h *home) setAlive(id int64, token uuid.UUID, from time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.id, h.token, h.until = id, token, from+h.certain
	if h.stop == nil {
		ctx, stop := context.WithCancel(background)
		h.stop, h.stopped = stop, make(chan struct{})
		go h.beat(ctx, beatPause(h.engine.address), h.stopped)
	}
}

// renewed is setAlive for a heartbeat, which may come after the handle has given its number up.
func (h *home) renewed(id int64, from time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.id == id {
		h.until = from + h.certain
	}
}

// ends reports whether the owner may be dead within d, unless it hears from the server.
func (h *home) ends(id int64, d time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.id == id && machine.ReadBootTime().Since+d >= h.until
}

// notify tells the handle that it counts as dead, or soon may.
func (h *home) notify() {
	if died := h.engine.config.Died; died != nil {
		died()
	}
}

// died forgets a number.
func (h *home) died(id int64) {
	h.mu.Lock()
	known := h.id == id
	if known {
		h.id = 0
	}
	h.mu.Unlock()
	if known {
		h.notify()
	}
}

// beat sends heartbeats until ctx ends.
func (h *home) beat(ctx context.Context, every time.Duration, stopped chan<- struct{}) {
	defer close(stopped)
	var own spare
	defer own.close()
	for next := every; engine.Pause(ctx, next); {
		next = every
		id, token := h.row()
		if id != 0 && !h.beatOnce(ctx, &own, id, token) {
			own.close()
			next = min(every, time.Second) // the primary may be being replaced, and the owner's end nears
			if h.ends(id, every) {
				h.notify()
			}
		}
	}
}

// beat extends the life of the owner with this number, unless it has ended.
func (e *Engine) beat(s *session, id int64, token uuid.UUID) (alive bool, err error) {
	var answer struct {
		Beaten int64 `db:"beaten"`
		Now    int64 `db:"now"`
	}
	if err := s.get(&answer, sqlBeat, int64(e.address.ttl), id, token[:]); err != nil {
		return false, err
	}
	e.clock.was(answer.Now)
	return answer.Beaten == 1, nil
}

// beatOnce sends a heartbeat over a separate connection, and reports whether it is durable.
func (h *home) beatOnce(ctx context.Context, own *spare, id int64, token uuid.UUID) bool {
	e := h.engine
	ctx, cancel := context.WithTimeout(ctx, e.address.beatEvery())
	defer cancel()
	s, err := own.get(ctx, e.newSession)
	if err != nil {
		return false // the next beat tries again
	}
	from := machine.ReadBootTime().Since
	s.wire.warned = nil
	defer s.within(ctx)()
	alive, err := e.beat(s, id, token)
	switch {
	case err != nil, s.wire.warned != nil: // no standby may have it
		return false
	case !alive:
		h.died(id)
	default:
		h.renewed(id, from)
	}
	return true
}

// leave ends the owner: others can take at once what the handle owned.
func (h *home) leave() error {
	id, token, stop := h.close()
	if stop != nil {
		stop()
		<-h.stopped
	}
	if id == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(background, closePatience)
	defer cancel()
	s, err := h.engine.newSession(ctx)
	if err != nil {
		return nil //nolint:nilerr // the row expires by itself
	}
	s.wire.ctx = ctx
	if _, err := s.exec(sqlDropOwner, id, token[:]); err != nil &&
		constraint(state(err)) != engine.NoConstraint {
		_, _ = s.exec(sqlDie, id, token[:]) // it still owns something
	}
	return s.close()
}

// close gives the number up.
func (h *home) close() (id int64, token uuid.UUID, stop context.CancelFunc) {
	homes.Lock()
	defer homes.Unlock()
	path := h.engine.Path()
	homes.open[path] = slices.DeleteFunc(homes.open[path], func(one *home) bool { return one == h })
	if len(homes.open[path]) == 0 {
		delete(homes.open, path)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	id, token, stop = h.id, h.token, h.stop
	h.id, h.stop = 0, nil
	return id, token, stop
}

// errNewNumber makes a transaction retry: its snapshot is older than the number of its handle.
var errNewNumber = errors.New("this handle has another number than when the transaction began")

// Owner returns the number under which this handle owns claims. It inserts the rows at the first
// call, and again after the owner has died, over another connection: functions that run side by
// side share one number. The transaction then runs again, and sees the rows.
func (t *tx) Owner() (int64, error) {
	if err := t.usable(); err != nil {
		return 0, err
	}
	id, err := t.engine.home.ensure()
	switch {
	case err != nil:
		err = failure(err)
		if isLost(err) || isBeaten(err) {
			t.dead, t.mayPass = err, true
		}
		return 0, err
	case id != t.number:
		t.dead, t.mayPass = errNewNumber, true
		return 0, t.dead
	}
	return id, nil
}

// ensure returns the number of this handle, which lives. It makes one if there is none.
func (h *home) ensure() (id int64, err error) {
	e := h.engine
	if id := h.known(); id != 0 {
		return id, nil
	}
	h.making.Lock()
	defer h.making.Unlock()
	if id := h.known(); id != 0 {
		return id, nil // another was faster
	}
	ctx, cancel := patient(background, commitPatience)
	defer cancel()
	s, err := e.newSession(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	s.wire.ctx = ctx
	from := machine.ReadBootTime().Since
	if id, token := h.row(); id != 0 {
		alive, err := e.beat(s, id, token)
		if err != nil {
			return 0, err
		}
		if alive {
			h.setAlive(id, token, from)
			return id, nil
		}
		h.died(id)
	}
	token, err := uuid.NewRandom()
	if err != nil {
		return 0, err
	}
	row := append(engine.OwnerRow(token, e.config.Now()), int64(e.address.ttl))
	if err := s.get(&id, sqlAddOwner, row...); err != nil {
		return 0, err
	}
	h.setAlive(id, token, from)
	return id, nil
}

// Owns reports whether id is a handle of this process.
func (x *rx) Owns(id int64) (bool, error) {
	if x.engine.home == nil || id == 0 {
		return false, nil
	}
	h := x.engine.withNumber(id)
	switch {
	case h == nil:
		return false, nil
	case h.known() == id:
		return true, nil
	}
	life, err := x.life(id) // the heartbeat may have come too late
	if life == engine.LifeDead {
		h.died(id)
	}
	return life == engine.LifeAlive, err
}

// Life reports whether the process with this number still runs, or has been silent for so long
// that it counts as dead.
func (x *rx) Life(id int64) (engine.Life, error) {
	if own, err := x.Owns(id); own || err != nil {
		return engine.LifeAlive, err
	}
	return x.life(id)
}

// life judges by the row as the transaction sees it, which in a serialisable one is as old as its
// first statement. So a read returns what was true when it began. A write locks the row of a dead
// owner; if the owner has sent a heartbeat since, the lock fails, and the write runs again. No
// transaction marks others dead, since a late heartbeat changes nothing. So transactions that
// judge at the same time don't wait for each other, with all that they have locked.
func (x *rx) life(id int64) (engine.Life, error) {
	writes := x.ctx == nil
	for range 2 {
		var at struct {
			Until int64 `db:"until"`
			Now   int64 `db:"now"`
			Began int64 `db:"began"`
		}
		err := x.Get(&at, sqlLives, []any{id})
		switch {
		case errors.Is(err, engine.ErrNotFound):
			return engine.LifeDead, nil
		case err != nil:
			return engine.LifeUnknown, err
		case at.Until > at.Now, !writes && at.Until > at.Began:
			return engine.LifeAlive, nil
		case !writes, at.Until == 0:
			return engine.LifeDead, nil
		}
		switch err = x.Get(&at, sqlStays, []any{id}); {
		case errors.Is(err, engine.ErrNotFound): // forgotten: the next look shows it
		case err != nil:
			return engine.LifeUnknown, err
		case at.Until > at.Now: // it has beaten since it was looked at
			return engine.LifeAlive, nil
		default:
			return engine.LifeDead, nil
		}
	}
	return engine.LifeUnknown, nil // this user may read it and not lock it: a policy of the server's
}

// ownersAtOnce is how many owners one transaction examines. The next one continues after them.
const ownersAtOnce = 256

// ForgetDeadOwners deletes the rows of dead processes that nothing refers to any more. An owner
// that another transaction is judging stays until the next call.
func (t *tx) ForgetDeadOwners(after int64) (last int64, more bool, err error) {
	return engine.ForgetDead(t, after, ownersAtOnce, func(ids []int64) error {
		var dead []int64
		if err := t.Select(&dead, sqlForgettable, []any{numberArray(ids)}); err != nil || len(dead) == 0 {
			return err
		}
		return t.forget(dead)
	})
}

// forget deletes these rows, except those that a user's own table refers to.
func (t *tx) forget(ids []int64) error {
	s, err := t.Savepoint()
	if err != nil {
		return err
	}
	_, err = t.session.exec(sqlDropOwners, numberArray(ids))
	switch {
	case err == nil:
		return s.Release()
	case constraint(state(err)) == engine.NoConstraint:
		return errors.Join(t.after(err), s.RollBack())
	}
	if err := s.RollBack(); err != nil || len(ids) == 1 { // expected, and no reason to run all of it again
		return err
	}
	for _, id := range ids {
		if err := t.forget([]int64{id}); err != nil {
			return err
		}
	}
	return nil
}

// numberArray is the text of an array of the server's.
func numberArray(list []int64) string {
	text := []byte{'{'}
	for i, n := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, n, 10)
	}
	return string(append(text, '}'))
}
