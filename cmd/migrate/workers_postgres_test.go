//go:build postgres

package main

import (
	"fmt"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

// A list of workers asks the server about runtimes that have some, and of those alone.
func TestPostgres_WorkerListSkipsEmptyRuntimes(t *testing.T) {
	address, trips := dbtest.PostgresTrips(t, dbtest.Postgres(t))
	d, err := db.Open(t.Context(), address, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	list := func(want int, words ...string) int64 {
		before := trips()
		answer, _ := answered[struct {
			Items []workers.WorkerSummary `json:"items"`
			Next  string                  `json:"next"`
		}](t, append([]string{"--db", address, "workers", "list"}, words...)...)
		if len(answer.Items) != want {
			t.Errorf("%q: %d workers are listed of %d", words, len(answer.Items), want)
		}
		return trips() - before
	}
	add := func(name string, status workers.WorkerStatus) {
		r, err := workers.Open(t.Context(), d, workers.RuntimeOptions{RuntimeID: workers.RuntimeID(name)})
		if err == nil && status != "" {
			var w workers.WorkerDetail
			w, err = r.CreateWorker(t.Context(),
				workers.ToolsLess(workers.WorkerIntent{}, workers.ProfileSelector{}))
			if err == nil && status == workers.Stopped {
				_, err = r.StopWorker(t.Context(), w.WorkerRef, nil)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add("r", workers.Running)
	all, running := list(1), list(1, "--status", "running")
	for n := range 20 {
		add(fmt.Sprint("e-", n), "")
		add(fmt.Sprint("s-", n), workers.Stopped)
	}
	if now := list(1, "--status", "running"); now > running+2 {
		t.Errorf("the list of those that run takes %d messages, and %d where there was one runtime", now, running)
	}
	if now := list(21); now > all+20*8 {
		t.Errorf("the list of all takes %d messages, and %d where there was one runtime", now, all)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
