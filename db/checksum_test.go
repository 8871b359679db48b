package db_test

import (
	"strings"
	"testing"

	"selvedge/internal/txn"
)

func TestAChecksumTellsRowsApart(t *testing.T) {
	long := strings.Repeat("x", 1000)
	rows := [][]any{
		{},
		{nil, ""},
		{nil, nil, ""},
		{nil, int64(0)},
		{int64(0)},
		{int64(1)},
		{""},
		{"", ""},
		{[]byte{}},
		{"a", ""},
		{"", "a"},
		{[]byte("a"), ""},
		{1.0},
		{long, "y"},
		{long + "y", ""},
		{long, nil, "y"},
		{[]byte(long), "y"},
	}
	seen := map[int64]int{}
	for i, row := range rows {
		sum := txn.Checksum(row...)
		if before, twice := seen[sum]; twice {
			t.Errorf("rows %d and %d have one checksum", before, i)
		}
		seen[sum] = i
	}
	if txn.Checksum(true, false, 7) != txn.Checksum(int64(1), int64(0), int64(7)) {
		t.Error("a value as it is given to a statement has another checksum than as it comes out of the table")
	}
	// A row stays right when its table gets another column, which it has nothing in.
	for _, row := range rows {
		if txn.Checksum(row...) != txn.Checksum(append(row, nil, (*string)(nil))...) {
			t.Errorf("%v has another checksum with two more columns", row)
		}
	}
	// Files keep checksums, so they must stay what they are.
	if got := txn.Checksum("abc", int64(-2), []byte(long)); got != 2709777053 {
		t.Errorf("the checksum of a known row is %d", got)
	}
}
