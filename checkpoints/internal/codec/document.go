// Package codec reads the documents of the checkpoint store as the original program did: which ones
// it accepts, the words of its errors, and the canonical form of a document.
package codec

import "selvedge/internal/serdejson"

// An Error is why a document can't be read, in the words of the original.
type Error = serdejson.DecodeError

// Canonical returns the value that the original reads from a document, in compact form with keys in
// byte order: defaults filled in, unknown members removed, times in UTC. The original can't tell
// two documents with the same canonical form apart. Ids and times that the original generates at
// each load, for a proposal without them, are left out.
func Canonical(document []byte) ([]byte, error) {
	out, err := (&reader{document: document}).read()
	if err != nil {
		return nil, err
	}
	out, _ = serdejson.AppendCanonical(nil, out)
	return out, nil
}

// Plain is Canonical for encoding/json: free-form values keep their text, and members are left out
// if Go's zero value stands for their absence.
func Plain(document []byte) ([]byte, error) {
	return (&reader{document: document, plain: true}).read()
}

// Check returns why the original can't read a document, an *Error; nil if it can.
func Check(document []byte) error {
	_, err := (&reader{document: document, check: true}).read()
	return err
}

// Problem is the reason of Check; "" if there is none.
func Problem(document []byte) string {
	if err := Check(document); err != nil {
		return err.Error()
	}
	return ""
}

// read reads the document as the original does.
func (r *reader) read() ([]byte, error) {
	reason := serdejson.Read(r.document, 0, func(s *serdejson.Scanner) bool {
		r.s = s
		return parsed()["PausedWorkflow"].read(r)
	})
	if reason != "" {
		return nil, &Error{Reason: reason}
	}
	return r.out, nil
}
