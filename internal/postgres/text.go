package postgres

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
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

// escapes replaces what encodeText has written, and leaves any other use of the greatest rune.
var escapes = sync.OnceValue(func() *strings.Replacer {
	const digits = "0123456789abcdefABCDEF"
	pairs := []string{escape + escape, escape, escapedNUL, "\x00"}
	for _, high := range digits {
		for _, low := range digits {
			number := string(high) + string(low)
			b, _ := strconv.ParseUint(number, 16, 8)
			pairs = append(pairs, escapedHex+number, string([]byte{byte(b)}))
		}
	}
	return strings.NewReplacer(pairs...)
})

func decodeText(s string) string {
	if !strings.Contains(s, escape) {
		return s
	}
	return escapes().Replace(s)
}
