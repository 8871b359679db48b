package runs

import (
	"selvedge/internal/serdejson"
)

// canonical is raw as the original writes a free-form value it has read: without blanks, object
// keys in byte order, the last of equal keys, strings with the fewest escapes, integers beyond 64
// bits as floats, floats in their shortest form (1.0, 1e+16, 1e-6). Two values are the same to the
// original if their canonical forms are.
//
// It is applied where a trace line is written from a record ([encode]), never to what a store hands
// back: a reader gets the bytes that were given. Lines that came from the original keep their own
// bytes and do not pass through here. Nothing, and null, give null.
func canonical(raw []byte) ([]byte, error) {
	if nothing(raw) {
		return []byte("null"), nil
	}
	if reason := serdejson.Check(raw, 0); reason != "" {
		return nil, &serdejson.DecodeError{Reason: reason}
	}
	return serdejson.AppendCanonical(nil, raw), nil
}
