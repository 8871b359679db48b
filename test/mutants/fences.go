package main

// A fence is code that keeps two from doing the same, a reader from missing something, or a file
// from growing.
type fence struct {
	name  string
	files []string // the sources that are mutated
	// suites are the packages whose tests have to notice.
	suites []string
}

var fences = []fence{
	{
		"leases",
		[]string{"internal/txn/lease.go", "internal/txn/reservation.go", "db/handle.go", "db/reserve.go"},
		[]string{"./db", "./test/storetest"},
	},
	{
		"leases of threads",
		[]string{"agents/lease.go", "agents/liveness.go", "agents/reap.go"},
		[]string{"./agents", "./test/storetest"},
	},
	{
		"claims",
		[]string{"checkpoints/claim.go", "checkpoints/recover.go"},
		[]string{"./checkpoints", "./test/storetest"},
	},
	{
		"adoption",
		[]string{"runs/recover.go", "runs/hold.go", "runs/append_rows.go", "internal/stores/transact.go"},
		[]string{"./runs", "./test/storetest"},
	},
	{
		"adoption of live runs",
		[]string{"runs/live/recover.go", "runs/live/hold.go"},
		[]string{"./runs/live", "./test/storetest"},
	},
	{
		"cursors",
		[]string{"internal/txn/cursor.go", "internal/paging/paging.go", "internal/stores/follow.go"},
		[]string{"./internal/stores", "./test/storetest", "./runs"},
	},
	{"cursors of runs", []string{"runs/follow.go"}, []string{"./runs", "./test/storetest"}},
	{"cursors of live runs", []string{"runs/live/follow.go"}, []string{"./runs/live", "./test/storetest"}},
	{"cursors of agents", []string{"agents/follow.go"}, []string{"./agents", "./test/storetest"}},
	{"cursors of checkpoints", []string{"checkpoints/follow.go"}, []string{"./checkpoints", "./test/storetest"}},
	{
		"cursors of workers",
		[]string{"workers/follow.go", "workers/prune.go"},
		[]string{"./workers", "./test/storetest"},
	},
	{"caps", []string{"runs/gc.go"}, []string{"./runs", "./test/storetest"}},
	{
		"retention",
		[]string{"internal/stores/prune.go"},
		[]string{"./internal/stores", "./runs/live", "./checkpoints", "./workers", "./test/storetest"},
	},
	{
		"caps of live runs",
		[]string{"runs/live/counts.go", "runs/live/event_rows.go", "runs/live/append.go"},
		[]string{"./runs/live", "./test/storetest"},
	},
}
