package runs

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"

	"selvedge/internal/tree"
)

// seedName is the file name that the seed version gives to an id: '/', '\' and NUL become '_',
// outer dots go, and nothing becomes "_". Different ids can give one name.
func seedName(id string) string {
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == 0 {
			return '_'
		}
		return r
	}, id)
	return orUnderscore(strings.Trim(name, "."))
}

// laterName is the file name that versions since 0.53 give to an id.
func laterName(id string) string {
	name := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || strings.ContainsRune(`<>:"/\|?*`, r) {
			return '_'
		}
		return r
	}, id)
	return orUnderscore(strings.Trim(name, ". "))
}

func orUnderscore(name string) string {
	if name == "" {
		return "_"
	}
	return name
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
