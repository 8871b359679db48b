package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestPlace_NoticesEveryChange(t *testing.T) {
	for name, c := range map[string]struct {
		change  string // a script, in the folder above a/b/x.db
		changed bool
	}{
		"a write":                        {"printf x >> a/b/x.db", false},
		"a write beside it":              {"printf x >> a/b/x.db-wal", false},
		"another file beside it":         {"touch a/b/y", false},
		"another file in a folder above": {"touch a/y && rm a/y", false},
		"removed":                        {"rm a/b/x.db", true},
		"renamed":                        {"mv a/b/x.db a/b/y", true},
		"moved":                          {"mv a/b/x.db a/", true},
		"replaced":                       {"touch a/y && mv a/y a/b/x.db", true},
		"linked":                         {"ln a/b/x.db a/y", true},
		"removed beside it":              {"rm a/b/x.db-wal", true},
		"replaced beside it":             {"touch a/y && mv a/y a/b/x.db-wal", true},
		"its folder":                     {"mv a/b a/c", true},
		"a folder above":                 {"mv a c", true},
		"all of it":                      {"rm -r a", true},
	} {
		t.Run(name, func(t *testing.T) {
			top, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			run(t, top, "mkdir -p a/b && touch a/b/x.db a/b/x.db-wal")
			p, err := WatchPlace(filepath.Join(top, "a/b/x.db"))
			if err != nil {
				t.Fatalf("the system does not tell of changes: %v", err)
			}
			if p.Changed() {
				t.Error("before anything was done it had changed")
			}
			run(t, top, c.change)
			if changed := p.Changed(); changed != c.changed {
				t.Errorf("it says that it changed: %t", changed)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// inNamespace runs a test in a process of its own, where mounts are nobody else's, and gives that
// one a folder; "" in the first.
func inNamespace(t *testing.T) (top string) {
	t.Helper()
	const inside = "SELVEDGE_IN_NAMESPACE"
	if top = os.Getenv(inside); top != "" {
		return top
	}
	if os.Geteuid() != 0 {
		t.Fatal("this test makes namespaces: run it as root")
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--mount", os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), inside+"="+top)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return ""
}

func TestRootPlace_TellsOfMountAbove(t *testing.T) {
	top := inNamespace(t)
	if top == "" {
		return
	}
	run(t, top, "mkdir -p a/b && touch a/b/x.db")
	p, err := WatchPlace(filepath.Join(top, "a/b/x.db"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Changed() {
		t.Error("before anything was done it had changed")
	}
	run(t, top, "mount -t tmpfs none a")
	if !p.Changed() {
		t.Error("it did not notice")
	}
	run(t, top, "umount a")
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestRootPlace_RootTellsWhatLiesThere(t *testing.T) {
	top := inNamespace(t)
	if top == "" {
		return
	}
	run(t, top, "mkdir proc && mount --bind /proc proc && touch x.db x.db-wal")
	if err := unix.Chroot(top); err != nil {
		t.Fatal(err)
	}
	p, err := WatchPlace("/x.db")
	if err != nil {
		t.Fatal(err)
	}
	if p.Changed() {
		t.Error("before anything was done it had changed")
	}
	if err := os.Remove("/x.db-wal"); err != nil {
		t.Fatal(err)
	}
	if !p.Changed() {
		t.Error("it did not notice")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func run(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

func TestWhatOthersMayChangeIsNotWatched(t *testing.T) {
	const fuse = 0x65735546
	real := StatfsType
	StatfsType = func(string) (int64, error) { return fuse, nil }
	t.Cleanup(func() { StatfsType = real })
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := WatchPlace(path); err == nil {
		t.Errorf("it is watched: %v", p.Close())
	}
}
