package sqlite

import (
	"testing"
	"time"
)

// An observer hears of commits without it, twenty times a second, so nothing else would notice.
func TestObserve_ReportsSystemWrites(t *testing.T) {
	ladder := ProgramLadder()
	e, err := Open(t.Context(), t.TempDir()+"/file",
		Config{Ladder: ladder, SchemaVersion: ladder.Last().Version, Readers: 1, LockTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close() //nolint:errcheck // opened for reading only
	o, err := e.newObserver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if o.writes == nil {
		t.Error("it looks by the clock alone")
	}
	go o.run()
	if err := o.end(); err != nil {
		t.Error(err)
	}
}
