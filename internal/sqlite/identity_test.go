package sqlite

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A file system of whole seconds may tell the time of the removal of a WAL as that of a change that
// was looked at.
func TestFolderTime_CoversChangesAfterItsTick(t *testing.T) {
	for changed, tick := range map[unix.Timespec]time.Duration{
		{Sec: 1700000000, Nsec: 4000000}: 10 * time.Millisecond,
		{Sec: 1700000001}:                time.Second,
		{Sec: 1700000000}:                2 * time.Second, // FAT
	} {
		if wait := settles(changed); wait <= tick {
			t.Errorf("the removal of a WAL in the tick of %v could go unseen: %v", changed, wait)
		}
	}
}
