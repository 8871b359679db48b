package legacy

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"

	"selvedge/runs"
)

// The names that the original and its later versions give to ids, as the tests' model knows them.

const (
	maxName      = 255
	runExtension = ".jsonl"
)

func seedName(id string) string {
	return nameOf(strings.NewReplacer("/", "_", `\`, "_", "\x00", "_").Replace(id), ".")
}

func laterName(id string) string {
	return nameOf(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || strings.ContainsRune(`<>:"/\|?*`, r) {
			return '_'
		}
		return r
	}, id), ". ")
}

func nameOf(id, outer string) string {
	if id = strings.Trim(id, outer); id == "" {
		return "_"
	}
	return id
}

func runPath(ref runs.RunRef, rule func(string) string) string {
	return rule(ref.AgentID) + "/" + rule(ref.RunID) + runExtension
}

// markOf is how an id ends that two files of a tree would have.
func markOf(path string) string { return hex.EncodeToString(digest([]byte(path))[:4]) }

func digest(text []byte) []byte {
	sum := sha256.Sum256(text)
	return sum[:]
}

func below(root, path string) string { return root + "/" + path }

// idName is the folder that the original gives to the id of a runtime or worker.
func idName(id string) string { return "id-" + hex.EncodeToString([]byte(id)) }
