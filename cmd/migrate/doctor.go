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

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"selvedge/db"
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

func init() { register(groupCare, (*app).doctorCommand) }

func (a *app) doctorCommand() *cobra.Command {
	fix := false
	c := &cobra.Command{
		Use:   "doctor [--fix]",
		Short: "Look at everything that can be wrong with the file, and say what to do",
		Long: `doctor looks at where the file lies, who may read it, its versions, its WAL and who keeps it, what room there is, what the
dead still hold, what lies in quarantine and what retention would remove, and runs check. It changes nothing without --fix. Damage ends it
with exit code 7.

--fix does what is safe at any time: views, triggers and indexes are made again, what only the dead held is recovered in every
scope, what killed verifications left beside the file is removed, and the WAL is moved into the file if nobody else has it open. It
removes nothing of yours.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.doctor(c.Context(), fix) },
	}
	c.Flags().BoolVar(&fix, "fix", false, "also do what is safe")
	return a.answering(c, doctorAnswer{})
}

func (a *app) doctor(ctx context.Context, fix bool) error {
	path, err := a.place()
	if err != nil {
		return err
	}
	answer := doctorAnswer{Path: path, Fixed: []string{}, Findings: []doctorFinding{}}
	if fix {
		err = a.with(ctx, toWrite, func(d *db.DB) (err error) {
			answer.Fixed, err = fixed(ctx, d)
			return err
		})
	}
	if err == nil {
		err = a.with(ctx, toLook, func(d *db.DB) error {
			answer.Path = d.Path()
			x := &examiner{app: a, ctx: ctx, d: d}
			x.examine()
			answer.Findings = x.findings
			return x.err
		})
	}
	if errors.Is(err, db.ErrCorrupt) { // too damaged to be opened, or to be asked
		answer.Findings, err = append(answer.Findings, a.damagedFinding("integrity", err.Error())), nil
	}
	// so full that not even a reader finds room for what SQLite keeps beside the file
	if errors.Is(err, db.ErrFull) {
		answer.Findings = append(answer.Findings,
			doctorFinding{Check: "free space", State: stateTodo, Detail: err.Error(), Todo: roomFirst})
		err = nil
	}
	var foreign error // the file beside a WAL of another: the command fails, and says it among its findings
	if errors.Is(err, db.ErrReplaced) {
		answer.Findings = append(answer.Findings,
			doctorFinding{
				Check: "WAL", State: stateTodo, Detail: err.Error(),
				Todo: strings.ReplaceAll(db.Hint(err), "\n", " "),
			})
		foreign, err = err, nil
	}
	if err != nil {
		return err
	}
	damaged := 0
	answer.OK = true
	for i, f := range answer.Findings {
		answer.Findings[i].Todo = a.pasteable(f.Todo)
		answer.OK = answer.OK && (f.State == stateFine || f.State == stateNote)
		if f.State == stateDamaged {
			damaged++
		}
	}
	if err := a.printDoctor(answer); err != nil {
		return err
	}
	if damaged == 0 {
		return foreign
	}
	return &fault{
		kind: kindDamaged, err: fmt.Errorf("%s is damaged: %s", answer.Path, count(damaged, "problem")),
		hint: a.damageHint(),
	}
}

// roomFirst is what to do about a disk that has no room for anything.
const roomFirst = "free 1 MiB on the disk or in the quota, by removing something else; then make room " +
	"with: migrate gc --apply"

// fixed does what is safe and says what there was to do.
func fixed(ctx context.Context, d *db.DB) ([]string, error) {
	list := []string{}
	made, err := d.Repair(ctx)
	if err != nil {
		return list, err
	}
	for _, name := range made {
		list = append(list, "made again: "+name)
	}
	recovered, err := maintenance.Recover(ctx, d)
	for _, r := range recovered {
		for _, part := range []struct {
			n    int
			what string
		}{
			{r.Checkpoints, "claim"},
			{r.Runs, "run"},
			{r.Live, "live run"},
			{r.Agents, "agent"},
			{r.Reservations, "reservation"},
		} {
			if part.n > 0 {
				list = append(list, fmt.Sprintf("recovered in scope %q: %s that only the dead held", r.Scope,
					count(part.n, part.what)))
			}
		}
	}
	if err != nil {
		return list, err
	}
	for _, path := range legacy.RemoveLeft(d.Path()) {
		list = append(list, "removed what a verification that was killed had left: "+path)
	}
	return list, d.ForgetDeadOwners(ctx)
}

// An examiner asks one question after the other. An error of one ends it.
type examiner struct {
	app      *app
	ctx      context.Context
	d        *db.DB
	findings []doctorFinding
	err      error
}

func (x *examiner) say(check string, state doctorState, todo, format string, args ...any) {
	x.findings = append(x.findings, doctorFinding{
		Check: check, State: state,
		Detail: fmt.Sprintf(format, args...), Todo: todo,
	})
}

func (a *app) damagedFinding(check, detail string) doctorFinding {
	todo := "go back to a backup, or bring what is whole into a new file: migrate salvage FILE"
	if a.onServer() {
		todo = a.otherTools()["salvage"]
	}
	return doctorFinding{Check: check, State: stateDamaged, Detail: detail, Todo: todo}
}

// damageHint is what to do first about damage.
func (a *app) damageHint() string {
	if a.onServer() {
		return "stop the programs that use it and copy it as it is; then " + a.otherTools()["salvage"]
	}
	return "stop the programs that use it and keep a copy of it with its -wal; where there is no backup, " +
		"bring what is whole into a new file: " +
		"migrate salvage " + shellWord(a.path+".salvaged")
}

func (x *examiner) examine() {
	current := false
	looks := []func(){
		x.fileSystem, x.modes, x.links,
		func() { current = x.versions() },
		x.room, x.whole,
	}
	if x.app.onServer() {
		looks = []func(){x.server, func() { current = x.versions() }, x.serverHealth, x.whole}
	}
	for _, look := range looks {
		if x.err == nil {
			look()
		}
	}
	if !current || x.err != nil {
		return
	}
	for _, look := range []func(){x.owners, x.reservations, x.quarantine, x.retention} {
		if x.err == nil {
			look()
		}
	}
}

func (x *examiner) fileSystem() {
	x.say("file system", stateFine, "", "it can hold the file") // else it would not be open
}

// server says where it is.
func (x *examiner) server() { x.say("server", stateFine, "", "the primary of %s", x.d.Path()) }

// Bounds of what a server bears. Tests narrow them.
var (
	longWait        = 10 * time.Second // for a lock: the stores' own transactions take milliseconds
	longTransaction = 5 * time.Minute  // autovacuum can't clear up behind it
	fewLeft         = 10               // one in so many connections
	// half of those that there are; autovacuum begins to hurry at 0.1 of 2^31
	manyIDs     int64 = 1 << 30
	muchKeptWAL int64 = 64 << 20 // bytes, for a slot that nobody uses
)

// serverHealth looks at what keeps the server from its work. It does not look at the server's disk.
func (x *examiner) serverHealth() {
	health, err := x.d.Health(x.ctx)
	if x.err = err; err != nil || health.Server == nil {
		return
	}
	h := health.Server
	x.locks(h.Waits)
	switch o := h.Oldest; {
	case o.For >= longTransaction && o.PID == 0:
		x.say("transactions", stateTodo, ending(o), "a transaction %q of %s was prepared %v ago", o.Program,
			o.User, o.For.Round(time.Second))
	case o.For >= longTransaction:
		x.say("transactions", stateTodo, ending(o), "%s: what is deleted meanwhile takes room", sessionName(o))
	case !h.SeesAll:
		x.say("transactions", stateNote, "to see those of others: GRANT pg_monitor",
			"of its own the user has none that is older than %v", longTransaction)
	default:
		x.say("transactions", stateFine, "", "none is older than %v", longTransaction)
	}
	state, todo := stateFine, ""
	if h.MostConnections-h.Connections < h.MostConnections/fewLeft {
		state, todo = stateTodo, "raise max_connections, or have fewer handles open"
	}
	x.say("connections", state, todo, "%d of %d", h.Connections, h.MostConnections)
	switch {
	case h.Awaited != "" && h.SeesAll && !h.AwaitedThere:
		x.say("standbys", stateTodo, "start a standby, or say that commits wait for none: "+
			"synchronous_standby_names",
			"commits wait for %s, and none of them is there; %d wait now", h.Awaited, h.CommitsWaiting)
	default:
		x.say("standbys", stateFine, "", "commits wait for %s; connected: %d", standbysName(h), len(h.Standbys))
	}
	state, todo = stateFine, ""
	if h.IDsSpent > manyIDs {
		state, todo = stateTodo, "find what keeps autovacuum back (an old transaction, a slot), and run: "+
			"vacuumdb --all --freeze"
	}
	x.say("transaction ids", state, todo, "%s of 2,147,483,648 spent", humanize.Comma(h.IDsSpent))
	x.keptWAL(h)
}

// ending is what ends a session's transaction.
func ending(s db.ServerSession) string {
	if s.PID == 0 {
		return "commit it, or roll it back: ROLLBACK PREPARED, with its name in pg_prepared_xacts"
	}
	return fmt.Sprintf("see what it does; to end it: SELECT pg_terminate_backend(%d)", s.PID)
}

func (x *examiner) locks(waits []db.LockWait) {
	if len(waits) == 0 || waits[0].Waited < longWait {
		x.say("locks", stateFine, "", "nobody waits for longer than %v", longWait)
		return
	}
	for _, w := range waits {
		if w.Waited >= longWait {
			x.say("locks", stateTodo, ending(w.HeldBy[0]), "%s", waitName(w))
		}
	}
}

func (x *examiner) keptWAL(h *db.ServerHealth) {
	fine := true
	for _, s := range h.Slots {
		if s.Kept > muchKeptWAL {
			fine = false
			x.say("WAL", stateTodo, "where nobody comes back to it: SELECT pg_drop_replication_slot('"+
				strings.ReplaceAll(s.Name, "'", "''")+"')",
				"the replication slot %s keeps %s for somebody who is not connected", s.Name,
				humanize.IBytes(uint64(s.Kept)))
		}
	}
	if fine {
		x.say("WAL", stateFine, "", "no unused slot keeps much of it")
	}
	if h.ArchiveFails != "" {
		x.say("archive", stateTodo, "see the server's log: the WAL grows until the archive takes it",
			"it refuses %s", h.ArchiveFails)
	} else {
		x.say("archive", stateFine, "", "it refuses nothing")
	}
}

func (x *examiner) modes() {
	var open []string
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(x.d.Path() + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if x.err = err; err != nil {
			return
		}
		if info.Mode().Perm()&0o077 != 0 {
			open = append(open, x.d.Path()+suffix)
		}
	}
	if len(open) == 0 {
		x.say("modes", stateFine, "", "only its user may read it")
		return
	}
	words := []string{"chmod go="}
	for _, path := range open {
		words = append(words, shellWord(path))
	}
	x.say("modes", stateNote, "if that is not meant: "+strings.Join(words, " "),
		"others may read or write it: %s", strings.Join(open, ", "))
}

func (x *examiner) links() {
	info, err := os.Lstat(x.d.Path())
	if x.err = err; err != nil {
		return
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Nlink > 1 {
		x.say("links", stateTodo, "remove the other name: SQLite keeps a WAL for each, and writing under two "+
			"corrupts the file", "it has %d names", s.Nlink)
		return
	}
	x.say("links", stateFine, "", "it has one name")
}

// versions reports whether the stores can be asked.
func (x *examiner) versions() bool {
	s, err := x.d.Stats(x.ctx)
	if x.err = err; err != nil {
		return false
	}
	x.say("engine", stateFine, "", "%s", s.Engine)
	switch program := db.SchemaVersion(); {
	case s.Schema < program:
		x.say("versions", stateTodo, "bring it to this program's schema with: migrate up",
			"its schema is %d, this program's is %d", s.Schema, program)
		return false
	case s.Schema > program:
		x.say("versions", stateNote, "use the newer program that wrote it",
			"its schema is %d, this program's is %d", s.Schema, program)
		return false
	}
	x.say("versions", stateFine, "", "schema %d", s.Schema)
	return true
}

const (
	fatWAL     = 64 << 20 // bytes: what it stays below unless a read takes long
	littleDisk = 64 << 20 // bytes: about a WAL
)

func (x *examiner) room() {
	h, err := x.d.Health(x.ctx)
	if x.err = err; err != nil {
		return
	}
	readers := ""
	if len(h.Readers) > 0 {
		readers = ", read at the moment by process " +
			strings.Trim(strings.Join(strings.Fields(fmt.Sprint(h.Readers)), ", "), "[]")
	}
	wal := humanize.IBytes(uint64(h.WALBytes)) + readers
	if h.WALBytes > fatWAL {
		x.say("WAL", stateTodo, "end the read that takes long; with nobody else in the file: migrate doctor --fix",
			"%s: it can't start again while a read goes on", wal)
	} else {
		x.say("WAL", stateFine, "", "%s", wal)
	}
	if free := humanize.IBytes(uint64(h.DiskFree)) + " free on the disk"; h.Full ||
		h.DiskFree < max(littleDisk, h.FileBytes/20) {
		x.say("free space", stateTodo, "make room, or remove what is not needed: migrate gc --apply", "%s", free)
	} else {
		x.say("free space", stateFine, "", "%s", free)
	}
	if free := h.FreePages * h.PageSize; free > h.FileBytes/4 && free > 16<<20 {
		x.say("free pages", stateTodo, "open it in a program, which gives them back, or: migrate compact",
			"%s of the file hold nothing", humanize.IBytes(uint64(free)))
	} else {
		x.say("free pages", stateFine, "", "%s", humanize.IBytes(uint64(free)))
	}
}

func (x *examiner) whole() {
	ctx, shown := x.app.showing(x.ctx)
	examined, err := maintenance.Examine(ctx, x.d)
	shown()
	if x.err = err; err != nil {
		return
	}
	for _, p := range examined.Problems {
		f := x.app.damagedFinding(p.Check, p.Detail)
		if p.Check == "schema" {
			f.Todo = "views, triggers and indexes can be made again: migrate doctor --fix"
		}
		x.findings = append(x.findings, f)
	}
	if len(examined.Problems) == 0 && x.app.onServer() {
		x.say("check", stateFine, "", "tables, invariants and checksums are whole; pages are for pg_amcheck")
	} else if len(examined.Problems) == 0 {
		x.say("check", stateFine, "", "pages, schema, foreign keys, invariants and checksums are whole")
	}
}

func (x *examiner) owners() {
	dead := 0
	x.err = x.d.Read(x.ctx, "look for dead owners", func(rx *db.Rx) error {
		var ids []int64
		if err := rx.Select(&ids, `SELECT id FROM owners`); err != nil {
			return err
		}
		dead = 0
		for _, id := range ids {
			life, err := rx.OwnerLife(id)
			if err != nil {
				return err
			}
			if life == db.LifeDead {
				dead++
			}
		}
		return nil
	})
	switch {
	case x.err != nil:
	case dead > 0:
		x.say("stale owners", stateTodo, "take back what they may hold: migrate doctor --fix",
			"%s that wrote here are gone and not yet forgotten", plural(dead, "process", "processes"))
	default:
		x.say("stale owners", stateFine, "", "no process that is gone holds anything")
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n) + " " + many
}

func (x *examiner) scopes() (names []string) {
	x.err = x.d.Read(x.ctx, "list scopes",
		func(rx *db.Rx) error { return rx.Select(&names, `SELECT name FROM scopes ORDER BY id`) })
	return names
}

func (x *examiner) reservations() {
	over := 0
	for _, scope := range x.scopes() {
		for r, err := range x.d.AllReservations(x.ctx, db.ReservationFilter{Scope: scope}) {
			if x.err = err; err != nil {
				return
			}
			if r.State == db.LeaseExpired || r.State == db.LeaseDead {
				over++
			}
		}
	}
	if over > 0 {
		x.say("reservations", stateNote, "they are in nobody's way; tidy them up with: migrate doctor --fix",
			"%s are over", count(over, "reservation"))
	} else if x.err == nil {
		x.say("reservations", stateFine, "", "none is over")
	}
}

func (x *examiner) quarantine() {
	var pieces []struct {
		Scope string `db:"name"`
		N     int64  `db:"n"`
	}
	x.err = x.d.Read(x.ctx, "count the quarantine", func(rx *db.Rx) error {
		return rx.Select(&pieces, `SELECT s.name, count(*) AS n FROM quarantine AS q
			JOIN scopes AS s ON s.id = q.scope GROUP BY s.name ORDER BY s.name`)
	})
	for _, p := range pieces {
		x.say("quarantine", stateTodo, "see what an import could not take: "+x.in(p.Scope, "quarantine list"),
			"%s in scope %q", count(p.N, "piece"), p.Scope)
	}
	if len(pieces) == 0 && x.err == nil {
		x.say("quarantine", stateFine, "", "nothing lies there")
	}
}

// in is a command in a scope. What stands in front of its flags, the file and the scope in use,
// pasteable adds.
func (x *examiner) in(scope, command string) string {
	if scope != x.app.scope {
		command += " --scope " + shellWord(scope)
	}
	return "migrate " + command
}

func (x *examiner) retention() {
	overdue := 0
	for _, scope := range x.scopes() {
		done, err := maintenance.Prune(x.ctx, x.d, maintenance.PruneOptions{Scope: scope, DryRun: true})
		if x.err = err; err != nil {
			return
		}
		for _, p := range done {
			overdue += p.Removed
			if p.Removed > 0 {
				x.say("retention", stateTodo, x.in(scope, "gc --apply"),
					"%s of %s in scope %q are older or more than its retention keeps", humanize.Comma(int64(p.Removed)),
					p.Store, scope)
			}
		}
	}
	if overdue == 0 {
		x.say("retention", stateFine, "", "nothing is overdue")
	}
}

func (a *app) printDoctor(answer doctorAnswer) error {
	if a.json {
		return a.printJSON(answer)
	}
	for _, done := range answer.Fixed {
		if err := a.print("%s\n", printable(done)); err != nil {
			return err
		}
	}
	g := &grid{header: []string{"check", "state", "detail"}, whole: true}
	for _, f := range answer.Findings {
		g.add(f.Check, string(f.State), f.Detail)
	}
	if err := a.printGrid(g); err != nil {
		return err
	}
	for _, f := range answer.Findings {
		if f.Todo != "" {
			if err := a.print("%s: %s\n", f.Check, printable(f.Todo)); err != nil {
				return err
			}
		}
	}
	return nil
}
