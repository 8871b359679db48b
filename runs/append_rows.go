package runs

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/txn"
)

// maxSequence is the number of lines that a trace can hold. A sequence is the lower 24 bits of a
// record's id.
const maxSequence = 1<<24 - 1

// prepared is a checked batch, with everything that can be computed before the transaction begins.
type prepared struct {
	Batch
	ref     RunRef
	rows    []recordRow // parallel to Records, which are nil for imported lines that are no records
	turns   bool        // only turns that count nothing: the run's own row stays as it is
	digest  []byte
	undated bool  // a record has no time and gets that of the transaction
	epoch   int64 // of the lease by which the caller holds the run; 0: none
	scope   int64 // of the run; set with the row of the run
	begins  bool  // the run must not exist: errExists
}

var errExists = fmt.Errorf("%w: there is such a run", db.ErrConflict)

// prepare checks a batch. It returns an error for an invalid id and for a record that could not be
// read back.
func prepare(b Batch) (prepared, error) {
	p := prepared{
		Batch: b, ref: RunRef{AgentID: b.AgentID, RunID: b.RunID}, rows: make([]recordRow, len(b.Records)),
		turns: b.Key == "" && b.Repeat == 0 && b.Parent == RunRef{},
	}
	err := p.checkIDs()
	for i := 0; err == nil && i < len(b.Records); i++ {
		if p.rows[i], err = rowOf(b.Records[i]); err != nil {
			err = txn.Invalid("mend what it names: a record must be read back as it was given",
				"record %d of %d: %w", i+1, len(b.Records), err)
		}
		p.rows[i].count()
		p.turns = p.turns && p.rows[i].kind == kindTurn && p.rows[i].counts == nil
		_, undated := dated(b.Records[i], time.Time{})
		p.undated = p.undated || undated
	}
	if err == nil && b.Key != "" {
		p.digest, err = digestOf(p.rows)
	}
	if err != nil {
		err = p.ref.failed(opAppend, err)
	}
	return p, err
}

func (p *prepared) checkIDs() error {
	err := cmp.Or(p.ref.check(), txn.CheckID("append key", p.Key))
	if err != nil || p.Parent == (RunRef{}) {
		return err
	}
	switch err = p.Parent.check(); {
	case err != nil:
	case p.Parent == p.ref:
		err = txn.Invalid("name the run that started this one, or none", "a run is not its own parent")
	case len(p.Records) == 0:
		err = txn.Invalid("give the parent with the records", "a batch without records has a parent")
	}
	return err
}

func digestOf(rows []recordRow) ([]byte, error) {
	sum := sha256.New()
	for i := range rows {
		line, err := rows[i].Line()
		if err != nil {
			return nil, err
		}
		sum.Write(line)
		sum.Write([]byte{'\n'})
	}
	return sum.Sum(nil), nil
}

// change runs a statement that may be the only one of the transaction.
type change func(query string, args ...any) (int64, error)

// append appends to the run on behalf of this process. It reports whether it was made before.
func (p prepared) append(tx *db.Tx, s *Store, only change) (repeated bool, err error) {
	owner, err := tx.Store().Owner()
	if err != nil {
		return false, err
	}
	if p.undated {
		if err := p.date(tx.Now()); err != nil {
			return false, err
		}
	}
	p.stamp(tx)
	if key, known := s.keys.find(p.ref); known && p.turns {
		done := false
		if tx.Store().SingleWriter() {
			done, err = appendToOwn(tx, key, owner, p)
		} else {
			done, err = appendBehind(tx, key, owner, p, only)
		}
		if done || err != nil {
			return false, err
		}
	}
	scope, err := tx.Store().Scope(s.scope)
	if err != nil {
		return false, err
	}
	key, repeated, err := p.appendToAny(tx, s, scope, &owner)
	if err != nil {
		return false, err
	}
	if key != 0 {
		ref, keys := p.ref, &s.keys // capturing p would allocate all of it
		tx.AfterCommit(func() { keys.keep(ref, key) })
	}
	return repeated, nil
}

// dated sets the time of a record that a caller made without one, and reports whether it did.
func dated(r Record, now time.Time) (Record, bool) {
	switch r := r.(type) {
	case Started:
		if r.StartedAt.IsZero() && r.from.Made() {
			r.StartedAt = now
			return r, true
		}
	case Ended:
		if r.EndedAt.IsZero() && r.from.Made() {
			r.EndedAt = now
			return r, true
		}
	}
	return r, false
}

// date sets the time of the undated records. It copies the slices first, since the transaction may
// run again.
func (p *prepared) date(now time.Time) (err error) {
	p.Records, p.rows = slices.Clone(p.Records), slices.Clone(p.rows)
	for i, r := range p.Records {
		record, changed := dated(r, now)
		if !changed {
			continue
		}
		p.Records[i] = record
		if p.rows[i], err = rowOf(record); err != nil {
			return p.ref.failed(opAppend, err)
		}
	}
	return nil
}

// stamp sets the columns of the rows that depend on the transaction.
func (p *prepared) stamp(tx *db.Tx) {
	var now any = db.Nanos(tx.Now())
	for i := range p.rows {
		p.rows[i].recordedAt = now
	}
	p.rows[0].batch = tx.Batch()
}

// sqlAppendTurn is the hot statement. It takes the run's next sequence and inserts the row in one
// statement that changes one b-tree, provided that the run is open, belongs to this process already
// and has room for more than one line. Otherwise the id is one that exists, or 0, which no row may
// have, and nothing is written. sqlAppendTurnHeld is for the holder of a run. (An INSERT … SELECT that
// selects nothing in that case would go through a temporary table, because it reads the table it
// writes to.) For each parameter the driver goes through all of them, so constants are written out.
const (
	sqlAppendTurn     = appendTurn + `epoch IS NULL` + appendTurnRest
	sqlAppendTurnHeld = appendTurn + `epoch = ?` + appendTurnRest

	appendTurn = `INSERT OR IGNORE INTO run_records (id, ` + writtenColumns + `) VALUES (coalesce((
    SELECT nullif(coalesce((SELECT id FROM run_records WHERE id > key << 24 AND id < (key + 1) << 24
    ORDER BY id DESC LIMIT 1), key << 24) + 1, (key << 24) + 16777215)
    FROM runs WHERE key = ? AND turn_count IS NULL AND owner_id = ? AND `
	appendTurnRest = `), (SELECT max(id) FROM run_records), 0),
    'turn', NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
    (SELECT bytes FROM run_records WHERE id > ? << 24 AND id < (? + 1) << 24 ORDER BY id DESC LIMIT 1) + ?)`
)

const sqlAppendRow = `INSERT INTO run_records (id, ` + writtenColumns +
	`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// appendToOwn appends turns to the run with this key. done is false if that is not an open run of
// this process.
func appendToOwn(tx *db.Tx, key, owner int64, p prepared) (done bool, err error) {
	var run any = key
	query, before := sqlAppendTurn, 0
	if p.epoch != 0 {
		query, before = sqlAppendTurnHeld, 1
	}
	args := p.rows[0].args(make([]any, before, 21)...)
	args[0], args[1] = run, owner // replacing the kind, and the column that no turn has
	if p.epoch != 0 {
		args[2] = p.epoch
	}
	args = append(args, run, run, int64(p.rows[0].size()))
	written, err := tx.Exec(query, args...)
	if err != nil || written == 0 {
		return false, err
	}
	if len(p.rows) == 1 {
		return true, nil
	}
	last, err := lastOf(tx, key)
	if err != nil {
		return false, err
	}
	return true, appendRows(tx, p, last, p.rows[1:])
}

// sqlAppendNext is sqlAppendTurn for stores with several writers. The run's row is locked before
// it, so that it reads the last line; if it read too early, its id is taken. A run of another live
// process keeps its owner.
const sqlAppendNext = `INSERT INTO run_records (id, ` + writtenColumns + `)
SELECT coalesce(l.id, r.key << 24) + 1, 'turn', NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, l.bytes + ?
FROM runs AS r LEFT JOIN LATERAL (SELECT id, bytes FROM run_records WHERE id > r.key << 24
	AND id < (r.key + 1) << 24 ORDER BY id DESC LIMIT 1) AS l ON true
WHERE r.key = ? AND r.turn_count IS NULL AND (r.owner_id = ? OR %s) AND r.epoch IS NOT DISTINCT FROM ?
	AND (l.id IS NULL OR l.id < (r.key << 24) + 16777214)`

// appendBehind is appendToOwn for stores with several writers. It appends one turn, also to a run
// of another live process.
func appendBehind(tx *db.Tx, key, owner int64, p prepared, only change) (bool, error) {
	if len(p.rows) > 1 {
		return false, nil
	}
	if err := tx.Store().WillChange(keyByKey, key); err != nil {
		return false, err
	}
	args := p.rows[0].args(make([]any, 0, 20)...)[2:] // without the kind and the column no turn has
	n, err := only(fmt.Sprintf(sqlAppendNext, tx.Store().AliveSQL("r.owner_id")),
		append(args, int64(p.rows[0].size()), key, owner, p.heldUnder())...)
	return n > 0, err
}

// heldUnder returns the value that runs.epoch must have for the caller: its lease's epoch, or NULL.
func (p *prepared) heldUnder() any {
	if p.epoch == 0 {
		return nil
	}
	return p.epoch
}

// appendRows inserts rows after the last one.
func appendRows(tx *db.Tx, p prepared, last lastRow, rows []recordRow) error {
	if err := p.fits(last.ID&maxSequence + int64(len(rows))); err != nil {
		return err
	}
	var few [20]any
	for i := range rows {
		last.ID++
		last.add(rows[i].size())
		if err := tx.Store().Queue(sqlAppendRow, append(rows[i].args(append(few[:0], last.ID)...),
			txn.Arg(last.Bytes))...); err != nil {
			return err
		}
		if err := rows[i].putUsage(tx, p.scope, p.ref, last.ID); err != nil {
			return err
		}
	}
	return nil
}

// fits checks how long the trace would be. The last line of a trace is reserved for an end, so that
// the run can be closed.
func (p *prepared) fits(lines int64) error {
	if lines < maxSequence {
		return nil
	}
	if lines == maxSequence {
		switch last := p.Records[len(p.Records)-1].(type) {
		case nil, Ended: // nil: an imported line
			return nil
		case Unknown:
			if last.status().word == laterCancelled {
				return nil
			}
		}
	}
	return &db.Error{
		Op: opAppend, Entity: "run", ID: p.ref.RunID, Hint: "end this run, and go on in a new one",
		Err: fmt.Errorf("%w: a run holds at most %d lines, the last of them its end", db.ErrInvalid, maxSequence),
	}
}

// runRow holds the columns of a run that an append needs.
type runRow struct {
	Key     int64  `db:"key"`
	OwnerID *int64 `db:"owner_id"`
	Epoch   *int64 `db:"epoch"`
	runState
}

var (
	sqlFindRun = `SELECT key, owner_id, epoch, ` + stateColumns +
		` FROM runs WHERE scope = ? AND run_id = ? AND agent_id = ?`
	runByName = txn.Runs.Rows(sqlFindRun)
	runToAdd  = runByName.OrAdded()
	keyByName = txn.Runs.Rows(sqlRunOfAgent)
	keyByKey  = txn.Runs.Rows(sqlRunByKey)

	sqlAddRun = `INSERT INTO runs (scope, agent_id, run_id, ` + runColumns + `) VALUES (?, ?, ?, ` +
		runMarks + `) RETURNING key`
	sqlAddRunAs = `INSERT INTO runs (scope, agent_id, run_id, ` + runColumns + `, key) VALUES (?, ?, ?, ` +
		runMarks + `, ?)`
	sqlChangeRun = `UPDATE runs SET (` + runColumns + `) = (` + runMarks + `) WHERE key = ?`

	sqlFindSpent = `SELECT digest FROM run_spent_keys WHERE scope = ?1 AND ` + paging.Same("run_id", "?2") +
		` AND ` + paging.Same("agent_id", "?3") + ` AND ` + paging.Same("append_key", "?4")
	sqlFindTaken = sqlFindSpent + ` AND run = ?5`

	runColumns = stateColumns + `, owner_id, checksum`
	runMarks   = `?` + strings.Repeat(`, ?`, strings.Count(runColumns, `,`))
)

const (
	sqlLastRecord = `SELECT id, bytes FROM run_records WHERE id > ? AND id < ? ORDER BY id DESC LIMIT 1`
	sqlSetParent  = `UPDATE runs SET parent = ? WHERE key = ?`
	sqlFindBatch  = `SELECT id FROM run_records WHERE id > ? AND id < ? AND batch = ? LIMIT 1`
	sqlFindKey    = `SELECT digest FROM run_append_keys WHERE run = ? AND append_key = ?`
	sqlAddKey     = `INSERT INTO run_append_keys (run, append_key, digest, checksum) VALUES (?, ?, ?, ?)`
)

// appendToAny appends to any run, or creates it, and returns its key. The key is 0 if the append
// was made before, to a run that is gone. A nil owner leaves the run without one. A nil store is a
// following import, which adds lines to a held run too: its lease is of this file, not of the tree's
// program.
func (p prepared) appendToAny(tx *db.Tx, s *Store, scope int64, owner *int64) (key int64, repeated bool,
	err error,
) {
	p.scope = scope
	var run runRow
	found, err := tx.Store().FindToChange(&run, runToAdd, scope, p.ref.RunID, p.ref.AgentID)
	if err != nil {
		return 0, false, err
	}
	if found && p.begins {
		return 0, false, errExists
	}
	if found && p.Repeat != 0 {
		if kept, err := tx.Find(new(int64), sqlFindBatch, run.Key<<24, (run.Key+1)<<24, p.Repeat); kept ||
			err != nil {
			return run.Key, kept, err
		}
	}
	if p.Key != "" {
		var digest []byte
		var known bool
		if !found {
			known, err = tx.Find(&digest, sqlFindSpent, scope, p.ref.RunID, p.ref.AgentID, p.Key)
		} else if known, err = tx.Find(&digest, sqlFindKey, run.Key, p.Key); err == nil && !known {
			// A removal takes the keys of a run before the run itself. The keys of an earlier run
			// of the same name do not count.
			known, err = tx.Find(&digest, sqlFindTaken, scope, p.ref.RunID, p.ref.AgentID, p.Key, run.Key)
		}
		if err != nil {
			return 0, false, err
		}
		if known {
			return run.Key, true, p.repeated(digest)
		}
	}
	if found && s != nil {
		if err := p.checkHolder(tx, s, &run); err != nil {
			return 0, false, err
		}
	}
	if !found {
		run.runState = newState()
	}
	before := run.runState
	last, err := lastOf(tx, run.Key)
	if err != nil {
		return 0, false, err
	}
	for _, r := range p.Records {
		run.add(p.ref, r)
	}
	run.close(last.ID&maxSequence + int64(len(p.rows)))
	switch {
	case run.EndedAt != nil:
		owner = nil
	case owner != nil && run.OwnerID != nil && *run.OwnerID != *owner:
		// A helper writes to another process's run. The run keeps its owner while that process
		// lives.
		if alive, err := tx.Store().OwnerAlive(*run.OwnerID); err != nil {
			return 0, false, err
		} else if alive {
			owner = run.OwnerID
		}
	}
	name, columns := run.runState.args(scope, p.ref, owner)
	if !found {
		if err := tx.Get(&run.Key, sqlAddRun, slices.Concat(name, columns)...); err != nil {
			return 0, false, err
		}
	}
	if last.ID == 0 {
		last = lastRow{run.Key << 24, new(int64)}
	}
	if err := appendRows(tx, p, last, p.rows); err != nil {
		return 0, false, err
	}
	if found && (!before.same(run.runState) || !same(run.OwnerID, owner)) {
		if err := tx.Store().Queue(sqlChangeRun, append(columns, run.Key)...); err != nil {
			return 0, false, err
		}
	}
	if p.Parent != (RunRef{}) {
		if err := p.adopt(tx, scope, run.Key); err != nil {
			return 0, false, err
		}
	}
	if p.Key != "" {
		err = tx.Store().Queue(sqlAddKey, run.Key, p.Key, p.digest, txn.Checksum(p.Key, p.digest))
	}
	return run.Key, false, err
}

// checkHolder returns an error if p may not write to the run, because another caller holds it.
func (p *prepared) checkHolder(tx *db.Tx, s *Store, run *runRow) error {
	switch {
	case p.epoch == 0:
		return s.free(tx, opAppend, p.ref, run)
	case !same(run.Epoch, &p.epoch):
		return p.ref.failed(opHeld, fmt.Errorf("%w: another holder has the run", db.ErrLeaseLost))
	case run.EndedAt != nil && run.Status != string(StatusIncomplete):
		return &db.Error{
			Op: opHeld, Entity: "run", ID: p.ref.RunID, Hint: "release it, and begin a new run",
			Err: fmt.Errorf("%w: it is %s", db.ErrConflict, run.Status),
		}
	}
	return nil
}

// addRun creates a run that does not exist, with all its records and without an owner.
func (p *prepared) addRun(tx *db.Tx, scope int64) (key int64, err error) {
	p.scope = scope
	state := newState()
	for _, r := range p.Records {
		state.add(p.ref, r)
	}
	state.close(int64(len(p.rows)))
	if key, err = tx.Store().Number("runs"); err != nil {
		return 0, err
	}
	name, columns := state.args(scope, p.ref, nil)
	if err := tx.Store().Queue(sqlAddRunAs, append(slices.Concat(name, columns), key)...); err != nil {
		return 0, err
	}
	return key, appendRows(tx, *p, lastRow{key << 24, new(int64)}, p.rows)
}

// adopt records the run's parent.
func (p *prepared) adopt(tx *db.Tx, scope, key int64) error {
	var parent int64
	found, err := tx.Find(&parent, sqlRunOfAgent, scope, p.Parent.RunID, p.Parent.AgentID)
	if err == nil && !found {
		err = p.Parent.failed(opAppend, db.ErrNotFound)
	}
	if err == nil {
		_, err = tx.Exec(sqlSetParent, parent, key)
	}
	return err
}

// repeated returns ErrConflict if the records differ from those stored under the key.
func (p prepared) repeated(digest []byte) error {
	if string(digest) == string(p.digest) {
		return nil
	}
	return &db.Error{
		Op: opAppend, Entity: "append key", ID: p.Key, Hint: "use a new key for other records",
		Err: fmt.Errorf("%w: run %q has other records under this key", db.ErrConflict, p.ref.RunID),
	}
}

// A lastRow is the last record of a run. It is zero if the run has none.
type lastRow struct {
	ID    int64  `db:"id"`
	Bytes *int64 `db:"bytes"` // nil: not known, for this row and all that follow
}

func (r *lastRow) add(bytes int) {
	if r.Bytes != nil {
		total := *r.Bytes + int64(bytes)
		r.Bytes = &total
	}
}

func lastOf(tx *db.Tx, key int64) (last lastRow, err error) {
	_, err = tx.Find(&last, sqlLastRecord, key<<24, (key+1)<<24)
	return last, err
}

// args returns the name of the run, and the values of its state's columns, the owner and the
// checksum.
func (s *runState) args(scope int64, ref RunRef, owner *int64) (name, rest []any) {
	name = []any{scope, ref.AgentID, ref.RunID}
	rest = s.values()
	return name, append(rest, owner, txn.Checksum(slices.Concat(name, rest)...))
}

// same reports whether two pointers are both nil or point at equal values.
func same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
