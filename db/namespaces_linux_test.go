package db_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/test/dbtest"
)

// inNamespaces gives the command that runs a process in new namespaces, after script has changed
// something there.
func inNamespaces(t *testing.T, flags, script string) []string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test makes namespaces: run it as root")
	}
	words := append([]string{"unshare", "--fork", "--kill-child"}, strings.Fields(flags)...)
	if script == "" {
		return words
	}
	return append(words, "sh", "-c", script+` && exec "$@"`, "sh")
}

func TestRootOpen_FolderWithTwoPaths(t *testing.T) {
	path, _ := twoFolders(t)
	mounted := filepath.Join(t.TempDir(), "mounted")
	must(t, os.Mkdir(mounted, 0o700))
	d := dbtest.OpenAt(t, path, db.Options{})
	insertScope(t, d, "outside")
	inside, refused := startCrew(t, inNamespaces(t, "--mount", "mount --bind "+filepath.Dir(path)+" "+mounted),
		filepath.Join(mounted, "x.db"))
	if refused != "" {
		t.Fatal(refused)
	}
	inside.must(order{Op: "write", Name: "inside"})
	insertScope(t, d, "outside again")
	inside.Wait()
}

func TestRootMount_OfFileAloneIsNotWritten(t *testing.T) {
	path, other := twoFolders(t)
	must(t, os.WriteFile(other, nil, 0o600))
	_, refused := startCrew(t, inNamespaces(t, "--mount", "mount --bind "+path+" "+other), other)
	if !strings.Contains(refused, "mounted") {
		t.Errorf("it was opened: %q", refused)
	}
}

// elsewhere are the ways in which a container on the same machine differs.
func elsewhere(t *testing.T) map[string][]string {
	id := filepath.Join(t.TempDir(), "boot_id")
	must(t, os.WriteFile(id, []byte("11111111-2222-4333-8444-555555555555\n"), 0o600))
	return map[string][]string{
		"pid namespace":  inNamespaces(t, "--pid --mount-proc", ""),
		"boot id":        inNamespaces(t, "--mount", "mount --bind "+id+" /proc/sys/kernel/random/boot_id"),
		"time namespace": inNamespaces(t, "--time --boottime 7200", ""),
		"no proc":        inNamespaces(t, "--mount", "mount -t tmpfs none /proc"),
	}
}

func TestRootContainer_NeighbourKeepsItsClaims(t *testing.T) {
	for name, under := range elsewhere(t) {
		t.Run(name, func(t *testing.T) {
			path, d := openTable(t, claims)
			l := reserve(t, d, "attached", minutes(60, false))
			detached := reserve(t, d, "detached", minutes(60, true))
			claim(t, d)
			there, refused := startCrew(t, under, path)
			if refused != "" {
				t.Fatal(refused)
			}
			for _, name := range []string{"attached", "detached"} {
				if r := there.do(order{Op: "reserve", Name: name}); !r.Taken {
					t.Errorf("the neighbour took what is %s: %+v", name, r)
				}
			}
			if r := there.must(order{Op: "life", Owner: 1}); r.Life != "alive" {
				t.Errorf("it finds this process %s", r.Life)
			}
			theirs := there.must(order{Op: "reserve", Name: "theirs", TTL: time.Hour})
			owner := there.must(order{Op: "claim"}).Owner
			if l, err := d.Reserve(t.Context(), "port", "theirs", db.ReserveOptions{}); !errors.Is(err,
				db.ErrConflict) {
				t.Errorf("this process took what the neighbour holds: %v, %v", l, err)
			}
			must(t, l.Renew(t.Context()))
			must(t, detached.Renew(t.Context()))
			there.must(order{Op: "renew", Name: "theirs", Epoch: theirs.Epoch})
			if !alive(t, d, owner) {
				t.Error("the neighbour is dead while it runs")
			}
			there.Kill()
			waitUntilDead(t, d, owner)
			reserve(t, d, "theirs", db.ReserveOptions{})
		})
	}
}

// waitUntilDead waits for a process below the one that was killed.
func waitUntilDead(t *testing.T, d *db.DB, owner int64) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); alive(t, d, owner); {
		if time.Now().After(end) {
			t.Fatal("a killed process is alive")
		}
	}
}

func TestRootPID_KeptWithItsNamespace(t *testing.T) {
	path, d := openTable(t, claims)
	here := claim(t, d)
	there, refused := startCrew(t, inNamespaces(t, "--pid --mount-proc", ""), path)
	if refused != "" {
		t.Fatal(refused)
	}
	owner := there.must(order{Op: "claim"}).Owner
	var ns []int64
	must(t, d.Read(t.Context(), "look", func(rx *db.Rx) error {
		return rx.Select(&ns, "SELECT pid_ns FROM owners WHERE id IN (?, ?) ORDER BY id", here, owner)
	}))
	if own := txn.PIDNamespace(); len(ns) != 2 || own == nil || ns[0] != *own || ns[1] == *own {
		t.Errorf("the namespaces are %d", ns)
	}
}

// asUser runs a process as another user, with the group of this one.
func asUser(t *testing.T, group string) []string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test becomes another user: run it as root")
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Fatal("setpriv is missing (Debian: apt-get install util-linux)")
	}
	// The test binary lies where nobody else may look.
	dir, err := os.MkdirTemp("", "program")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	program, err := os.ReadFile(os.Args[0])
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	must(t, os.WriteFile(dir+"/test", program, 0o755))
	return []string{
		"setpriv", "--reuid=nobody", "--regid=" + group, "--clear-groups", "sh", "-c",
		`shift && exec ` + dir + `/test "$@"`, "sh",
	}
}

// sharedFolder gives the path of a file with this mode, in a folder that a group may write to.
func sharedFolder(t *testing.T, mode os.FileMode) string {
	t.Helper()
	top, err := os.MkdirTemp("", "shared") // TempDir's folders are closed to others
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(top)) })
	must(t, os.Chmod(top, 0o775|os.ModeSetgid))
	must(t, os.Chown(top, -1, 100))
	path := filepath.Join(top, "x.db")
	must(t, os.WriteFile(path, nil, mode))
	must(t, os.Chmod(path, mode))
	return path
}

func TestRootLockFiles_HaveFilesModeAndGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test gives files away: run it as root")
	}
	path := sharedFolder(t, 0o660)
	d := dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal})
	claim(t, d)
	write(t, d, numbers)
	fill(t, d, 5)
	await(t, "the reserve", func() bool {
		info, err := os.Stat(path + "-reserve")
		return err == nil && info.Size() == db.ReserveBytes
	})
	for _, suffix := range []string{"", "-lock", "-queue", "-wal", "-shm", "-reserve"} {
		info, err := os.Stat(path + suffix)
		must(t, err)
		if stat := info.Sys().(*syscall.Stat_t); info.Mode().Perm() != 0o660 || stat.Gid != 100 {
			t.Errorf("%s has mode %o and group %d", suffix, info.Mode().Perm(), stat.Gid)
		}
	}
}

func TestRootOpen_UsersOfGroupShareFile(t *testing.T) {
	under := asUser(t, "users")
	path := sharedFolder(t, 0o660)
	d := dbtest.OpenAt(t, path, db.Options{})
	reserve(t, d, "root's", minutes(1, false))
	other, refused := startCrew(t, under, path)
	if refused != "" {
		t.Fatal(refused)
	}
	if r := other.do(order{Op: "reserve", Name: "root's"}); !r.Taken {
		t.Errorf("%+v", r)
	}
	other.must(order{Op: "reserve", Name: "nobody's"})
	if _, err := d.Reserve(t.Context(), "port", "nobody's", db.ReserveOptions{}); !errors.Is(err,
		db.ErrConflict) {
		t.Error(err)
	}
	other.Kill()
	reserve(t, d, "nobody's", minutes(1, false))
}

func TestRootReader_CanAskWhoLives(t *testing.T) {
	under := asUser(t, "nogroup")
	path := sharedFolder(t, 0o644)
	d := dbtest.OpenAt(t, path, db.Options{})
	id := claim(t, d)
	other, refused := startCrew(t, under, path, "read-only")
	if refused != "" {
		t.Fatal(refused)
	}
	if r := other.must(order{Op: "life", Owner: id}); r.Life != "alive" {
		t.Errorf("it finds this process %s", r.Life)
	}
}
