//go:build postgres

package failover_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// A cluster is three servers of tools/cluster.
type cluster struct {
	t       *testing.T
	dir     string
	address string
	hosts   []string // of nodes 1 to 3
}

const tool = "../../tools/cluster"

// patience is for how long the cluster may take for anything: it only bounds a test that hangs.
const patience = 6 * time.Minute

// The address and the folder of a cluster that this process was started for by tools/cluster run.
const (
	addressVariable = "SELVEDGE_CLUSTER"
	folderVariable  = "SELVEDGE_CLUSTER_DIR"
)

// started starts a cluster with settings of tools/cluster, and ends it with the test.
func started(t *testing.T, settings ...string) *cluster {
	t.Helper()
	//nolint:usetesting // the folder above a TempDir is closed to the servers' user
	above, err := os.MkdirTemp("", "failover")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(above, 0o711); err != nil { // for the servers' user
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(above); err != nil {
			t.Error(err)
		}
	})
	dir := filepath.Join(above, "cluster")
	start := exec.Command(tool, "start", dir) // which bounds its own waits
	start.Env = append(os.Environ(), settings...)
	out, err := start.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("%v\n%s", err, exit.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := at(t, dir, strings.TrimSpace(string(out)))
	t.Cleanup(func() {
		c.logs()
		c.do("stop", 0)
	})
	return c
}

// at is a cluster that runs.
func at(t *testing.T, dir, address string) *cluster {
	t.Helper()
	head, _, _ := strings.Cut(strings.TrimPrefix(address, "postgres://selvedge@"), "/")
	return &cluster{t, dir, address, strings.Split(head, ",")}
}

// inItsNetwork runs a test in another process, which has no network but that of its own cluster.
// In that process it returns the cluster.
func inItsNetwork(t *testing.T) (c *cluster, there bool) {
	t.Helper()
	if address := os.Getenv(addressVariable); address != "" {
		c := at(t, os.Getenv(folderVariable), address)
		t.Cleanup(c.logs)
		return c, true
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(tool, "run", "env", "-C", here, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v",
		"-test.timeout=20m")
	run.Env = append(os.Environ(), "NETWORK=namespaces")
	out, err := run.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
	return nil, false
}

// do runs a command of tools/cluster. Its argument is a node, mostly.
func (c *cluster) do(action string, argument int) {
	c.t.Helper()
	args := []string{action, c.dir}
	if argument > 0 || action == "spoil" {
		args = append(args, strconv.Itoa(argument))
	}
	// a test's own ends before what cleans up behind it
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	run := exec.CommandContext(ctx, tool, args...)
	run.WaitDelay = time.Second
	if out, err := run.CombinedOutput(); err != nil {
		c.t.Fatalf("%s: %v\n%s", action, err, out)
	}
}

// logs shows the nodes' last messages if the test failed.
func (c *cluster) logs() {
	if !c.t.Failed() {
		return
	}
	for _, about := range []string{"status", "logs"} {
		out, err := exec.Command(tool, about, c.dir).CombinedOutput()
		c.t.Logf("%s: %v\n%s", about, err, out)
	}
}

// alone is the address of one node.
func (c *cluster) alone(node int) string {
	return "postgres://selvedge@" + c.hosts[node-1] + "/postgres?sslmode=disable"
}

// space is the network of a node.
func (c *cluster) space(node int) string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "cluster"))
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "name="); ok {
			return strings.TrimSpace(name) + "-" + strconv.Itoa(node)
		}
	}
	c.t.Fatalf("no network is named in %s", text)
	return ""
}

// ask asks a node for a number. ok is false if it does not answer.
func (c *cluster) ask(node int, question string) (answer int, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	conn, err := pgconn.Connect(ctx, c.alone(node))
	if err != nil {
		return 0, false
	}
	defer conn.Close(ctx) //nolint:errcheck // the answer is read
	results, err := conn.Exec(ctx, question).ReadAll()
	if err != nil || len(results[0].Rows) == 0 {
		return 0, false
	}
	answer, err = strconv.Atoi(string(results[0].Rows[0][0]))
	return answer, err == nil
}

// sqlTimeline is 0 on a standby.
const sqlTimeline = `SELECT CASE WHEN pg_is_in_recovery() THEN 0
	ELSE ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int END`

// leader returns the node that claims to be the primary, of several the one with the highest
// timeline; 0 if there is none.
func (c *cluster) leader() (node, timeline int) {
	for n := range c.hosts {
		if got, ok := c.ask(n+1, sqlTimeline); ok && got > timeline {
			node, timeline = n+1, got
		}
	}
	return node, timeline
}

// until waits for a fact.
func (c *cluster) until(what string, fact func() bool) {
	c.t.Helper()
	end := time.Now().Add(patience)
	for !fact() {
		if time.Now().After(end) {
			c.t.Fatalf("after %v it is still not so that %s", patience, what)
		}
		<-time.After(200 * time.Millisecond)
	}
}

// replaced waits until another node leads than the one before.
func (c *cluster) replaced(before int) (node int) {
	c.t.Helper()
	c.until("another node leads", func() bool {
		node, _ = c.leader()
		return node != 0 && node != before
	})
	return node
}

// whole waits until both standbys stream from the primary, and Patroni has recorded the standbys
// that its commits wait for: no other may replace it.
func (c *cluster) whole() (leader int) {
	c.t.Helper()
	c.until("two standbys follow a primary", func() bool {
		leader, _ = c.leader()
		if leader == 0 {
			return false
		}
		streaming, _ := c.ask(leader, `SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'
			AND usename = 'replicator'`)
		return streaming == 2 && c.noted(leader)
	})
	return leader
}

// noted reports whether Patroni has recorded a synchronous standby.
func (c *cluster) noted(node int) bool {
	host, _, _ := strings.Cut(c.hosts[node-1], ":")
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
	defer cancel()
	question, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+":15433/cluster", http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(question)
	if err != nil {
		return false
	}
	defer answer.Body.Close() //nolint:errcheck // the answer is read
	text, err := io.ReadAll(answer.Body)
	return err == nil && strings.Contains(string(text), "sync_standby")
}
