package workers_test

import (
	"context"
	"fmt"
	"testing"

	"selvedge/db"
	"selvedge/internal/dbtest"
	"selvedge/workers"
)

// Sending one input costs the same whatever the runtime holds.
func BenchmarkSendInput(b *testing.B) {
	for _, size := range []struct{ workers, entries int }{{1, 0}, {100, 50}, {1000, 50}} {
		b.Run(fmt.Sprintf("%d workers with %d entries", size.workers, size.entries), func(b *testing.B) {
			ctx := context.Background()
			d := dbtest.Open(b, db.Options{Synchronous: db.SyncNormal})
			r := open(b, d, workers.RuntimeOptions{})
			var refs []workers.WorkerRef
			for range size.workers {
				ref := must(r.CreateWorker(ctx, workers.ToolsLess(workers.TaskIntent("x"), workers.RuntimeDefaultProfile())))(b).WorkerRef
				refs = append(refs, ref)
				for range size.entries {
					must(r.SendInput(ctx, ref, workers.UserInput("input")))(b)
				}
			}
			for i := 0; b.Loop(); i++ {
				must(r.SendInput(ctx, refs[i%len(refs)], workers.UserInput("input")))(b)
			}
		})
	}
}
