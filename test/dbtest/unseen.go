//go:build postgres

package dbtest

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
)

// generated are ids of runs and runtimes that are others each time.
var generated = regexp.MustCompile(`(run|runtime-mem)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// SameAsOnAFile runs play with a file, and then with a database of a server, for each seed, and
// compares the answers, line by line. Generated ids are the same if they first occur at the same
// place.
func SameAsOnAFile(t *testing.T, seeds []uint64, play func(t *testing.T, random *rand.Rand) []string) {
	t.Helper()
	onFile := map[uint64][]string{}
	each := func(where string, then func(t *testing.T, seed uint64, lines []string)) {
		for _, seed := range seeds {
			t.Run(where+" "+strconv.FormatUint(seed, 10), func(t *testing.T) {
				lines, first := play(t, rand.New(rand.NewPCG(seed, 0))), map[string]string{}
				for i := range lines {
					lines[i] = generated.ReplaceAllStringFunc(lines[i], func(id string) string {
						if first[id] == "" {
							first[id] = fmt.Sprintf("<id %d>", len(first)+1)
						}
						return first[id]
					})
				}
				then(t, seed, lines)
			})
		}
	}
	each("file", func(_ *testing.T, seed uint64, lines []string) { onFile[seed] = lines })
	beginSuite(t)
	each("server", func(t *testing.T, seed uint64, lines []string) {
		want := onFile[seed]
		for i := range min(len(want), len(lines)) {
			if want[i] != lines[i] {
				at := 0
				for at < min(len(want[i]), len(lines[i])) && want[i][at] == lines[i][at] {
					at++
				}
				from := max(0, at-200)
				t.Errorf("answer %d, %.60s, differs in byte %d:\nfile   %.800s\nserver %.800s", i, want[i], at,
					want[i][from:], lines[i][from:])
				return // later differences may follow from it
			}
		}
		if len(want) != len(lines) {
			t.Errorf("%d answers of the file, %d of the server", len(want), len(lines))
		}
	})
}
