package serdejson

import "unicode/utf8"

// NotUTF8 is the originals' error for bytes that are not text.
const NotUTF8 = "stream did not contain valid UTF-8"

// Check says why the originals would not read text as one JSON value; "" if they would. above is how
// many arrays and objects the value is in.
func Check(text []byte, above int) (reason string) {
	return Read(text, above, func(s *Scanner) bool {
		_, ok := s.Value()
		return ok
	})
}

// Read says why the originals would not read text as one value that value reads.
func Read(text []byte, above int, value func(*Scanner) bool) (reason string) {
	if !utf8.Valid(text) {
		return NotUTF8
	}
	s := NewScannerInside(text, above)
	if value(s) {
		if s.Peek(); !s.AtEnd() {
			s.PeekFail("trailing characters")
		}
	}
	return s.reason
}

// NewScannerInside returns a scanner for a text that is inside that many arrays and objects.
func NewScannerInside(text []byte, above int) *Scanner {
	return &Scanner{data: text, levels: maxLevels - above}
}
