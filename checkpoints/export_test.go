package checkpoints

import documents "selvedge/internal/checkpoints"

// A DocumentError says why a document can't be read, in the words of the original.
type DocumentError = documents.DocumentError

// Canonical is the value that the original reads from a document.
func Canonical(document []byte) ([]byte, error) { return documents.Canonical(document) }

// Problem is why the original can't read a document; "" if it can.
func Problem(document []byte) string { return documents.Problem(document) }

// InSmallTurns has recovery look at two claims at once and write about one, for the rest of a test.
func InSmallTurns(t interface{ Cleanup(func()) }) {
	turn, at := longestTurn, recoverBatch
	longestTurn, recoverBatch = 0, 2
	t.Cleanup(func() { longestTurn, recoverBatch = turn, at })
}
