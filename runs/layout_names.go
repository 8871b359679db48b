package runs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"

	"selvedge/internal/tree"
)

// seedName is the file name that the seed version gives to an id: '/', '\' and NUL become '_',
// outer dots go, and nothing becomes "_". Different ids can give one name.
func seedName(id string) string {
	return fileName(id, ".", func(r rune) bool { return r == '/' || r == '\\' || r == 0 })
}

// laterName is the file name that versions since 0.53 give to an id.
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

// runPath is where a run's file is by a rule for names.
func runPath(e tree.Entity, rule func(string) string) string {
	return rule(e.Group) + "/" + rule(e.ID) + runExtension
}

// markOf tells files apart whose names give one id.
func markOf(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:4])
}
