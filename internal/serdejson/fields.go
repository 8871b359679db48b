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
func (f *Fields) Fail(format string, args ...any) { f.Keep(Errorf(format, args...)) }

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

// take reads the value of a field; zero if text is nil.
func take[T any](f *Fields, text []byte, value func(text []byte) (T, error)) (v T) {
	if text != nil {
		var err error
		v, err = value(text)
		f.Keep(err)
	}
	return v
}

// Text is a required string.
func (f *Fields) Text(i int) string { return take(f, f.Need(i), String) }

// OptionalText is an optional string.
func (f *Fields) OptionalText(i int) *string {
	return take(f, f.Given(i), func(text []byte) (*string, error) {
		s, err := String(text)
		return &s, err
	})
}

// Uint is a required whole number up to largest. typeName is the original's type.
func (f *Fields) Uint(i int, largest uint64, typeName string) uint64 {
	return take(f, f.Need(i), func(text []byte) (uint64, error) { return Uint(text, largest, typeName) })
}

// String reads a value that must be a string.
func String(text []byte) (string, error) {
	if text[0] != '"' {
		return "", Errorf("invalid type: %s, expected a string", Unexpected(text))
	}
	return Unquote(text), nil
}

// Uint reads a value that must be a whole number up to largest.
func Uint(text []byte, largest uint64, typeName string) (uint64, error) {
	n, err := Whole(text, 0, largest, typeName)
	return n.Uint, err
}

// Whole reads a value that must be a whole number from least, which is not above 0, up to largest.
func Whole(text []byte, least int64, largest uint64, typeName string) (n Number, err error) {
	if IsNumber(text) {
		n = ParseNumber(text)
	}
	switch {
	case n.Int < least || n.Uint > largest:
		return Number{}, Errorf("invalid value: %s, expected %s", Unexpected(text), typeName)
	case n.Kind != 'u' && n.Kind != 'i':
		return Number{}, Errorf("invalid type: %s, expected %s", Unexpected(text), typeName)
	}
	return n, nil
}
