package db

import "unicode/utf8"

// AfterPrefix gives the first text behind all those that begin with prefix, compared byte by byte, so that finding them is a
// range: from prefix on, before end. bounded is false where every text from prefix on begins with it, as for "".
func AfterPrefix(prefix string) (end string, bounded bool) {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case last == utf8.MaxRune:
			continue
		case last+1 == 0xD800: // no text has a surrogate
			last = 0xE000 - 1
		}
		return prefix + string(last+1), true
	}
	return "", false
}
