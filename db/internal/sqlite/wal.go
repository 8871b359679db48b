package sqlite

import "errors"

// The WAL is looked at every walLookEvery commits. Under readers that never leave a gap SQLite moves it into the file but
// can't start it again from its beginning, and it grows without end (300 MB in 0.7 s were seen); above WALRestartPages
// the writer waits, for a moment, for the readers.
const (
	walLookEvery    = 64
	WALRestartPages = 4 * walCheckpointPages
)

// boundWAL starts the WAL again from its beginning when it has grown far beyond its working size. Where a reader stays
// (a long query, a backup), the wait for it was in vain: it is tried again when the WAL has grown by another working size. An
// error is nothing to report: the commit is done, and the next look comes.
func (w *writer) boundWAL() {
	w.commits++
	if w.commits%walLookEvery != 0 || w.engine.memory {
		return
	}
	size, err := w.session.checkpoint("NOOP")
	if err != nil || size.Log <= w.restartAbove {
		return
	}
	size, err = w.session.restartWAL()
	if err == nil && size.Busy == 0 {
		w.restartAbove = WALRestartPages
	} else {
		w.restartAbove = size.Log + walCheckpointPages
	}
}

// walSize is what PRAGMA wal_checkpoint answers: the pages in the WAL and those of them that are in the file too.
type walSize struct {
	Busy         int64 `db:"busy"`
	Log          int64 `db:"log"`
	Checkpointed int64 `db:"checkpointed"`
}

func (s *session) checkpoint(mode string) (walSize, error) {
	var size walSize
	err := s.Get(&size, "PRAGMA wal_checkpoint("+mode+")")
	return size, err
}

// restartWAL has a moment's patience with readers, which the writing connection has not elsewhere.
func (s *session) restartWAL() (size walSize, err error) {
	if err := setPragma(background, s.conn, patience); err != nil {
		return size, err
	}
	size, err = s.checkpoint("RESTART")
	return size, errors.Join(err, setPragma(background, s.conn, noPatience))
}
