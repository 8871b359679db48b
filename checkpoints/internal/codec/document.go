// Package codec reads the documents of the checkpoint store as the original program did: which ones
// it accepts, the words of its errors, and the canonical form of a document.
package codec

import (
	"unicode/utf8"

	"selvedge/internal/serdejson"
)

// An Error is why a document can't be read, in the words of the original.
type Error struct{ Reason string }

// Error returns the reason.
func (e *Error) Error() string { return e.Reason }

// Canonical returns the value that the original reads from a document, in compact form with keys in
// byte order: defaults filled in, unknown members removed, times in UTC. The original can't tell two
// documents with the same canonical form apart. Ids and times that it makes up at each load (of a
// proposal that lacks them) are left out.
func Canonical(document []byte) ([]byte, error) {
	r, reason := readDocument(document, false)
	if reason != "" {
		return nil, &Error{reason}
	}
	return r.out, nil
}

// Problem is why the original can't read a document, in its words; "" if it can.
func Problem(document []byte) string {
	_, problem := Inspect(document)
	return problem
}

// Inspect is Problem, and also reports whether encoding/json would read the document differently: a
// list for a struct, or a member known in another case.
func Inspect(document []byte) (unusual bool, problem string) {
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
