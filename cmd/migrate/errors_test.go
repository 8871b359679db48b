package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"selvedge/db"
)

func TestBusyError_NamesTheHolder(t *testing.T) {
	busy := &db.Error{Op: "write", HeldBy: []int{17, 23}, Err: db.ErrBusy}
	for want, err := range map[string]error{
		`{"error":{"kind":"busy","op":"migrate","message":"prune: write: busy","hint":"","held_by":[17,23]}}`: fmt.Errorf("prune: %w", busy),
		`{"error":{"kind":"busy","op":"migrate","message":"busy","hint":""}}`:                                 db.ErrBusy,
	} {
		var out bytes.Buffer
		a := &app{json: true, stderr: &out}
		if code := a.report(err); code != 5 || out.String() != want+"\n" {
			t.Errorf("exit %d: %s", code, out.String())
		}
	}
}

func TestReport_JoinedErrorsAreOneLine(t *testing.T) {
	for asJSON, want := range map[bool]string{
		false: "migrate: no disk; no memory\n",
		true:  `{"error":{"kind":"failed","op":"migrate","message":"no disk; no memory","hint":""}}` + "\n",
	} {
		var out bytes.Buffer
		a := &app{json: asJSON, stderr: &out}
		a.report(errors.Join(errors.New("no disk"), errors.New("no memory")))
		if out.String() != want {
			t.Errorf("%q, and not %q", out.String(), want)
		}
	}
}

func TestHint_UnwritableFileNamesNoOption(t *testing.T) {
	path := waitingRuns(t)
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	exit, _, stderr := call(t, "--db", path, "gc", "--apply")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if exit != 1 || !strings.HasSuffix(stderr, "hint: give its user the right to write it\n") {
		t.Errorf("exit %d: %s", exit, stderr)
	}
}

func TestHint_URIIsNoOlderFile(t *testing.T) {
	exit, _, stderr := call(t, "--db", "file:runs.db", "status")
	if exit != 2 || strings.Contains(stderr, "hint") {
		t.Errorf("exit %d: %s", exit, stderr)
	}
}

func TestHint_OfAHardLinkIsAboutLinks(t *testing.T) {
	path := waitingRuns(t)
	if err := os.Link(path, path+"-2"); err != nil {
		t.Fatal(err)
	}
	exit, _, stderr := call(t, "--db", path+"-2", "gc", "--apply")
	if err := os.Remove(path + "-2"); err != nil {
		t.Fatal(err)
	}
	if exit == 0 || !strings.Contains(stderr,
		"hint: use one path in all programs, and copies instead of links\n") {
		t.Errorf("exit %d: %s", exit, stderr)
	}
}
