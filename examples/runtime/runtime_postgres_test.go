//go:build postgres

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

func TestPostgresDoesWhatTheFileDoes(t *testing.T) {
	dbtest.OnPostgres(t, TestRuntime_KilledLosesAndRepeatsNothing, TestATaskThatFailsIsGivenBackAtOnce,
		TestTwoRuntimesShareTheTasks)
}

// host gives what runs a process as on a host of its own: with another name and start of the
// system, and pids that others have too.
func host(t *testing.T, name string) []string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test makes namespaces: run it as root")
	}
	id := filepath.Join(t.TempDir(), "boot_id")
	if err := os.WriteFile(id, []byte("11111111-2222-4333-8444-"+name+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{
		"unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc",
		"sh", "-c", `hostname "$0" && mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && exec "$@"`,
		name, id,
	}
}

// TestPostgres_KilledHostLosesAndRepeatsNothing has two hosts with the same pids do the tasks. All
// processes of one are killed in the middle, again and again. It takes the other as long as the
// address says to know them for dead.
func TestPostgres_KilledHostLosesAndRepeatsNothing(t *testing.T) {
	const each, kills = 2, 3
	address := dbtest.Postgres(t)
	var tasks []string
	for i := range 12 {
		tasks = append(tasks, fmt.Sprint("task-", i))
	}
	var mu sync.Mutex
	said := map[string]bool{}
	note := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if said[line] {
			t.Errorf("%q was done twice", line)
		}
		said[line] = true
	}
	d := dbtest.OpenAt(t, address, db.Options{})
	killed, lasting := host(t, "000000000001"), host(t, "000000000002")
	for round, end := 0, time.Now().Add(5*time.Minute); !allDone(t, d, tasks); round++ {
		if time.Now().After(end) {
			t.Fatal("the tasks are not done")
		}
		var all sync.WaitGroup
		for i := range 2 * each {
			on, at, lives := lasting, address, true
			if i < each {
				on, at, lives = killed, address+"&selvedge.owner_ttl=1s", round >= kills
			}
			p := dbtest.StartUnder(t, on, "runtime", append([]string{at}, tasks...)...)
			all.Go(func() {
				for n := 0; ; n++ {
					line, ok := p.Line()
					if !ok {
						break
					}
					note(line)
					if !lives && n == round {
						p.Kill() // what it said before is read all the same
					}
				}
				// also one that lives may have lost what it held, where the machine left it no time to say that it does
				_ = p.Stderr()
			})
		}
		all.Wait()
	}
	lookAt(t, d, tasks)
}

// allDone reports whether every task has ended.
func allDone(t *testing.T, d *db.DB, tasks []string) bool {
	t.Helper()
	for _, task := range tasks {
		summary, err := runs.NewStore(d, runs.Options{}).Get(t.Context(),
			runs.RunRef{AgentID: agentID, RunID: task})
		if err != nil && !errors.Is(err, db.ErrNotFound) {
			t.Fatal(err)
		}
		if err != nil || summary.Status == runs.StatusInProgress {
			return false
		}
	}
	return true
}
