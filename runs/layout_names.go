package runs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"

	"selvedge/internal/tree"
)

// seedName returns the file name that the seed version uses for an id: '/', '\' and NUL become '_',
// leading and trailing dots are removed, and an empty name becomes "_". Different ids can have the
// same name.
func seedName(id string) string {
	return fileName(id, ".", func(r rune) bool { return r == '/' || r == '\\' || r == 0 })
}

// laterName returns the file name that versions since 0.53 use for an id.
func laterName(id string) string {
	return fileName(id, ". ", func(r rune) bool {
		return unicode.IsControl(r) || strings.ContainsRune(`<>:"/\|?*`, r)
	})
}

func fileName(id, outer string, bad func(rune) bool) string {
	name := strings.Map(func(r rune) rune {
		if bad(r) {
			return '_'
		}
		return r
	}, id)
	return cmp.Or(strings.Trim(name, outer), "_")
}

// runPath returns the path of a run's file by a rule for names.
func runPath(e tree.Entity, rule func(string) string) string {
	return rule(e.Group) + "/" + rule(e.ID) + runExtension
}

// markOf returns a mark that distinguishes files whose names yield the same id.
func markOf(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:4])
}
