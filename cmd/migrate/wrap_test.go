package main

import (
	"strings"
	"testing"
)

func TestHelpFitsTheTerminal(t *testing.T) {
	got := fold("It says what\nit is.\n\nUsage:\n  a line\n\nFlags:\n      --db FILE   the FILE that is "+
		"meant\n  an-unbreakable-word-that-is-wide\n", 24)
	for line := range strings.Lines(got) {
		if len(line) > 25 && !strings.Contains(line, "unbreakable") {
			t.Errorf("%q is %d wide", line, len(line)-1)
		}
	}
	if want := "It says what it is.\n\nUsage:\n  a line\n\nFlags:\n"; !strings.HasPrefix(got, want) {
		t.Errorf("it begins with %q", got)
	}
	if got := fold("  gc   Show what has ended\n", 20); got != "  gc   Show what has\n       ended\n" {
		t.Errorf("what goes on stands at %q", got)
	}
}
