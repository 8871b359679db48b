package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A module of three packages: b imports a, and c has most tests.
func TestQuick_ChangedPackageAndImportersRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a clone")
	script, err := os.ReadFile("../tools/quick")
	if err != nil {
		t.Fatal(err)
	}
	const test = "import \"testing\"\nfunc TestIt(*testing.T) {}\nfunc TestLong(t *testing.T) { t.Fatal() }\n"
	for name, text := range map[string]string{
		"tools/quick": string(script), "go.mod": "module m\n\ngo 1.26\n",
		"a/a.go": "package a\n", "b/b.go": "package b\nimport _ \"m/a\"\n", "c/c.go": "package c\n",
		"a/a_test.go": "package a\n" + test, "b/b_test.go": "package b\n\n" + test,
		"c/c_test.go": "package c\n\n\n" + test,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	run := func(env string, args ...string) (string, error) {
		command := exec.Command(args[0], args[1:]...)
		command.Dir = dir
		command.Env = append(os.Environ(), "QUICK_SKIP=TestLong", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir),
			"GIT_CONFIG_GLOBAL=/dev/null", env)
		out, err := command.CombinedOutput()
		return string(out), err
	}
	quick := func(what, env string, fails bool, words ...string) {
		t.Helper()
		out, err := run(env, "tools/quick")
		for _, word := range words {
			if word, absent := strings.CutPrefix(word, "not "); strings.Contains(out, word) == absent {
				t.Errorf("%s: %q is there: %v\n%s", what, word, !absent, out)
			}
		}
		if (err != nil) != fails {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
	quick("without git", "", false, "unknown", "ran          ./a", "ran          ./b", "ran          ./c")
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"add", "."},
		{"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all"},
	} {
		if out, err := run("", append([]string{"git"}, args...)...); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "a/a.go"), []byte("package a\n\nvar A int\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	quick("a change of a", "", false, "changed:     ./a", "ran          ./a", "ran          ./b", "not ./c")
	quick("a change of a that fails", "QUICK_SKIP=^$", true, "FAILED       ./a", "--- FAIL: TestLong")
	quick("no time", "QUICK_SECONDS=0", false, "no time for  ./a", "no time for  ./b")
}

// The targets run where a person has cloned to, and people have spaces in the names of folders.
func TestLintAndFormatWorkBelowAPathWithASpace(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Fatal("this test runs make: install it")
	}
	clone := filepath.Join(t.TempDir(), "my clone")
	for _, dir := range []string{
		"bench/csqlite", "bench/peers", "adapters/adk", "test/browser", "tools", "commands",
	} {
		if err := os.MkdirAll(filepath.Join(clone, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	stub := "#!/bin/sh\n"
	for name, text := range map[string]string{
		"Makefile": string(makefile), "tools/need": stub,
		// A go command that only looks whether its -modfile is one word, and names the right file.
		"commands/go": stub + "for arg; do case $arg in -modfile=*) test \"${arg#-modfile=}\" = '" + clone +
			"/tools/go.mod' && echo told; esac; done\n",
	} {
		if err := os.WriteFile(filepath.Join(clone, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for target, calls := range map[string]int{"lint": 7, "format": 1} {
		command := exec.Command("make", "-s", target)
		command.Dir = clone
		command.Env = append(os.Environ(), "PATH="+filepath.Join(clone, "commands")+":"+os.Getenv("PATH"),
			"MAKEFLAGS=")
		out, err := command.CombinedOutput()
		if got := strings.Count(string(out), "told"); err != nil || got != calls {
			t.Errorf("make %s: %d of %d calls got the module file, %v\n%s", target, got, calls, err, out)
		}
	}
}
