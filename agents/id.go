package agents

import (
	"crypto/rand"
	"encoding/base32"
	"strings"
)

// GenerateID makes an id that no other agent has: "agent-" and twenty characters of a to z and 2 to
// 7, 96 random bits.
func GenerateID() string {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand
	encoded := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(random[:])
	return "agent-" + strings.ToLower(encoded)
}
