package stores_test

import (
	"slices"
	"strconv"
	"testing"

	"selvedge/db"
	"selvedge/internal/paging"
)

func TestAllPagesGoesThroughPagesOfAnySize(t *testing.T) {
	for size := 1; size <= 4; size++ {
		page := func(at db.At) (page db.Page[int], err error) {
			from, _ := strconv.Atoi(at.After) // "" is the beginning
			for n := from; n < min(from+size, 5); n++ {
				page.Items = append(page.Items, n)
			}
			if from+size < 5 {
				page.Next = strconv.Itoa(from + size)
			}
			return page, nil
		}
		var got []int
		for n, err := range paging.All(page) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, n)
		}
		if !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
			t.Errorf("pages of %d give %v", size, got)
		}
	}
}
