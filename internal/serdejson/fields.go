package serdejson

import "fmt"

// A DecodeError says why an original does not accept a text, in the words of its library, so that the
// reports of both programs can be compared.
type DecodeError struct{ Reason string }

func (e *DecodeError) Error() string { return e.Reason }

// Errorf returns a *DecodeError.
func Errorf(format string, args ...any) error {
	return &DecodeError{Reason: fmt.Sprintf(format, args...)}
}

// Fields are the values of a struct's fields by position; nil if one is absent. The first error stays,
// and later reads do nothing: so a caller reads all fields and checks Err once.
type Fields struct {
	Names  []string // of the fields, in order of declaration; at most twelve
	Values [12][]byte
	Err    error
}

// Fail keeps a *DecodeError.
func (f *Fields) Fail(format string, args ...any) {
	if f.Err == nil {
		f.Err = Errorf(format, args...)
	}
}

// Keep keeps an error, if there is none yet.
func (f *Fields) Keep(err error) {
	if f.Err == nil {
		f.Err = err
	}
}

// Need is a required field; nil after an error.
func (f *Fields) Need(i int) []byte {
	if f.Values[i] == nil {
		f.Fail("missing field `%s`", f.Names[i])
	}
	if f.Err != nil {
		return nil
	}
	return f.Values[i]
}

// Given is an optional field; nil if it is absent or null, and after an error.
func (f *Fields) Given(i int) []byte {
	if f.Err != nil || len(f.Values[i]) == 0 || f.Values[i][0] == 'n' {
		return nil
	}
	return f.Values[i]
}

// Text is a required string.
func (f *Fields) Text(i int) string {
	text := f.Need(i)
	if text == nil {
		return ""
	}
	s, err := String(text)
	f.Keep(err)
	return s
}

// OptionalText is an optional string.
func (f *Fields) OptionalText(i int) *string {
	text := f.Given(i)
	if text == nil {
		return nil
	}
	s, err := String(text)
	f.Keep(err)
	return &s
}

// Uint is a required whole number up to largest. typeName is the original's type.
func (f *Fields) Uint(i int, largest uint64, typeName string) uint64 {
	text := f.Need(i)
	if text == nil {
		return 0
	}
	if !IsNumber(text) {
		f.Fail("invalid type: %s, expected %s", Unexpected(text), typeName)
		return 0
	}
	n := ParseNumber(text)
	switch {
	case n.Kind == 'f':
		f.Fail("invalid type: %s, expected %s", Unexpected(text), typeName)
	case n.Kind == 'i' || n.Uint > largest:
		f.Fail("invalid value: %s, expected %s", Unexpected(text), typeName)
	}
	return n.Uint
}

// String reads a value that must be a string.
func String(text []byte) (string, error) {
	if text[0] != '"' {
		return "", Errorf("invalid type: %s, expected a string", Unexpected(text))
	}
	return Unquote(text), nil
}
