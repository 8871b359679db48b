package main

import (
	"strings"
	"testing"
)

func TestAgainst_ReadsTablesAndPrintsRatios(t *testing.T) {
	var table strings.Builder
	err := printTable(&table, []result{
		{row: "claim, against rename", baseline: "20.0 µs", ours: "1.50 ms", ratio: "75.00x", target: "<= 1.70x"},
		{row: "open", ours: "2.00 s", target: "<= 3ms"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var here, there []measured
	for line := range strings.Lines(table.String()) {
		if m, ok := readRow(line); ok {
			here = append(here, m)
		}
	}
	there = append(there, measured{"claim", 750, "µs"})
	var out strings.Builder
	if err := printAgainst(&out, "abc", [2][]measured{there, here}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"claim  750.0 µs  1500.0 µs  2.00x", "open   -         2000000.0 µs"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
