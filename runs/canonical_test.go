package runs

import (
	"testing"

	"selvedge/internal/serdejson"
)

// canonical is raw as the original writes a free-form value it has read: without blanks, object
// keys in byte order, the last of equal keys, strings with the fewest escapes, integers beyond 64
// bits as floats, floats in their shortest form (1.0, 1e+16, 1e-6). Two values are the same to the
// original if their canonical forms are.
//
// It is applied where a trace line is written from a record (encode), never to what a store hands
// back: a reader gets the bytes that were given. Lines that came from the original keep their own
// bytes and do not pass through here. Nothing, and null, give null.
func canonical(raw []byte) ([]byte, error) {
	if nothing(raw) {
		return []byte("null"), nil
	}
	if reason := serdejson.Check(raw, 0); reason != "" {
		return nil, &serdejson.DecodeError{Reason: reason}
	}
	return canonicalRaw(nil, raw), nil
}

func TestCanonicalIsWhatTheOriginalWrites(t *testing.T) {
	for raw, want := range map[string]string{
		"":                               "null",
		" null ":                         "null",
		" [ 1 , \"a\" , { } ] ":          `[1,"a",{}]`,
		`{"b":1,"a":2,"b":3}`:            `{"a":2,"b":3}`,
		`{"\u0062":1.10,"a":{"d":1E3 }}`: `{"a":{"d":1000.0},"b":1.1}`,
	} {
		got, err := canonical([]byte(raw))
		if err != nil || string(got) != want {
			t.Errorf("%s gave %s, %v; want %s", raw, got, err, want)
		}
	}
	for _, raw := range []string{
		"1e400", "01", "1.", "{", `"\ud800"`, "NaN", "\"\xff\"", "[1,]", "{}x", "\x00",
		"nulL",
	} {
		if got, err := canonical([]byte(raw)); err == nil {
			t.Errorf("%q gave %s", raw, got)
		}
	}
}
