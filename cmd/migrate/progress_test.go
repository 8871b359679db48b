package main

import (
	"strings"
	"testing"

	"selvedge/legacy"
)

func TestProgress_HasRateAndTimeLeft(t *testing.T) {
	var drawn strings.Builder
	bar := &progress{to: &drawn, what: "runs"}
	bar.update(legacy.Progress{Bytes: 9_000_000, TotalBytes: 10_000_000})
	// In the instant of the first look nothing has a rate.
	if text := drawn.String(); !strings.Contains(text, "runs   0% |") || !strings.Contains(text, "[0s:0s]") ||
		strings.Contains(text, "B/s") {
		t.Errorf("at first it is %q", text)
	}
}
