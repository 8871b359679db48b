package runs_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// bigTurn is a turn of about 2 KB.
func bigTurn(index uint64) runs.Turn {
	t := turn(index, strings.Repeat("say what to do ", 40))
	t.Output = json.RawMessage(`{"exit_code":0,"stdout":"` + strings.Repeat("ok  \\tpackage 0.003s\\n", 30) +
		`"}`)
	return t
}

func benchStore(b *testing.B, sync db.Synchronous) *runs.Store {
	b.Helper()
	return runs.NewStore(dbtest.Open(b, db.Options{Synchronous: sync}), runs.Options{})
}

func BenchmarkAppendTurn(b *testing.B) {
	for name, sync := range map[string]db.Synchronous{"normal": db.SyncNormal, "full": db.SyncFull} {
		b.Run(name, func(b *testing.B) {
			s := benchStore(b, sync)
			must(b, s.WriteStarted(b.Context(), started("r", "a", start)))
			turns := []runs.Turn{bigTurn(1)}
			b.ReportAllocs()
			for b.Loop() {
				must(b, s.AppendTurns(b.Context(), "a", "r", turns))
			}
		})
	}
}

func BenchmarkAppendTurnManyCallers(b *testing.B) {
	for name, sync := range map[string]db.Synchronous{"normal": db.SyncNormal, "full": db.SyncFull} {
		b.Run(name, func(b *testing.B) {
			s := benchStore(b, sync)
			turns := []runs.Turn{bigTurn(1)}
			var callers atomic.Int64
			b.SetParallelism(32) // times GOMAXPROCS
			b.RunParallel(func(pb *testing.PB) {
				run := fmt.Sprint("r", callers.Add(1))
				for pb.Next() {
					must(b, s.AppendTurns(b.Context(), "a", run, turns))
				}
			})
		})
	}
}

func BenchmarkAppendHundredSmallTurns(b *testing.B) {
	s := benchStore(b, db.SyncNormal)
	turns := make([]runs.Turn, 100)
	for i := range turns {
		turns[i] = turn(uint64(i), strings.Repeat("x", 60))
	}
	run := 0
	for b.Loop() {
		run++
		must(b, s.AppendTurns(b.Context(), "a", fmt.Sprint("r", run/1000), turns))
	}
	b.ReportMetric(float64(b.N*len(turns))/b.Elapsed().Seconds(), "rows/s")
}

// fill writes ended runs of one agent, and one in a hundred open, with a turn each.
func fill(b *testing.B, d *db.DB, s *runs.Store, count int) {
	b.Helper()
	const perWrite = 500
	for first := 0; first < count; first += perWrite {
		must(b, d.Write(b.Context(), "fill", func(tx *db.Tx) error {
			for i := first; i < min(first+perWrite, count); i++ {
				id, at := fmt.Sprintf("run-%06d", i), start.Add(time.Duration(i)*time.Second)
				records := []runs.Record{started(id, "a", at), turn(0, "p")}
				if i%100 != 0 {
					records = append(records, ended(id, "a", runs.OutcomeSuccess, at.Add(time.Minute)))
				}
				if _, err := s.AppendTx(tx, runs.Batch{AgentID: "a", RunID: id, Records: records}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

func BenchmarkList(b *testing.B) {
	for _, count := range []int{1_000, 10_000, 100_000} {
		d := dbtest.Open(b, db.Options{Synchronous: db.SyncNormal})
		s := runs.NewStore(d, runs.Options{Retention: &runs.RetentionConfig{
			MaxPerAgent: 1 << 20,
			MaxAgeDays:  36500,
		}})
		fill(b, d, s, count)
		b.Run(fmt.Sprintf("first-50-of-%d", count), func(b *testing.B) {
			for b.Loop() {
				page, err := s.Page(b.Context(), runs.Filter{Agent: new("a")}, db.At{})
				if err != nil || len(page.Items) != 50 {
					b.Fatal(len(page.Items), err)
				}
			}
		})
		b.Run(fmt.Sprintf("open-of-%d", count), func(b *testing.B) {
			for b.Loop() {
				_, err := s.Page(b.Context(), runs.Filter{Statuses: []runs.RunStatus{runs.StatusInProgress}},
					db.At{Limit: 10})
				must(b, err)
			}
		})
		b.Run(fmt.Sprintf("gc-nothing-of-%d", count), func(b *testing.B) {
			for b.Loop() {
				if n, err := s.GC(b.Context()); err != nil || n != 0 {
					b.Fatal(n, err)
				}
			}
		})
		if count != 10_000 {
			continue
		}
		b.Run("all-10000", func(b *testing.B) {
			for b.Loop() {
				all, err := s.ListRuns(b.Context(), "a")
				if err != nil || len(all) != count {
					b.Fatal(len(all), err)
				}
			}
		})
	}
}

func BenchmarkReadTraceOf22Turns(b *testing.B) {
	s := benchStore(b, db.SyncNormal)
	records := []runs.Record{started("r", "a", start)}
	for i := range 22 {
		records = append(records, bigTurn(uint64(i)))
	}
	records = append(records, ended("r", "a", runs.OutcomeSuccess, start))
	must(b, s.AppendRecords(b.Context(), "a", "r", records))
	b.ReportAllocs()
	for b.Loop() {
		got, found, err := s.GetRunTraceFor(b.Context(), "a", "r")
		if err != nil || !found || len(got) != len(records) {
			b.Fatal(len(got), found, err)
		}
	}
}

func BenchmarkGCOf52kRuns(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		longest := time.Duration(0)
		d := dbtest.Open(b, db.Options{Synchronous: db.SyncNormal, Observe: func(o db.Observation) {
			if o.Why == "collect runs" && o.Write {
				longest = max(longest, o.Run)
			}
		}})
		s := runs.NewStore(d, runs.Options{Retention: &runs.RetentionConfig{MaxPerAgent: 1000, MaxAgeDays: 36500}})
		const perRun = 19
		for i := range 52 {
			must(b, d.Write(b.Context(), "fill", func(tx *db.Tx) error {
				for j := range 1000 {
					id := fmt.Sprintf("run-%d-%d", i, j)
					records := []runs.Record{started(id, "a", start.Add(time.Duration(i*1000+j)*time.Second))}
					for k := range perRun {
						records = append(records, turn(uint64(k), "p"))
					}
					records = append(records, ended(id, "a", runs.OutcomeSuccess, start))
					if _, err := s.AppendTx(tx, runs.Batch{AgentID: "a", RunID: id, Records: records}); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		b.StartTimer()
		removed, err := s.GC(b.Context())
		b.StopTimer()
		if err != nil || removed != 51_000 {
			b.Fatal(removed, err)
		}
		b.ReportMetric(float64(longest.Milliseconds()), "longest-ms")
		b.StartTimer()
	}
}
