package serdejson

import "unicode/utf8"

// NotUTF8 is what the originals say of bytes that are no text.
const NotUTF8 = "stream did not contain valid UTF-8"

// Check says why the originals would not read text as one JSON value that stands inside that many
// arrays and objects; "" if they would.
func Check(text []byte, above int) (reason string) {
	if !utf8.Valid(text) {
		return NotUTF8
	}
	s := NewScannerInside(text, above)
	if _, ok := s.Value(); ok {
		if s.Peek(); !s.AtEnd() {
			s.PeekFail("trailing characters")
		}
	}
	return s.reason
}

// NewScannerInside gives a scanner for a text that stands inside that many arrays and objects.
func NewScannerInside(text []byte, above int) *Scanner {
	return &Scanner{data: text, levels: maxLevels - above}
}
