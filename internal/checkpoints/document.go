// Package checkpoints holds what the checkpoint store keeps and how old programs read it: which
// documents they accept, in whose words they refuse the others, the rows, and the table of a scope
// as an import reads and fills it.
package checkpoints

import (
	"unicode/utf8"

	"selvedge/internal/serdejson"
)

// A DocumentError says why a document can't be read, in the words of the original.
type DocumentError struct{ Reason string }

// Error gives the reason.
func (e *DocumentError) Error() string { return e.Reason }

// Canonical is the value that the original reads from a document, written compact and with keys in
// byte order: defaults are filled in, unknown members are gone, times are in UTC. Two documents are
// the same to the original if their canonical forms are. Ids and times that the original makes up
// at each load (of a proposal that lacks them) are left out.
func Canonical(document []byte) ([]byte, error) {
	r, reason := readDocument(document, false)
	if reason != "" {
		return nil, &DocumentError{reason}
	}
	return r.out, nil
}

// Problem is why the original can't read a document, in its words; "" if it can.
func Problem(document []byte) string {
	_, problem := Look(document)
	return problem
}

// Look is Problem that tells, too, whether encoding/json would read the document otherwise: a list
// in place of a struct, a member known but for its case.
func Look(document []byte) (unusual bool, problem string) {
	r, reason := readDocument(document, true)
	return r.unusual, reason
}

// readDocument reads a document as the original does; reason is why that fails, or "".
func readDocument(document []byte, check bool) (r *reader, reason string) {
	r = &reader{s: serdejson.NewScanner(document), check: check}
	if !utf8.Valid(document) {
		return r, serdejson.NotUTF8
	}
	if pausedWorkflow.read(r) && r.s.Peek() != 0 || r.s.Reason() == "" && !r.s.AtEnd() {
		r.s.PeekFail("trailing characters")
	}
	return r, r.s.Reason()
}
