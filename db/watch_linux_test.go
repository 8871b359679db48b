package db_test

import (
	"runtime"
	"testing"
	"time"

	"selvedge/db"
)

func TestAWatcherListensToTheSystem(t *testing.T) {
	notices := db.WriteNotices(t)
	path, d := openTable(t, numbers)
	changes := watch(t, d)
	told := notices()
	if len(told) != 1 {
		t.Fatalf("the system was asked %d times to tell of writes, with success", len(told))
	}
	if err := foreignWrites(path, 1); err != nil {
		t.Fatal(err)
	}
	awaitRows(t, d, changes, 1)
	patience := time.Now().Add(10 * time.Second)
	for len(told[0]) > 0 { // what it was told it takes
		if time.Now().After(patience) {
			t.Fatal("the watcher does not listen")
		}
		runtime.Gosched()
	}
}
