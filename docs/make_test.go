package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The targets run where a person has cloned to, and people have spaces in the names of folders.
func TestLintAndFormatWorkBelowAPathWithASpace(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Fatal("this test runs make: install it")
	}
	clone := filepath.Join(t.TempDir(), "my clone")
	for _, dir := range []string{"bench/csqlite", "tools", "commands"} {
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
	for target, calls := range map[string]int{"lint": 4, "format": 1} {
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
