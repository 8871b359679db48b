//go:build postgres

package dbtest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// PgBouncer starts one before the server at an address, and returns the address behind it. In the
// mode session a client has a connection of the server for as long as it is connected, in the
// mode transaction for each of its transactions. root is the path from the package's folder to
// the module's.
func PgBouncer(t testing.TB, root, address, mode string) string {
	t.Helper()
	server, err := pgconn.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(root, "tools", "need"), "pgbouncer",
		"setpriv").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := openFolder(t)
	path, settings := filepath.Join(dir, "pgbouncer.ini"), fmt.Sprintf(`[databases]
* = host=%s port=%d user=%s
[pgbouncer]
pool_mode = %s
listen_port = 6432
unix_socket_dir = %s
auth_type = any
max_client_conn = 400
default_pool_size = 100
server_reset_query = DISCARD ALL
`, server.Host, server.Port, server.User, mode, dir)
	if err := os.WriteFile(path, []byte(settings), 0o644); err != nil { //nolint:gosec // not a secret
		t.Fatal(err)
	}
	command := []string{"pgbouncer", "-q", path}
	if os.Geteuid() == 0 { // it refuses to run as root
		if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // the socket comes there
			t.Fatal(err)
		}
		command = append([]string{"setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"}, command...)
	}
	said, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(command[0], command[1:]...)
	run.Stdout, run.Stderr = said, said
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Process.Kill()
		_ = run.Wait() // its error is that it was killed
		if log, err := os.ReadFile(said.Name()); t.Failed() && err == nil {
			t.Logf("PgBouncer said:\n%s", log)
		}
		_ = said.Close()
	})
	pooled := fmt.Sprintf("postgres://%s@/%s?host=%s&port=6432",
		server.User, server.Database, url.QueryEscape(dir))
	Await(t, "PgBouncer answers", func() bool {
		_, err := postgresExec(pooled, "SELECT 1")
		if _, refused := errors.AsType[*pgconn.PgError](err); refused {
			t.Fatal(err)
		}
		return err == nil
	})
	return pooled
}
