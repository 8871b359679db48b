package postgres

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The server's text holds neither NUL nor invalid UTF-8. Callers' text may: each such byte is
// written after the greatest rune, and that rune is doubled if it occurs in the text.
// Concatenation and prefixes are preserved, and so is the order of text that needs no escape.
// Views show such bytes as U+FFFD (the function shown).
const (
	escape     = "\U0010FFFF"
	escapedNUL = escape + "0"
	escapedHex = escape + "x" // and two hexadecimal digits
)

// plain reports whether a text is stored as it is.
func plain(s string) bool {
	return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) && !strings.Contains(s, escape)
}

func encodeText(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size <= 1:
			fmt.Fprintf(&b, escapedHex+"%02x", s[0])
		case r == 0:
			b.WriteString(escapedNUL)
		case r == utf8.MaxRune:
			b.WriteString(escape + escape)
		default:
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
	return b.String()
}

func decodeText(s string) string {
	at := strings.Index(s, escape)
	if at < 0 {
		return s
	}
	var b strings.Builder
	for at >= 0 {
		b.WriteString(s[:at])
		rest := s[at+len(escape):]
		var c [1]byte
		switch {
		case strings.HasPrefix(rest, escape):
			b.WriteString(escape)
			rest = rest[len(escape):]
		case strings.HasPrefix(rest, "0"):
			b.WriteByte(0)
			rest = rest[1:]
		case len(rest) >= 3 && rest[0] == 'x' && hexByte(rest[1:3], c[:]):
			b.Write(c[:])
			rest = rest[3:]
		default: // not of our writing
			b.WriteString(escape)
		}
		s = rest
		at = strings.Index(s, escape)
	}
	b.WriteString(s)
	return b.String()
}

func hexByte(digits string, c []byte) bool {
	_, err := hex.Decode(c, []byte(digits))
	return err == nil
}
