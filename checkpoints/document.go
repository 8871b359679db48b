package checkpoints

import (
	"unicode/utf8"

	"selvedge/internal/serdejson"
)

// A DocumentError says why a document can't be read, in the words of the original.
type DocumentError struct{ Reason string }

// Error gives the reason.
func (e *DocumentError) Error() string { return e.Reason }

// Canonical is the value that the original reads from a document, written compact and with keys in byte order: defaults
// are filled in, unknown members are gone, times are in UTC. Two documents are the same to the original if their canonical
// forms are. Ids and times that the original makes up at each load (of a proposal that lacks them) are left out.
func Canonical(document []byte) ([]byte, error) {
	r, reason := readDocument(document, false)
	if reason != "" {
		return nil, &DocumentError{reason}
	}
	return r.out, nil
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
