package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/legacy"
	"selvedge/maintenance"
)

type doctorAnswer struct {
	Path     string          `json:"path"`     // the file, absolute
	OK       bool            `json:"ok"`       // nothing is to be done
	Fixed    []string        `json:"fixed"`    // what --fix did, for people
	Findings []doctorFinding `json:"findings"` // what was looked at, in the order of the look
}

type doctorFinding struct {
	// file system, modes, links, server, engine, versions, WAL, free space, free pages, locks,
	// transactions, connections, standbys, transaction ids, archive, stale owners, reservations,
	// quarantine, retention, or a check of check
	Check string `json:"check"`
	// fine, note (good to know), todo (somebody should do something) or damaged
	State  doctorState `json:"state"`
	Detail string      `json:"detail"` // what it is
	Todo   string      `json:"todo"`   // what to do; empty where there is nothing
}

type doctorState string

const (
	stateFine    doctorState = "fine"
	stateNote    doctorState = "note"
	stateTodo    doctorState = "todo"
	stateDamaged doctorState = "damaged"
)

var _ = register("Care:", 130, func(a *app) *cobra.Command {
	fix := false
	c := &cobra.Command{
		Use:   "doctor [--fix]",
		Short: "Look at everything that can be wrong with the file, and say what to do",
		Long: `doctor looks at where the file lies, who may read it, its versions, its WAL and who keeps it, the
room on the disk, what dead processes still hold, what lies in quarantine and what retention would remove,
and runs check. It changes nothing without --fix. Damage ends it with exit code 7.

--fix does what is safe at any time: it makes views, triggers and indexes again, recovers what only the dead
held in every scope, removes what killed verifications left beside the file, and moves the WAL into the file
if nobody else has it open. It removes nothing of yours.`,
		RunE: func(c *cobra.Command, _ []string) error { return a.doctor(c.Context(), fix) },
	}
	c.Flags().BoolVar(&fix, "fix", false, "also do what is safe")
	return a.answering(c, doctorAnswer{})
})

func (a *app) doctor(ctx context.Context, fix bool) error {
	path, err := a.place()
	if err != nil {
		return err
	}
	answer := doctorAnswer{Path: path, Fixed: []string{}}
	x := &examiner{app: a, ctx: ctx, findings: []doctorFinding{}}
	if fix {
		err = a.with(ctx, toWrite, func(d *db.DB) (err error) {
			answer.Fixed, err = fixed(ctx, d)
			return err
		})
	}
	if err == nil {
		err = a.with(ctx, toLook, func(d *db.DB) error {
			answer.Path, x.d = d.Path(), d
			x.examine()
			return x.err
		})
	}
	var foreign error // the file lies beside another file's WAL: a finding, and the command fails
	switch {
	case errors.Is(err, db.ErrCorrupt): // too damaged to be opened or queried
		x.damaged("integrity", err.Error())
	case errors.Is(err, db.ErrFull): // even a reader has no room for SQLite's files beside the file
		x.find("free space", stateTodo, roomFirst, "%s", err.Error())
	case errors.Is(err, db.ErrReplaced):
		x.find("WAL", stateTodo, strings.ReplaceAll(db.Hint(err), "\n", " "), "%s", err.Error())
		foreign = err
	case err != nil:
		return err
	}
	answer.Findings = x.findings
	damaged := 0
	answer.OK = true
	for i, f := range answer.Findings {
		answer.Findings[i].Todo = a.pasteable(f.Todo)
		answer.OK = answer.OK && (f.State == stateFine || f.State == stateNote)
		if f.State == stateDamaged {
			damaged++
		}
	}
	if err := a.answer(answer, func() { a.printDoctor(answer) }); err != nil {
		return err
	}
	if damaged == 0 {
		return foreign
	}
	return a.damaged(answer.Path, damaged)
}

// roomFirst is the advice for a disk that has no room for anything.
const roomFirst = "free 1 MiB on the disk or in the quota, by removing something else; then make room " +
	"with: migrate gc --apply"

// fixed repairs what is safe to repair and returns what it did.
func fixed(ctx context.Context, d *db.DB) ([]string, error) {
	made, err := maintenance.Repair(ctx, d)
	if err != nil {
		return []string{}, err
	}
	list := each(made, func(name string) string { return "made again: " + name })
	recovered, err := maintenance.Recover(ctx, d)
	for _, r := range recovered {
		what := []string{"claim", "run", "live run", "agent", "reservation"}
		for i, n := range []int{r.Checkpoints, r.Runs, r.Live, r.Agents, r.Reservations} {
			if n > 0 {
				list = append(list, fmt.Sprintf("recovered in scope %q: %s that only the dead held", r.Scope,
					count(n, what[i])))
			}
		}
	}
	if err != nil {
		return list, err
	}
	for _, path := range legacy.RemoveLeft(d.Path()) {
		list = append(list, "removed what a verification that was killed had left: "+path)
	}
	return list, stores.ForgetDeadOwners(ctx, d)
}

// An examiner runs one check after the other, until one ends with an error.
type examiner struct {
	app      *app
	ctx      context.Context
	d        *db.DB
	findings []doctorFinding
	current  bool // the stores can read the file
	err      error
}

func (x *examiner) find(check string, state doctorState, todo, format string, args ...any) {
	x.findings = append(x.findings, doctorFinding{check, state, fmt.Sprintf(format, args...), todo})
}

func (x *examiner) fine(check, format string, args ...any) {
	x.find(check, stateFine, "", format, args...)
}

// judge adds a finding: fine, or if bad the detail in that state, with what to do about it.
func (x *examiner) judge(check string, bad bool, state doctorState, todo, detail, fine string) {
	if !bad {
		state, todo, detail = stateFine, "", fine
	}
	x.find(check, state, todo, "%s", detail)
}

func (x *examiner) damaged(check, detail string) {
	todo := "go back to a backup, or bring what is whole into a new file: migrate salvage FILE"
	if x.app.onServer() {
		todo = x.app.otherTools()["salvage"]
	}
	x.find(check, stateDamaged, todo, "%s", detail)
}

func (x *examiner) examine() {
	looks := []func() error{x.modes, x.links, x.versions, x.room, x.whole}
	if x.app.onServer() {
		x.fine("server", "the primary of %s", x.d.Path())
		looks = []func() error{x.versions, x.serverHealth, x.whole}
	} else {
		x.fine("file system", "it can hold the file") // otherwise it would not be open
	}
	for i, look := range append(looks, x.owners, x.reservations, x.quarantine, x.retention) {
		if x.err == nil && (i < len(looks) || x.current) {
			x.err = look()
		}
	}
}

// Limits for a healthy server. Tests narrow them.
var (
	longWait        = 10 * time.Second // for a lock: the stores' own transactions take milliseconds
	longTransaction = 5 * time.Minute  // autovacuum can't remove rows that it may still see
	fewLeft         = 10               // a warning comes when less than one connection in so many is left
	// half of all transaction ids; autovacuum begins to hurry at 0.1 of 2^31
	manyIDs     int64 = 1 << 30
	muchKeptWAL int64 = 64 << 20 // bytes, for a slot without a connection
)

// serverHealth checks what keeps the server from its work. It does not check the server's disk.
func (x *examiner) serverHealth() error {
	health, err := x.d.Health(x.ctx)
	if err != nil || health.Server == nil {
		return err
	}
	h := health.Server
	x.locks(h.Waits)
	switch o := h.Oldest; {
	case o.For >= longTransaction && o.PID == 0:
		x.find("transactions", stateTodo, ending(o), "a transaction %q of %s was prepared %v ago", o.Program,
			o.User, o.For.Round(time.Second))
	case o.For >= longTransaction:
		x.find("transactions", stateTodo, ending(o), "%s: what is deleted meanwhile takes room", sessionName(o))
	case !h.SeesAll:
		x.find("transactions", stateNote, "to see those of others: GRANT pg_monitor",
			"of its own the user has none that is older than %v", longTransaction)
	default:
		x.fine("transactions", "none is older than %v", longTransaction)
	}
	taken := fmt.Sprintf("%d of %d", h.Connections, h.MostConnections)
	x.judge("connections", h.MostConnections-h.Connections < h.MostConnections/fewLeft, stateTodo,
		"raise max_connections, or have fewer handles open", taken, taken)
	x.judge("standbys", h.Awaited != "" && h.SeesAll && !h.AwaitedThere, stateTodo,
		"start a standby, or say that commits wait for none: synchronous_standby_names",
		fmt.Sprintf("commits wait for %s, and none of them is there; %d wait now", h.Awaited, h.CommitsWaiting),
		fmt.Sprintf("commits wait for %s; connected: %d", standbysName(h), len(h.Standbys)))
	spent := comma(h.IDsSpent) + " of 2,147,483,648 spent"
	x.judge("transaction ids", h.IDsSpent > manyIDs, stateTodo,
		"find what keeps autovacuum back (an old transaction, a slot), and run: vacuumdb --all --freeze",
		spent, spent)
	x.keptWAL(h)
	return nil
}

// ending returns how to end a session's transaction.
func ending(s db.ServerSession) string {
	if s.PID == 0 {
		return "commit it, or roll it back: ROLLBACK PREPARED, with its name in pg_prepared_xacts"
	}
	return fmt.Sprintf("see what it does; to end it: SELECT pg_terminate_backend(%d)", s.PID)
}

func (x *examiner) locks(waits []db.LockWait) {
	if len(waits) == 0 || waits[0].Waited < longWait {
		x.fine("locks", "nobody waits for longer than %v", longWait)
	}
	for _, w := range waits {
		if w.Waited >= longWait {
			x.find("locks", stateTodo, ending(w.HeldBy[0]), "%s", waitName(w))
		}
	}
}

func (x *examiner) keptWAL(h *db.ServerHealth) {
	before := len(x.findings)
	for _, s := range h.Slots {
		if s.Kept > muchKeptWAL {
			x.find("WAL", stateTodo, "where nobody comes back to it: SELECT pg_drop_replication_slot('"+
				strings.ReplaceAll(s.Name, "'", "''")+"')",
				"the replication slot %s keeps %s for somebody who is not connected", s.Name, size(s.Kept))
		}
	}
	if len(x.findings) == before {
		x.fine("WAL", "no unused slot keeps much of it")
	}
	x.judge("archive", h.ArchiveFails != "", stateTodo,
		"see the server's log: the WAL grows until the archive takes it", "it refuses "+h.ArchiveFails,
		"it refuses nothing")
}

func (x *examiner) modes() error {
	var open []string
	for _, suffix := range []string{"", "-wal", "-shm"} {
		path := x.d.Path() + suffix
		switch info, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case info.Mode().Perm()&0o077 != 0:
			open = append(open, path)
		}
	}
	x.judge("modes", len(open) > 0, stateNote,
		"if that is not meant: chmod go= "+strings.Join(each(open, shellWord), " "),
		"others may read or write it: "+strings.Join(open, ", "), "only its user may read it")
	return nil
}

func (x *examiner) links() error {
	info, err := os.Lstat(x.d.Path())
	if err != nil {
		return err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Nlink > 1 {
		x.find("links", stateTodo, "remove the other name: SQLite keeps a WAL for each, and writing under two "+
			"corrupts the file", "it has %d names", s.Nlink)
	} else {
		x.fine("links", "it has one name")
	}
	return nil
}

func (x *examiner) versions() error {
	s, err := x.d.Stats(x.ctx)
	if err != nil {
		return err
	}
	x.fine("engine", "%s", s.Engine)
	const differ = "its schema is %d, this program's is %d"
	schema, err := x.d.Schema(x.ctx)
	if err != nil {
		return err
	}
	switch program := maintenance.SchemaVersion(); {
	case schema.Moved:
		x.find("versions", stateNote, "use the database that it was moved to", "it is at %s now", schema.MovedTo)
	case s.Schema < program:
		x.find("versions", stateTodo, "bring it to this program's schema with: migrate up", differ, s.Schema,
			program)
	case s.Schema > program:
		x.find("versions", stateNote, "use the newer program that wrote it", differ, s.Schema, program)
	default:
		x.current = true
		x.fine("versions", "schema %d", s.Schema)
	}
	return nil
}

const (
	fatWAL     = 64 << 20 // bytes; it stays below this unless a read takes long
	littleDisk = 64 << 20 // bytes; about the size of a WAL
)

func (x *examiner) room() error {
	h, err := x.d.Health(x.ctx)
	if err != nil {
		return err
	}
	wal := size(h.WALBytes)
	if len(h.Readers) > 0 {
		wal += ", read at the moment by process " + pids(h.Readers)
	}
	x.judge("WAL", h.WALBytes > fatWAL, stateTodo,
		"end the read that takes long; with nobody else in the file: migrate doctor --fix",
		wal+": it can't start again while a read goes on", wal)
	disk := size(h.DiskFree) + " free on the disk"
	x.judge("free space", h.Full || h.DiskFree < max(littleDisk, h.FileBytes/20), stateTodo,
		"make room, or remove what is not needed: migrate gc --apply", disk, disk)
	free := h.FreePages * h.PageSize
	x.judge("free pages", free > h.FileBytes/4 && free > 16<<20, stateTodo,
		"open it in a program, which gives them back, or: migrate compact",
		size(free)+" of the file hold nothing", size(free))
	return nil
}

func (x *examiner) whole() error {
	return x.app.withProgress(x.ctx, "", func(ctx context.Context) error {
		examined, err := maintenance.Examine(ctx, x.d)
		if err != nil {
			return err
		}
		for _, p := range examined.Problems {
			x.damaged(p.Check, p.Detail)
			if p.Check == "schema" {
				x.findings[len(x.findings)-1].Todo = "views, triggers and indexes can be made again: migrate doctor --fix"
			}
		}
		whole := "pages, schema, foreign keys, invariants and checksums are whole"
		if x.app.onServer() {
			whole = "tables, invariants and checksums are whole; pages are for pg_amcheck"
		}
		if len(examined.Problems) == 0 {
			x.fine("check", "%s", whole)
		}
		return nil
	})
}

func (x *examiner) owners() error {
	dead, err := stores.Get(x.ctx, x.d.Read, "look for dead owners", func(rx *db.Rx) (dead int, err error) {
		var ids []int64
		if err := rx.Select(&ids, `SELECT id FROM owners`); err != nil {
			return 0, err
		}
		for _, id := range ids {
			life, err := rx.Store().OwnerLife(id)
			if err != nil {
				return 0, err
			}
			if life == txn.LifeDead {
				dead++
			}
		}
		return dead, nil
	})
	if err != nil {
		return err
	}
	processes := fmt.Sprint(dead, " processes")
	if dead == 1 {
		processes = "1 process"
	}
	x.judge("stale owners", dead > 0, stateTodo, "take back what they may hold: migrate doctor --fix",
		processes+" that wrote here are gone and not yet forgotten", "no process that is gone holds anything")
	return nil
}

func (x *examiner) reservations() error {
	scopes, err := scopeNames(x.ctx, x.d, "id")
	if err != nil {
		return err
	}
	over := 0
	for _, scope := range scopes {
		for r, err := range x.d.AllReservations(x.ctx, db.ReservationFilter{Scope: scope}) {
			if err != nil {
				return err
			}
			if r.State.Over() {
				over++
			}
		}
	}
	x.judge("reservations", over > 0, stateNote,
		"they are in nobody's way; tidy them up with: migrate doctor --fix",
		count(over, "reservation")+" are over", "none is over")
	return nil
}

func (x *examiner) quarantine() error {
	var pieces []struct {
		Scope string `db:"name"`
		N     int64  `db:"n"`
	}
	err := x.d.Read(x.ctx, "count the quarantine", func(rx *db.Rx) error {
		return rx.Select(&pieces, `SELECT s.name, count(*) AS n FROM quarantine AS q
			JOIN scopes AS s ON s.id = q.scope GROUP BY s.name ORDER BY s.name`)
	})
	for _, p := range pieces {
		x.find("quarantine", stateTodo, "see what an import could not take: "+x.in(p.Scope, "quarantine list"),
			"%s in scope %q", count(p.N, "piece"), p.Scope)
	}
	if len(pieces) == 0 && err == nil {
		x.fine("quarantine", "nothing lies there")
	}
	return err
}

// in returns a command in a scope. pasteable adds the flags for the file and the scope in use.
func (x *examiner) in(scope, command string) string {
	if scope != x.app.scope {
		command += " --scope " + shellWord(scope)
	}
	return "migrate " + command
}

func (x *examiner) retention() error {
	scopes, err := scopeNames(x.ctx, x.d, "id")
	overdue := 0
	for _, scope := range scopes {
		done, err := maintenance.Prune(x.ctx, x.d, maintenance.PruneOptions{Scope: scope, DryRun: true})
		if err != nil {
			return err
		}
		for _, p := range done {
			if p.Removed > 0 {
				overdue += p.Removed
				x.find("retention", stateTodo, x.in(scope, "gc --apply"),
					"%s of %s in scope %q are older or more than its retention keeps", comma(p.Removed), p.Store, scope)
			}
		}
	}
	if overdue == 0 && err == nil {
		x.fine("retention", "nothing is overdue")
	}
	return err
}

func (a *app) printDoctor(answer doctorAnswer) {
	for _, done := range answer.Fixed {
		a.print("%s\n", done)
	}
	g := &grid{header: []string{"check", "state", "detail"}, whole: true}
	for _, f := range answer.Findings {
		g.add(f.Check, string(f.State), f.Detail)
	}
	a.printGrid(g)
	for _, f := range answer.Findings {
		if f.Todo != "" {
			a.print("%s: %s\n", f.Check, f.Todo)
		}
	}
}
