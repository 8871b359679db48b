package runs

import (
	"context"
	"slices"
	"time"

	"selvedge/db"
	"selvedge/internal/stores"
)

// The calls of the store that this package replaces, with its names and its behaviour:
// docs/parity.md lists them. They are thin. If the grammar of all stores has a better call, they
// name it.

// FromJournalDir returns the store for what is next to the journals in journalDir. The limits are
// those of config.toml in the parent of journalDir, and Root is the folder runs there. It leaves
// alone what options set already.
func FromJournalDir(d *db.DB, journalDir string, options Options) *Store {
	carDir := parentFolder(journalDir)
	if options.Retention == nil {
		limits := FromCarDir(carDir)
		options.Retention = &limits
	}
	if options.Root == "" {
		options.Root = joinPath(carDir, "runs")
	}
	return NewStore(d, options)
}

// WriteStarted opens the run that the record names. On an existing run it changes what the summary
// shows.
func (s *Store) WriteStarted(ctx context.Context, started Started) error {
	return s.AppendRecords(ctx, started.AgentID, started.RunID, []Record{started})
}

// AppendTurns appends turns to a run.
func (s *Store) AppendTurns(ctx context.Context, agentID, runID string, turns []Turn) error {
	records := make([]Record, len(turns))
	for i, t := range turns {
		records[i] = t
	}
	return s.AppendRecords(ctx, agentID, runID, records)
}

// WriteEnded ends the run that the record names.
func (s *Store) WriteEnded(ctx context.Context, ended Ended) error {
	return s.AppendRecords(ctx, ended.AgentID, ended.RunID, []Record{ended})
}

// AppendRecords appends records of any kind to a run, under the ids of the call; the ids inside the
// records may differ. ErrConflict: the run is held. [Store.Append] can be repeated.
func (s *Store) AppendRecords(ctx context.Context, agentID, runID string, records []Record) error {
	_, err := s.Append(ctx, Batch{AgentID: agentID, RunID: runID, Records: records})
	return err
}

// ListRuns returns all runs of an agent, newest first, from one snapshot. An unknown agent has
// none. [Store.Page] and [Store.All] read long lists in parts.
func (s *Store) ListRuns(ctx context.Context, agentID string) (list []RunSummary, err error) {
	err = s.read(ctx, opList, func(rx *db.Rx, scope int64) error {
		list = nil
		where := conditions{text: ` AND started_at IS NOT NULL AND scope = ? AND agent_id = ?`}
		where.args = []any{scope, agentID}
		for run, err := range where.summaries(rx, summaryOrder) {
			if err != nil {
				return err
			}
			list = append(list, run)
		}
		return nil
	})
	// By the exact times: a column holds those beyond its range as one value.
	slices.SortStableFunc(list, func(a, b RunSummary) int { return b.StartedAt.Compare(a.StartedAt) })
	return list, err
}

// GetRunTrace returns the trace of the run with this id, of any agent. If several agents have one,
// the first agent by id counts. found is false if no agent has one. Records of later versions are
// omitted; [Store.Trace] has them, and reads a long trace in parts.
func (s *Store) GetRunTrace(ctx context.Context, runID string) (records []Record, found bool, err error) {
	return s.wholeTrace(ctx, sqlRunOfAny, runID)
}

// GetRunTraceFor is GetRunTrace for the run of one agent.
func (s *Store) GetRunTraceFor(ctx context.Context, agentID, runID string) (records []Record, found bool,
	err error,
) {
	return s.wholeTrace(ctx, sqlRunOfAgent, runID, agentID)
}

// AgentForRun returns the agent of the run with this id, the first by id if several have one.
func (s *Store) AgentForRun(ctx context.Context, runID string) (agentID string, found bool, err error) {
	err = s.read(ctx, "find the agent of a run", func(rx *db.Rx, scope int64) (err error) {
		agentID = ""
		found, err = rx.Find(&agentID, sqlAgentOfRun, scope, runID)
		return err
	})
	return agentID, found, err
}

// AdoptOrphans ends, as incomplete, the abandoned open runs, and returns their number. These are
// the runs whose process is dead, those of this process, which is expected to call it when it
// starts, and imported ones. It leaves alone the runs of another live process, runs that were ever
// held by a lease ([Store.Resume] takes them up) or that wait at a checkpoint, cancelled runs, runs
// with a pending cancellation and runs without a started record. All ends have the same time. A
// second call finds nothing. [Store.Recover] can be called at any time.
//
// It works in short transactions; what it ended before an error stays ended.
func (s *Store) AdoptOrphans(ctx context.Context) (int, error) {
	e := ending{
		store: s, op: "adopt orphans",
		spares: func(rx *db.Rx, scope int64, ref RunRef, run *runRow) (bool, error) {
			if others, err := stores.IsOthers(rx, run.OwnerID); others || err != nil {
				return others, err
			}
			if held, err := rx.Find(new(int64), sqlEverHeld, run.Key, scope, leaseName(run.Key)); held || err != nil {
				return held, err
			}
			return rx.Find(new(int64), sqlWaits, scope, ref.RunID)
		},
	}
	return e.run(ctx)
}

// GC removes the ended runs that the store's retention does not keep and returns their number: of
// each agent those beyond the newest MaxPerAgent by start, and those that ended more than
// MaxAgeDays ago. Only completed and incomplete runs with a started record count and are removed.
// Open and pinned runs stay. So do cancelled runs and runs with a pending cancellation, which the
// original treats as open. [Store.Prune] takes any policy.
//
// It works in short transactions, so that other writers get their turns; what it removed before an
// error stays removed. A MaxAgeDays beyond what a time can hold is ErrInvalid, and nothing is
// removed; but if no run was ever written, GC returns 0. A run stays if a row of a user's table
// refers to it; then the others are removed, and the error is ErrConflict.
func (s *Store) GC(ctx context.Context) (removed int, err error) {
	var cutoff time.Time
	used := false
	err = s.read(ctx, opGC, func(rx *db.Rx, scope int64) (err error) {
		if used, err = rx.Find(new(int64), sqlScopeUsed, scope); err == nil && used {
			cutoff, err = s.retention.cutoff(rx.Now())
		}
		return err
	})
	if err != nil || !used {
		return 0, err
	}
	// Each limit covers all runs: a run that is also too old still has its rank.
	excess, err := s.beyondCount(ctx, int64(min(s.retention.MaxPerAgent, 1<<62)), nil)
	if err != nil {
		return 0, err
	}
	old, err := s.beyondAge(ctx, cutoff)
	if err != nil {
		return 0, err
	}
	done, err := s.remove(ctx, stores.Pruning{Excess: append(excess, old...)}, db.Policy{}, false)
	return done.Removed, err
}

const (
	sqlRunOfAny   = `SELECT key FROM runs WHERE scope = ? AND run_id = ? ORDER BY agent_id LIMIT 1`
	sqlAgentOfRun = `SELECT agent_id FROM runs WHERE scope = ? AND run_id = ? ORDER BY agent_id LIMIT 1`
)

// wholeTrace returns a trace without records of later versions.
func (s *Store) wholeTrace(ctx context.Context, find string, names ...any) (records []Record, found bool,
	err error,
) {
	err = s.read(ctx, opTrace, func(rx *db.Rx, scope int64) error {
		records = nil
		var key int64
		if found, err = rx.Find(&key, find, append([]any{scope}, names...)...); err != nil || !found {
			return err
		}
		records = []Record{}
		return eachRow(rx, key, 0, maxSequence, func(row *placedRow) (bool, error) {
			if row.Later() {
				return true, nil
			}
			record, err := row.Record()
			if err == nil && record != nil {
				records = append(records, record)
			}
			return true, err
		})
	})
	return records, found, err
}
