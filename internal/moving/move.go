package moving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"selvedge/internal/engine"
	"selvedge/migrations"
)

// Options are the options of a move.
type Options struct{ Now func() time.Time }

// A Step is a step of a move.
type Step string

// The steps, in order. A move that was stopped after any of them continues from there.
const (
	Look     Step = "look"     // nothing is changed yet
	Shut     Step = "shut"     // the source is shut to writers
	Prepare  Step = "prepare"  // the target is marked as belonging to this move
	Copy     Step = "copy"     // rows are copied
	Compare  Step = "compare"  // all rows are read in both
	Complete Step = "complete" // the source records that it is moved for good
	Open     Step = "open"     // the target is open to every program
)

// A Report is the result of a move.
type Report struct {
	From, To string        // path of the file, or address of the server without its secrets
	Already  bool          // it was complete before the call
	Tables   []TableReport // by name; none if it was complete before
	Rows     int64         // of all tables
	SHA256   string        // of all rows of From, in hex; see docs/moving.md
	ToSHA256 string        // of all rows of To
	Differs  []Difference
	Left     []string // tables of From that are not part of the schema: they are not copied
}

// TableReport counts the rows of a table.
type TableReport struct {
	Table   string `json:"-"`
	Read    int64  `json:"read"`    // rows of the source
	New     int64  `json:"new"`     // of them those that this call brought
	Already int64  `json:"already"` // of them those that an earlier call had brought
	Differs int64  `json:"changed"` // rows that are not the same in both
}

// A Difference is a row that differs between source and target, or exists in one of them only.
type Difference struct {
	Table  string `json:"table"`  // where it is
	Row    string `json:"row"`    // the row's key; empty where it is about the table
	Reason string `json:"reason"` // what is the matter, for people
}

// A move is a move under way.
type move struct {
	Options
	from, to engine.Movable
	token    []byte
	// began_at of the target's row: it shows this call that no other has continued the move
	mark   int64
	plan   plan
	report Report
	counts map[string]*TableReport
}

// Move copies all rows from one database to the other, compares them, and shuts the first one for
// good. It continues a move that was stopped.
func Move(ctx context.Context, from, to engine.Movable, o Options) (Report, error) {
	m := &move{Options: o, from: from, to: to, report: Report{From: from.Path(), To: to.Path()}}
	err := m.run(ctx)
	return m.report, err
}

func (m *move) run(ctx context.Context) error {
	if m.from.Path() == m.to.Path() {
		return fmt.Errorf("%w: both are %s", engine.ErrInvalid, m.from.Path())
	}
	if err := m.step(ctx, Look); err != nil {
		return err
	}
	here, err := endOf(ctx, m.from)
	if err != nil {
		return err
	}
	there, err := endOf(ctx, m.to)
	if err != nil {
		return err
	}
	if here.done() {
		return m.finished(ctx, here, there)
	}
	if going, isGoing := here.underWay(); isGoing && there.has(going.Token) {
		return m.forgotten(ctx, going, there)
	}
	if err := m.to.Keep(ctx); err != nil {
		return err
	}
	if there, err = endOf(ctx, m.to); err != nil {
		return err
	}
	if err := m.fill(ctx, here, there); err != nil {
		return err
	}
	return m.complete(ctx)
}

// fill copies the rows of the source to the target, and compares both.
func (m *move) fill(ctx context.Context, here, there end) (err error) {
	if here.Schema != there.Schema || here.Schema != ladder.Last().Version {
		return engine.Failf(engine.ErrUnsupported, "go on with the program that began it, or undo it "+
			"with: migrate move --abandon --to "+m.to.Path(),
			"the source has schema %d and the target %d, and this program moves rows of %d", here.Schema,
			there.Schema, ladder.Last().Version)
	}
	if m.plan, err = makePlan(ctx, m.from, m.to); err != nil {
		return err
	}
	m.report.Left = m.plan.left
	if !here.done() {
		if err := m.begin(ctx, here, there); err != nil {
			return err
		}
	}
	if err := m.take(ctx); err != nil {
		return err
	}
	if err := m.copy(ctx); err != nil {
		return err
	}
	return m.compare(ctx)
}

// take marks the target as this call's. An earlier call that has lost the target without noticing,
// for example with its connection, then can't write there any more.
func (m *move) take(ctx context.Context) error {
	return m.to.Write(ctx, "go on with the move", func(t engine.Tx) error {
		row, err := m.current(t)
		if err != nil {
			return err
		}
		row.BeganAt = max(m.Now().UnixNano(), row.BeganAt+1)
		m.mark = row.BeganAt
		_, err = t.Exec(sqlTakeMove, []any{row.BeganAt, row.Checksum(), row.ID})
		return err
	}).Err
}

// write runs a write transaction on the target, unless another call has taken it.
func (m *move) write(ctx context.Context, why string, fn func(engine.Tx) error) error {
	err := m.to.Write(ctx, why, func(t engine.Tx) error {
		if err := m.mine(t); err != nil {
			return err
		}
		return fn(t)
	}).Err
	if f, ok := errors.AsType[*engine.Failure](err); ok && f.Constraint != engine.NoConstraint {
		err = engine.Failf(engine.ErrCorrupt, "give the source back with: migrate move --abandon --to "+
			m.to.Path()+", and find the row with: migrate check", "the target refuses a row: %w", err)
	}
	return err
}

// mine fails if another call has taken the target. It keeps others from taking it until the
// transaction ends.
func (m *move) mine(t engine.Tx) error {
	n, err := t.Exec(sqlMine, []any{m.token, m.mark})
	if err == nil && n != 1 {
		err = engine.Failf(engine.ErrConflict, "leave it to that one",
			"another program has gone on with the move")
	}
	return err
}

// step reports a step. It ends the move if its context has ended.
func (m *move) step(ctx context.Context, s Step) error {
	progress(ctx, engine.Progress{Step: string(s)})
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	return nil
}

// progress reports progress, in rows.
func progress(ctx context.Context, p engine.Progress) {
	if to := engine.Telling(ctx); to != nil {
		to(p)
	}
}

// An end is one database of a move as the move finds it.
type end struct {
	engine.Versions
	rows []engine.MoveRow // newest first
}

func (e end) last() engine.MoveRow {
	if len(e.rows) == 0 {
		return engine.MoveRow{}
	}
	return e.rows[0]
}

// underWay returns the unfinished move.
func (e end) underWay() (engine.MoveRow, bool) {
	last := e.last()
	return last, len(e.rows) > 0 && last.UnderWay()
}

// of returns the row of a move.
func (e end) of(token []byte) (engine.MoveRow, bool) {
	i := slices.IndexFunc(e.rows, func(r engine.MoveRow) bool { return bytes.Equal(r.Token, token) })
	if i < 0 {
		return engine.MoveRow{}, false
	}
	return e.rows[i], true
}

// has reports whether all rows of a move have arrived here.
func (e end) has(token []byte) bool {
	row, known := e.of(token)
	return known && row.Direction == engine.MovedIn && row.Outcome != nil && *row.Outcome == engine.MoveComplete
}

const (
	sqlMoves = `SELECT id, token, direction, place, began_at, ended_at, outcome, moved, proof FROM moves
		ORDER BY id DESC`
	sqlAddMove  = `INSERT INTO moves (token, direction, place, began_at, checksum) VALUES (?, ?, ?, ?, ?)`
	sqlTakeMove = `UPDATE moves SET began_at = ?, checksum = ? WHERE id = ?`
	sqlMine     = `UPDATE moves SET began_at = began_at WHERE token = ? AND began_at = ? AND ended_at IS NULL`
	sqlEndMove  = `UPDATE moves SET ended_at = ?, outcome = ?, moved = ?, proof = ?, checksum = ? WHERE id = ?
		AND ended_at IS NULL`
	sqlShut    = `UPDATE selvedge_file SET min_writer = ?`
	sqlShutAll = `UPDATE selvedge_file SET min_reader = ?, min_writer = ?`
)

func endOf(ctx context.Context, d engine.Movable) (e end, err error) {
	if e.Versions, err = d.Versions(ctx); err != nil {
		return e, err
	}
	err = d.Read(ctx, "look which moves there were",
		func(x engine.Rx) error { return x.Select(&e.rows, sqlMoves, nil) }).Err
	return e, err
}

// begin shuts the source and marks the target, unless an earlier call has done so.
func (m *move) begin(ctx context.Context, here, there end) error {
	going, isGoing := here.underWay()
	coming, isComing := there.underWay()
	switch {
	case isGoing && going.Direction == engine.MovedIn:
		return engine.Moved(going)
	case isComing && coming.Direction == engine.MovedOut:
		return engine.Moved(coming)
	case there.Shut() && !isComing:
		return engine.Moved(there.last())
	case isGoing && isComing && bytes.Equal(going.Token, coming.Token):
		m.token = going.Token
		return nil
	case isGoing && going.Place != m.to.Path():
		return engine.Moved(going)
	}
	if isComing { // an earlier move was abandoned at the source; this one sweeps up its rows
		if old, known := here.of(coming.Token); !known || old.UnderWay() {
			return engine.Moved(coming)
		}
		if err := sweep(ctx, m.to, m.plan, coming, m.Now()); err != nil {
			return err
		}
	} else if err := m.to.Read(ctx, "look whether it is empty",
		func(x engine.Rx) error { return holds(x, m.plan) }).Err; err != nil {
		return err
	}
	if isGoing {
		m.token = going.Token
	} else if err := m.shut(ctx); err != nil {
		return err
	}
	if err := m.fits(ctx); err != nil {
		return err
	}
	return m.prepare(ctx)
}

// shut keeps all programs from writing to the source from now on.
func (m *move) shut(ctx context.Context) error {
	if err := m.step(ctx, Shut); err != nil {
		return err
	}
	token, err := uuid.NewRandom()
	if err != nil {
		return err
	}
	m.token = token[:]
	return m.from.Shut(ctx, "shut it, to move its rows",
		"it is moved to "+m.to.Path()+", or is under way there", func(t engine.Tx) error {
			var last engine.MoveRow
			err := t.Get(&last, engine.SQLLastMove, nil)
			if err == nil && (last.UnderWay() || *last.Outcome == engine.MoveComplete &&
				last.Direction == engine.MovedOut) {
				return engine.Moved(last) // another call was faster
			}
			if err != nil && !errors.Is(err, engine.ErrNotFound) {
				return err
			}
			if err := m.add(t, engine.MovedOut, m.to.Path()); err != nil {
				return err
			}
			_, err = t.Exec(sqlShut, []any{engine.Shut})
			return err
		})
}

func (m *move) add(t engine.Tx, direction, place string) error {
	row := engine.MoveRow{Token: m.token, Direction: direction, Place: place, BeganAt: m.Now().UnixNano()}
	_, err := t.Exec(sqlAddMove, []any{row.Token, row.Direction, row.Place, row.BeganAt, row.Checksum()})
	return err
}

// prepare marks the target. From then on, no other program reads or writes it.
func (m *move) prepare(ctx context.Context) error {
	if err := m.step(ctx, Prepare); err != nil {
		return err
	}
	return m.to.Shut(ctx, "have rows moved into it",
		"it is being filled with what is moved from "+m.from.Path(), func(t engine.Tx) error {
			if err := holds(t, m.plan); err != nil {
				return err
			}
			if _, err := t.Exec(`DELETE FROM scopes`, nil); err != nil {
				return err
			}
			if err := m.add(t, engine.MovedIn, m.from.Path()); err != nil {
				return err
			}
			_, err := t.Exec(sqlShutAll, []any{engine.Shut, engine.Shut})
			return err
		})
}

// holds rejects a target that holds rows.
func holds(x engine.Rx, p plan) error {
	for _, t := range p.tables {
		where := ""
		if t.Name == "scopes" {
			where = " WHERE name <> ''" // the default scope is created with the schema
		}
		var n int
		if err := x.Get(&n, "SELECT count(*) FROM (SELECT 1 AS one FROM "+engine.Quoted(t.Name)+where+
			" LIMIT 1) AS some_row", nil); err != nil {
			return err
		}
		if n > 0 {
			return engine.Failf(engine.ErrConflict, "name a place that is empty: another file, another "+
				"database, or another schema with ?search_path=NAME",
				"the target holds rows already, in its table %s", t.Name)
		}
	}
	return nil
}

// complete ends the move: it first shuts the source for good, and only then opens the target.
func (m *move) complete(ctx context.Context) error {
	if err := m.step(ctx, Complete); err != nil {
		return err
	}
	err := m.from.Write(ctx, "end the move", func(t engine.Tx) error {
		return m.end(t, engine.MoveComplete)
	}).Err
	if err != nil {
		return err
	}
	return m.open(ctx)
}

// end records how the move ended, unless another program has abandoned it in the meantime.
func (m *move) end(t engine.Tx, outcome string) error {
	row, err := m.current(t)
	if err != nil {
		return err
	}
	if outcome == engine.MoveComplete {
		row.Moved, row.Proof = &m.report.Rows, &m.report.SHA256
	}
	return endRow(t, row, outcome, m.Now())
}

// current returns the row of the move, which has not ended.
func (m *move) current(t engine.Tx) (row engine.MoveRow, err error) {
	err = t.Get(&row, engine.SQLLastMove, nil)
	if err == nil && (!bytes.Equal(row.Token, m.token) || !row.UnderWay()) {
		err = engine.Failf(engine.ErrConflict, "begin it again",
			"the move was ended meanwhile by another program")
	}
	return row, err
}

func endRow(t engine.Tx, row engine.MoveRow, outcome string, at time.Time) error {
	now := at.UnixNano()
	row.EndedAt, row.Outcome = &now, &outcome
	n, err := t.Exec(sqlEndMove, []any{row.EndedAt, row.Outcome, row.Moved, row.Proof, row.Checksum(), row.ID})
	if err == nil && n != 1 {
		err = fmt.Errorf("%w: the move has ended already", engine.ErrConflict)
	}
	return err
}

// abandon reopens a source whose move is under way.
func (m *move) abandon(ctx context.Context, why string) error {
	return m.from.Reopen(ctx, why, func(t engine.Tx) error {
		if err := m.end(t, engine.MoveAbandoned); err != nil {
			return err
		}
		return unshut(t)
	})
}

// ladder is this program's ladder on both engines. It has no views: they stay as they are.
var ladder = engine.Ladder{Steps: migrations.Steps}

const (
	sqlIdentity    = `SELECT generation, created_at FROM selvedge_file`
	sqlSetIdentity = `UPDATE selvedge_file SET generation = ?, created_at = ?`
)

// open opens the target to every program. It gives the target the source's identity, so that
// cursors stay valid.
func (m *move) open(ctx context.Context) error {
	if err := m.step(ctx, Open); err != nil {
		return err
	}
	var identity struct {
		Generation int64 `db:"generation"`
		CreatedAt  int64 `db:"created_at"`
	}
	err := m.from.Read(ctx, "read what it says of itself",
		func(x engine.Rx) error { return x.Get(&identity, sqlIdentity, nil) }).Err
	if err != nil {
		return err
	}
	return m.to.Reopen(ctx, "open what was moved", func(t engine.Tx) error {
		if err := m.mine(t); err != nil {
			return err
		}
		if err := m.end(t, engine.MoveComplete); err != nil {
			return err
		}
		if _, err := t.Exec(sqlSetIdentity, []any{identity.Generation, identity.CreatedAt}); err != nil {
			return err
		}
		if err := t.Analyze(); err != nil {
			return err
		}
		return unshut(t)
	})
}

// unshut restores the lowest versions that may read and write.
func unshut(t engine.Tx) error {
	var version int64
	if err := t.Get(&version, `SELECT max(version_id) FROM goose_db_version WHERE is_applied`, nil); err != nil {
		return err
	}
	at := ladder.Step(version)
	_, err := t.Exec(sqlShutAll, []any{at.MinReader, at.MinWriter})
	return err
}

// Gone returns, as an error, where the rows of a database are that was moved for good. For any
// other database gone is nil.
func Gone(ctx context.Context, from engine.Movable) (gone, err error) {
	here, err := endOf(ctx, from)
	if here.done() {
		gone = engine.Moved(here.last())
	}
	return gone, err
}

func (e end) done() bool {
	last := e.last()
	return last.Direction == engine.MovedOut && last.Outcome != nil && *last.Outcome == engine.MoveComplete
}

// finished handles a source whose move is complete. The target may not be open yet. It may also
// have lost its last rows, as a server may after a failover; it then gets them again.
func (m *move) finished(ctx context.Context, here, there end) error {
	done := here.last()
	m.token = done.Token
	if there.has(done.Token) {
		m.already(done)
		return nil
	}
	if row, came := there.of(done.Token); came && !row.UnderWay() {
		return &engine.Failure{
			Kind: engine.ErrMoved, Hint: "give it back with: migrate move --abandon --to " + m.to.Path(),
			Err: errors.New("it is moved to " + done.Place +
				", where the move was abandoned before that one was open"),
		}
	}
	if coming, isComing := there.underWay(); !isComing || !bytes.Equal(coming.Token, done.Token) {
		return engine.Moved(done)
	}
	if err := m.to.Keep(ctx); err != nil {
		return err
	}
	if err := m.fill(ctx, here, there); err != nil {
		return err
	}
	return m.open(ctx)
}

// forgotten handles a source that lost the end of its move, as a server may after a failover, or a
// file that was replaced by a copy. The target decides.
func (m *move) forgotten(ctx context.Context, going engine.MoveRow, there end) error {
	row, _ := there.of(going.Token)
	m.token = going.Token
	m.already(row)
	return m.from.Write(ctx, "end the move",
		func(t engine.Tx) error { return m.end(t, engine.MoveComplete) }).Err
}

// already reports the proof of a move that was completed before.
func (m *move) already(row engine.MoveRow) {
	m.report.Already = true
	if row.Moved != nil {
		m.report.Rows, m.report.SHA256, m.report.ToSHA256 = *row.Moved, *row.Proof, *row.Proof
	}
}
