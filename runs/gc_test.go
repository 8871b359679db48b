package runs_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

func gc(t *testing.T, d *db.DB, limits runs.RetentionConfig) (int, error) {
	t.Helper()
	return runs.NewStore(d, runs.Options{Retention: &limits}).GC(t.Context())
}

// ofAgent writes a run that started and ended at a time.
func ofAgent(t testing.TB, s *runs.Store, agent, run string, startedAt, endedAt time.Time) {
	t.Helper()
	must(t, s.AppendRecords(t.Context(), agent, run, []runs.Record{
		started(run, agent, startedAt), turn(0, "p"), ended(run, agent, runs.OutcomeSuccess, endedAt),
	}))
}

func TestGCInBatchesRemovesWhatOneLookWould(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	// 700 runs of one agent, more than three batches. The newest 100 by start ended long ago: each
	// takes a rank and goes.
	const count, keepRuns = 700, 250
	for i := range count {
		endedAt := start
		if i >= count-100 {
			endedAt = start.Add(-40 * day)
		}
		ofAgent(t, s, "a", fmt.Sprintf("%03d", i), start.Add(time.Duration(i)*time.Second), endedAt)
	}
	removed, err := gc(t, d, runs.RetentionConfig{MaxPerAgent: keepRuns, MaxAgeDays: 30})
	if err != nil || removed != count-(keepRuns-100) {
		t.Errorf("removed %d (%v), not %d", removed, err, count-(keepRuns-100))
	}
	left := list(t, s, "a")
	if len(left) != 150 || left[0].RunID != "599" || left[149].RunID != "450" {
		t.Errorf("left are %d runs: %s", len(left), names(left))
	}
}

func TestGCLeavesNothingBehind(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	for i := range 3 {
		ofAgent(t, s, "a", fmt.Sprint(i), start, start)
		must(t, second(s.Append(t.Context(), runs.Batch{
			AgentID: "a", RunID: fmt.Sprint(i), Key: "k",
			Records: []runs.Record{turn(1, "p")},
		})))
	}
	if removed, err := gc(t, d, runs.RetentionConfig{MaxAgeDays: 30}); err != nil || removed != 3 {
		t.Fatalf("removed %d (%v), not 3", removed, err)
	}
	must(t, d.Read(t.Context(), "count", func(rx *db.Rx) error {
		for _, table := range []string{"runs", "run_records", "run_append_keys"} {
			var n int
			must(t, rx.Get(&n, "SELECT count(*) FROM "+table))
			if n != 0 {
				t.Errorf("%d rows are left in %s", n, table)
			}
		}
		return nil
	}))
}

func TestGCTakesLimitsAsTheyAre(t *testing.T) {
	for _, c := range []struct {
		limits runs.RetentionConfig
		left   string
	}{
		{runs.RetentionConfig{MaxPerAgent: 50, MaxAgeDays: 30}, "soon now "},
		{runs.RetentionConfig{MaxPerAgent: 50, MaxAgeDays: 40}, "soon now old "}, // just that old is not too old
		{runs.RetentionConfig{MaxPerAgent: 1, MaxAgeDays: 3650}, "soon "},
		{runs.RetentionConfig{MaxPerAgent: 0, MaxAgeDays: 3650}, ""},
		{runs.RetentionConfig{MaxPerAgent: 50, MaxAgeDays: 0}, "soon now "},
		{runs.RetentionConfig{MaxPerAgent: 50, MaxAgeDays: -1}, "soon "},
		{runs.RetentionConfig{MaxPerAgent: 50, MaxAgeDays: -40_000}, ""},
		{runs.RetentionConfig{MaxPerAgent: math.MaxUint64, MaxAgeDays: 95_000_000}, "soon now old "},
	} {
		s, d := openStore(t, runs.Options{})
		ofAgent(t, s, "a", "old", start.Add(-40*day), start.Add(-40*day))
		ofAgent(t, s, "a", "now", start, start)
		ofAgent(t, s, "a", "soon", start.Add(2*day), start.Add(2*day))
		must(t, s.WriteStarted(t.Context(), started("open", "a", start.Add(-1000*day))))
		removed, err := gc(t, d, c.limits)
		must(t, err)
		left := ""
		for _, run := range list(t, s, "a") {
			if run.RunID != "open" {
				left += run.RunID + " "
			}
		}
		if left != c.left || removed != 3-len(list(t, s, "a"))+1 {
			t.Errorf("%+v leaves %q and says that it removed %d; it should leave %q", c.limits, left, removed, c.left)
		}
	}
}

// Ends that a column can't hold are compared as they are.
func TestGCByAgeBeyondTheYearsOfAColumn(t *testing.T) {
	for _, c := range []struct {
		days int64
		left []string
	}{
		{365_000, []string{"+003000", "+002500", "1500", "1100"}},         // the year 1026
		{300_000, []string{"+003000", "+002500", "1500"}},                 // 1204
		{-200_000, []string{"+003000"}},                                   // 2573
		{-500_000, nil},                                                   // 3394
		{400_000, []string{"+003000", "+002500", "1500", "1100", "0950"}}, // 930
	} {
		s, d := openStore(t, runs.Options{})
		for _, year := range []string{"0950", "1100", "1500", "+002500", "+003000"} {
			text := fmt.Sprintf(`{"record":"started","run_id":%q,"agent_id":"a","intent":"","started_at":"%[1]s-01-01T00:00:00Z"}
{"record":"ended","run_id":"r","agent_id":"a","termination":{"kind":"incomplete"},"ended_at":"%[1]s-01-01T00:00:00Z"}
`, year)
			importTrace(t, d, s, runs.RunRef{AgentID: "a", RunID: year}, text)
		}
		removed, err := gc(t, d, runs.RetentionConfig{MaxPerAgent: 50, MaxAgeDays: c.days})
		must(t, err)
		var left []string
		for _, run := range list(t, s, "a") {
			left = append(left, run.RunID)
		}
		slices.Sort(left)
		slices.Sort(c.left)
		if !slices.Equal(left, c.left) || removed != 5-len(c.left) {
			t.Errorf("%d days leave %v (%d removed), not %v", c.days, left, removed, c.left)
		}
	}
}

func TestGCRefusesAgesBeyondTheCalendar(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	for _, days := range []int64{
		100_000_000_000, 106_751_991_167, 106_751_991_168, math.MaxInt64,
		math.MinInt64, -100_000_000_000,
	} {
		limits := runs.RetentionConfig{MaxPerAgent: 0, MaxAgeDays: days}
		fresh := runs.NewStore(d, runs.Options{Scope: "where nothing was ever written", Retention: &limits})
		if removed, err := fresh.GC(t.Context()); removed != 0 || err != nil {
			t.Errorf("%d days where nothing was ever written: %d, %v", days, removed, err)
		}
		ofAgent(t, s, "a", "r", start, start)
		if removed, err := gc(t, d, limits); removed != 0 || !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%d days: removed %d, %v", days, removed, err)
		}
		if len(list(t, s, "a")) != 1 {
			t.Errorf("%d days: the run is gone", days)
		}
		must(t, removeRun(t, s, runs.RunRef{AgentID: "a", RunID: "r"}))
	}
}

// As the original sees them: it takes cancelled runs and pending cancellations for open ones.
func TestGCLeavesCancelledRuns(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	for _, end := range []runs.Unknown{
		cancelled("2021-03-01T08:00:00Z"),
		laterRecord("cancellation_requested"),
	} {
		must(t, s.AppendRecords(t.Context(), "a", end.Kind,
			[]runs.Record{started(end.Kind, "a", start.Add(-1000*day)), end}))
	}
	if removed, err := gc(t, d, runs.RetentionConfig{}); removed != 0 || err != nil {
		t.Errorf("removed %d, %v", removed, err)
	}
}

// Each limit takes cancelled runs as it takes the others: by their rank, their end and their bytes.
func TestPrune_CancelledRunsFallUnderEachLimit(t *testing.T) {
	clock := dbtest.NewClock(start.Add(10 * day))
	s := runs.NewStore(dbtest.Open(t, db.Options{Now: clock.Now}), runs.Options{})
	at := func(days int) time.Time { return start.Add(time.Duration(days) * day) }
	end := func(agent, run string, days int) {
		must(t, s.AppendRecords(t.Context(), agent, run, []runs.Record{
			started(run, agent, at(days)), cancelled(at(days).Format(time.RFC3339)),
		}))
	}
	end("a", "1-cancelled", 1)
	ofAgent(t, s, "a", "2-ended", at(2), at(2))
	end("a", "3-cancelled", 3)
	ofAgent(t, s, "a", "4-ended", at(4), at(4))
	end("b", "5-cancelled", 5) // the only ends of their agent
	end("b", "6-cancelled", 6)
	ofAgent(t, s, "b", "pending", at(0), at(0))
	must(t, s.AppendRecords(t.Context(), "b", "asked", []runs.Record{
		started("asked", "b", at(0)), laterRecord("cancellation_requested"),
	}))
	must(t, s.Pin(t.Context(), runs.RunRef{AgentID: "b", RunID: "pending"}))
	all := []string{"6-cancelled", "5-cancelled", "4-ended", "3-cancelled", "2-ended", "1-cancelled"}
	weight := map[string]int64{}
	dry := func(policy db.Policy) (gone []string, done db.Pruned) {
		policy.DryRun = true
		policy.Each = func(g db.Gone) {
			gone, weight[g.ID] = append(gone, g.ID), g.Bytes
		}
		done, err := s.Prune(t.Context(), policy)
		must(t, err)
		if done.Removed != len(gone) || done.Remaining != 7-len(gone) {
			t.Errorf("under %+v it would do %+v", policy, done)
		}
		slices.Sort(gone)
		return gone, done
	}
	dry(db.Policy{Age: db.KeepNone})
	for name, c := range map[string]struct {
		policy db.Policy
		left   int // of the newest
	}{
		"age":             {db.Policy{Age: 10*day - 3*day}, 4},
		"bytes":           {db.Policy{Bytes: weight[all[0]] + weight[all[1]] + weight[all[2]]}, 3},
		"a byte less":     {db.Policy{Bytes: weight[all[0]] + weight[all[1]] + weight[all[2]] - 1}, 2},
		"none by age":     {db.Policy{Age: db.KeepNone}, 0},
		"none by bytes":   {db.Policy{Bytes: db.KeepNone}, 0},
		"age and bytes":   {db.Policy{Age: 10*day - 3*day, Bytes: 1 << 30}, 4},
		"no limit at all": {db.Policy{}, 6},
	} {
		want := slices.Sorted(slices.Values(all[c.left:]))
		if gone, _ := dry(c.policy); !slices.Equal(gone, want) {
			t.Errorf("%s: %q would go, not %q", name, gone, want)
		}
	}
	if gone, _ := dry(db.Policy{Count: 1}); !slices.Equal(gone, []string{
		"1-cancelled", "2-ended", "3-cancelled", "5-cancelled",
	}) {
		t.Errorf("%q would go by count", gone)
	}
	done, err := s.Prune(t.Context(), db.Policy{Count: 3, Age: 10*day - 2*day})
	must(t, err)
	left := names(list(t, s, "a"))
	if done.Removed != 1 || done.Remaining != 6 || left != "a/4-ended a/3-cancelled a/2-ended " {
		t.Errorf("it did %+v and left %s", done, left)
	}
	if done, err = s.Prune(t.Context(), db.Policy{Age: db.KeepNone}); err != nil || done.Removed != 5 ||
		done.Remaining != 1 || names(list(t, s, "b")) != "b/asked b/pending " {
		t.Errorf("it did %+v, %v, and left %s", done, err, names(list(t, s, "b")))
	}
}

func cancelled(at string) runs.Unknown {
	raw := `{"record":"ended","run_id":"r","agent_id":"a","termination":{"kind":"cancelled","cancellation":{}},"ended_at":"` + at + `"}`
	return runs.Unknown{Kind: "ended", Raw: []byte(raw)}
}

func TestGCHoldsTheWriterForAMomentOnly(t *testing.T) {
	batches := 0
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal, Observe: func(o db.Observation) {
		if o.Why == "collect runs" && o.Write {
			batches++
		}
	}})
	s := runs.NewStore(d, runs.Options{Retention: &runs.RetentionConfig{MaxPerAgent: 0, MaxAgeDays: 30}})
	for i := range 450 {
		ofAgent(t, s, fmt.Sprint("agent-", i%90), fmt.Sprint(i), start, start)
	}
	if removed, err := s.GC(t.Context()); err != nil || removed != 450 {
		t.Errorf("removed %d, %v", removed, err)
	}
	if batches < 3 {
		t.Errorf("450 runs went in %d transactions", batches)
	}
}

// Runs that were planned for removal are pinned and resumed while retention waits to write.
func TestPrune_SpareSincePlannedStays(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	for _, run := range []string{"old", "pinned"} {
		ofAgent(t, s, "a", run, start, start)
	}
	resumed := runs.RunRef{AgentID: "a", RunID: "resumed"}
	importTrace(t, d, s, resumed, `{"record":"started","run_id":"resumed","agent_id":"a","intent":"i",`+
		`"started_at":"2021-01-01T00:00:00Z"}
{"record":"ended","run_id":"resumed","agent_id":"a","termination":{"kind":"incomplete"},`+
		`"ended_at":"2021-01-01T00:00:00Z"}
`)
	held, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	go func() {
		done <- d.Write(t.Context(), "pin", func(tx *db.Tx) error {
			close(held)
			<-release
			_, err := s.ResumeTx(tx, resumed)
			return errors.Join(err, s.PinTx(tx, runs.RunRef{AgentID: "a", RunID: "pinned"}))
		})
	}()
	<-held
	go func() {
		removed, err := gc(t, d, runs.RetentionConfig{MaxAgeDays: 30})
		if removed != 1 {
			err = errors.Join(err, fmt.Errorf("%d were removed", removed))
		}
		done <- err
	}()
	dbtest.Await(t, "retention waits for its turn", func() bool {
		h, err := d.Health(t.Context())
		return err == nil && h.Waiting > 0
	})
	close(release)
	must(t, errors.Join(<-done, <-done))
	if left := list(t, s, "a"); len(left) != 2 {
		t.Errorf("left are %s", names(left))
	}
}
