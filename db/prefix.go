package db

import (
	"strings"
	"unicode/utf8"
)

// AfterPrefix gives a text behind all ids that begin with prefix, and before all others behind it, compared byte by byte, so that
// finding them is a range: from prefix on, before that.
func AfterPrefix(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case last == utf8.MaxRune:
			continue
		case last+1 == 0xD800: // no text has a surrogate
			last = 0xE000 - 1
		}
		return prefix + string(last+1)
	}
	return behindAll
}

// behindAll is longer than an id can be, of the greatest rune.
var behindAll = strings.Repeat(string(utf8.MaxRune), MaxID/utf8.UTFMax+1)
