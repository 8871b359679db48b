package db_test

import (
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/machine"
)

func TestBootTime_RunsOnAndKnowsBoot(t *testing.T) {
	before, after := machine.ReadBootTime(), machine.ReadBootTime()
	if before.Since <= 0 || after.Since < before.Since || before.Boot != after.Boot {
		t.Errorf("read %+v and then %+v", before, after)
	}
}

func TestAMomentIsReachedByTimeAndByARestart(t *testing.T) {
	start := db.BootTime{Boot: "a", Since: time.Hour}
	until := start.Add(time.Minute)
	for _, c := range []struct {
		now  db.BootTime
		want bool
	}{
		{start, false},
		{start.Add(time.Minute - 1), false},
		{start.Add(time.Minute), true},
		{db.BootTime{Boot: "b", Since: 0}, true},
	} {
		if got := until.Reached(c.now); got != c.want {
			t.Errorf("at %+v reached is %v", c.now, got)
		}
	}
}
