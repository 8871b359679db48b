package main

import "strings"

// An equal explains why a mutant has no visible effect. It doesn't count. Once its line has
// changed it no longer applies, and is named at the end of a run.
type equal struct{ file, was, became, why string }

const (
	rowLocked = "the row is locked from the look to the change, on a server too"
	linux     = "Linux always says it; other systems may not"
	noRow     = "no row has that number"
	firstLine = "the first record of a run has a place above 0"
	onServer  = "all programs that use a file are on one machine; TestPostgres_OtherMachinesAgentIsNotDead " +
		"looks at a server"
	inParts = "what just fits goes in two parts, or two go as one"
)

var equals = []equal{
	{
		"internal/txn/lease.go", `if wall > math.MaxInt64-*l.TTL {`, `if wall >= math.MaxInt64-*l.TTL {`,
		"that sum is the greatest number",
	},
	{"db/reserve.go", `if err == nil && ok {`, `if err == nil && true {`, noRow},
	{
		"internal/stores/prune.go", `(looked == 0 || time.Since(began) < pruneTurn)`,
		`(false || time.Since(began) < pruneTurn)`, "no time has passed before the first",
	},
	{
		"db/reserve.go", `if err == nil && ok && row.Epoch == l.epoch {`,
		`if err == nil && true && row.Epoch == l.epoch {`, "without a row the epoch is 0, which none is",
	},
	{"agents/lease.go", `err = l.lost()`, ``, rowLocked},
	{"agents/liveness.go", `pidNS != nil && own != nil && *pidNS`, `pidNS != nil && true && *pidNS`, linux},
	{"agents/liveness.go", `boot != nil && bootID != nil`, `true && bootID != nil`, linux},
	{"agents/liveness.go", `!rx.OneMachine() && w.Status`, `!rx.OneMachine() &&`, onServer},
	{"agents/liveness.go", `pid > math.MaxInt32`, `pid >= math.MaxInt32`, "no process has that number"},
	{"agents/reap.go", `s.TTL == nil && own != nil && s.PIDNS`, `s.TTL == nil && true && s.PIDNS`, linux},
	{
		"agents/reap.go", `AND a.thread = ? AND a.session_id > ?`, `AND a.thread = ? AND a.session_id >= ?`,
		"the last of a page is judged twice",
	},
	{
		"checkpoints/claim.go", `c.run_id AND state = 'claimed')`, `c.run_id AND (1 OR (state = 'claimed')))`,
		"a claim comes before what waits in the index, and what waits is not removed as a claim",
	},
	{
		"checkpoints/claim.go", `run_id = ? AND state = 'claimed'`, `AND (1 OR (state = 'claimed'))`,
		"a claim comes before what waits in the index, and what waits is not removed as a claim",
	},
	{"checkpoints/claim.go", `err = c.lost()`, ``, rowLocked},
	{"checkpoints/claim.go", `sqlFindClaim, scope, runID); err != nil || !ok {`, `err != nil || false {`, noRow},
	{
		"checkpoints/recover.go", `run_id > ? ORDER BY`, `run_id >= ? ORDER BY`,
		"the last of a page is judged twice",
	},
	{"runs/recover.go", `if !found || run.Status`, `if false || run.Status`, "what is not there has no status"},
	{"runs/recover.go", `len(batch) < endedAtATime`, `len(batch) <= endedAtATime`, "a batch of one more"},
	{"runs/append_rows.go", `known && p.turns && tx`, `true && p.turns && tx`, noRow},
	{
		"runs/append_rows.go", `AND turn_count IS NULL AND owner_id`,
		`AND (1 OR (turn_count IS NULL)) AND owner_id`, "a run that has ended has no owner",
	},
	{"runs/append_rows.go", `id < ?`, `id <= ?`, firstLine},
	{"runs/append_rows.go", `id < (`, `id <= (`, firstLine},
	{"runs/append_rows.go", `id > `, `id >= `, firstLine},
	{
		"runs/append_rows.go", `(SELECT bytes FROM run_records WHERE id > ?`,
		`(SELECT bytes FROM run_records WHERE (1 OR (id > ?`,
		"the run has a record, which is the last below the next run's",
	},
	{"runs/append_rows.go", `if found && p.Repeat != 0 {`, `if true && p.Repeat != 0 {`, noRow},
	{
		"runs/append_rows.go", `if found && (!before.same`, `if true && (!before.same`,
		"a row that was just made is written again as it is",
	},
	{"runs/append_rows.go", `sum.Write([]byte{'\n'})`, ``, "JSON says where it ends"},
	{"runs/hold.go", `if err == nil && ok {`, `if err == nil && true {`, noRow},
	{
		"runs/gc.go", `c.MaxAgeDays > maxDays`, `c.MaxAgeDays >= maxDays`,
		"that many days lead out of the calendar too",
	},
	{
		"runs/gc.go", `c.MaxAgeDays < -maxDays`, `c.MaxAgeDays <= -maxDays`,
		"that many days lead out of the calendar too",
	},
	{
		"runs/gc.go", `AND (? OR agent_id > ?)`, `AND (1 OR ((? OR agent_id > ?)))`,
		"the last agent of a page is planned twice, and its runs go once",
	},
	{
		"runs/gc.go", `AND ended > ? AND agent_id >= ?`, `AND ended >= ? AND agent_id >= ?`,
		"of an agent with as many as it may have none is taken",
	},
	{
		"runs/gc.go", `OR agent_id > ?)`, `OR agent_id >= ?)`,
		"the last agent of a page is planned twice, and its runs go once",
	},
	{"internal/stores/follow.go", `if err == nil && ok {`, `if err == nil && true {`, noRow},
	{"runs/follow.go", `id > key`, `id >= key`, firstLine},
	{"runs/follow.go", `id < (key + 1)`, `id <= (key + 1)`, firstLine},
	{
		"runs/follow.go", `AND status = 'in_progress'`, `AND (1 OR (status = 'in_progress'))`,
		"more are looked at",
	},
	{
		"runs/follow.go", `AND started_at IS NOT NULL LIMIT ?`, `(1 OR (started_at IS NOT NULL)) LIMIT ?`,
		"more are looked at",
	},
	{
		"runs/live/hold.go", `(!found || row.Key != r.key)`, `(false || row.Key != r.key)`,
		"what is not there has no key",
	},
	{"runs/live/append.go", `sum.Write([]byte{'\n'})`, ``, "JSON says where it ends"},
	{"agents/follow.go", `if err != nil || !ok {`, `if err != nil || false {`, noRow},
	{"checkpoints/follow.go", `if err != nil || !ok {`, `if err != nil || false {`, noRow},
	{
		"workers/follow.go", `if err != nil || !found {`, `if err != nil || false {`,
		"nobody waits at the place of zeros that comes of it",
	},
	{"workers/prune.go", `w.TranscriptLen > share`, `w.TranscriptLen >= share`, inParts},
	{
		"runs/live/follow.go", `WHERE scope = ? AND status IN`, `WHERE (1 OR (scope = ?)) AND status IN`,
		"more are looked at",
	},
	{
		"runs/live/hold.go", `FROM leases WHERE scope = ? AND kind`,
		`FROM leases WHERE (1 OR (scope = ?)) AND kind`, "the name is the key of a run, which is of one scope",
	},
}

func (e equal) is(m *mutant) bool {
	return e.file == m.file && strings.Contains(m.was, e.was) && strings.Contains(m.became, e.became)
}

// equal returns why a mutant changes nothing; "" if it isn't known to.
func (m *mutant) equal() string {
	for _, e := range equals {
		if e.is(m) {
			return e.why
		}
	}
	return ""
}
