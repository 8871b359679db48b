package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/db"
)

// A killed program's -wal lies beside a backup: every command says so, and nothing is changed until
// the line of the hint was run.
func TestForeignWAL_EveryCommandSaysWhatToDo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's here")
	path, backup := filepath.Join(dir, "a.db"), filepath.Join(dir, "backup.db")
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	if err := d.Write(t.Context(), "add",
		func(tx *db.Tx) error { _, err := tx.Store().Scope("later"); return err }); err != nil {
		t.Fatal(err)
	}
	shell(t, "cp", path+"-wal", path+".kept") // as a killed program leaves it
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	shell(t, "mv", path+".kept", path+"-wal")
	shell(t, "cp", backup, path)
	wal, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	var hint string
	for _, args := range [][]string{
		{"status"},
		{"doctor"},
		{"doctor", "--fix"},
		{"check"},
		{"backup", dir + "/copy.db"},
		{"salvage", dir + "/saved.db"},
		{"stats"},
		{"up"},
		{"down", "--to", "20", "--yes"},
		{"compact"},
		{"runs", "list"},
		{"query", "SELECT 1"},
		{"gc", "--apply"},
	} {
		var out, notes bytes.Buffer
		exit := run(append([]string{"--db", path}, args...), strings.NewReader(""), &out, &notes)
		said := notes.String()
		if exit != kindUnsupported.exit || !strings.Contains(said, path+"-wal (") ||
			!strings.Contains(said, "killed") {
			t.Errorf("%q: exit %d: %s", args, exit, said)
			continue
		}
		lines := strings.Split(strings.TrimSpace(said), "\n")
		if line := strings.TrimSpace(lines[len(lines)-1]); hint == "" {
			hint = line
		} else if line != hint {
			t.Errorf("%q: the hint ends with %q, not with %q", args, line, hint)
		}
		if args[0] == "doctor" && !strings.Contains(out.String(), "WAL") {
			t.Errorf("the doctor finds %s", out.String())
		}
	}
	if now, err := os.ReadFile(path + "-wal"); err != nil || !bytes.Equal(now, wal) {
		t.Errorf("the -wal was changed (%v)", err)
	}
	shell(t, "cmp", backup, path)
	shell(t, "sh", "-c", hint)
	var out, notes bytes.Buffer
	if exit := run([]string{"--db", path, "check"}, strings.NewReader(""), &out, &notes); exit != 0 {
		t.Errorf("after the line of the hint: exit %d: %s", exit, notes.String())
	}
}

func shell(t *testing.T, words ...string) {
	t.Helper()
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v: %s", words, err, out)
	}
}
