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
	return (&reader{document: document}).canonical()
}

// Plain is Canonical for encoding/json: free-form values keep their text, and members whose absence
// Go's zero value says are left out.
func Plain(document []byte) ([]byte, error) {
	return (&reader{document: document, plain: true}).canonical()
}

// Problem is why the original can't read a document, in its words; "" if it can.
func Problem(document []byte) string { return (&reader{document: document, check: true}).read() }

func (r *reader) canonical() ([]byte, error) {
	if reason := r.read(); reason != "" {
		return nil, &Error{reason}
	}
	return r.out, nil
}

// read reads the document as the original does; the answer is why that fails, or "".
func (r *reader) read() (reason string) {
	if !utf8.Valid(r.document) {
		return serdejson.NotUTF8
	}
	r.s = serdejson.NewScanner(r.document)
	if pausedWorkflow.read(r) && r.s.Peek() != 0 || r.s.Reason() == "" && !r.s.AtEnd() {
		r.s.PeekFail("trailing characters")
	}
	return r.s.Reason()
}
