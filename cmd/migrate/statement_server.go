package main

import (
	"slices"
	"strings"
)

// serverReads reports whether a statement is of a kind that reads on a server. What a WITH or an
// EXPLAIN ANALYZE would write the server refuses itself, in a transaction that only reads.
func serverReads(words []string) bool {
	first := slices.IndexFunc(words, func(word string) bool { return word != "(" })
	return first >= 0 && slices.Contains([]string{"SELECT", "WITH", "VALUES", "TABLE", "SHOW", "EXPLAIN"},
		words[first])
}

// nextServerToken gives the token at the start of text, which is not empty, by PostgreSQL's rules
// (postgresql.org/docs/15/sql-syntax-lexical.html). A parameter is written :name here, too; a cast is ::.
func nextServerToken(text string) token {
	switch c := text[0]; {
	case strings.HasPrefix(text, "--"):
		return token{tokenBlank, serverLine(text)}
	case strings.HasPrefix(text, "/*"):
		return token{tokenBlank, nestedComment(text)}
	case strings.HasPrefix(text, "::"), strings.HasPrefix(text, ":="):
		return token{tokenOther, 2}
	case c == ':' && len(text) > 1 && text[1] >= '0' && text[1] <= '9': // in the slice of an array
		return token{tokenOther, 1}
	case (c == 'e' || c == 'E') && strings.HasPrefix(text[1:], "'"):
		return token{tokenQuoted, 1 + escapedLength(text[1:])}
	case c == '$':
		return dollarQuoted(text)
	case c == '@', c == '[', c == '`':
		return token{tokenOther, 1}
	}
	return nextToken(text)
}

// serverLine is the length of a comment to the end of its line, for which the server takes a
// carriage return, too.
func serverLine(text string) int {
	if end := strings.IndexAny(text, "\r\n"); end >= 0 {
		return end
	}
	return len(text)
}

// nestedComment is the length of a comment, which may have others inside.
func nestedComment(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "/*"):
			depth++
			i++
		case strings.HasPrefix(text[i:], "*/"):
			depth--
			i++
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(text)
}

// escapedLength is the length of what begins with a quote and in which a backslash takes the
// meaning from what follows it.
func escapedLength(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '\'':
			return i + 1
		}
	}
	return len(text)
}

// dollarQuoted is a string between two equal tags, $$ or $tag$; else what begins with a dollar is a
// parameter.
func dollarQuoted(text string) token {
	tag := strings.IndexByte(text[1:], '$') + 1
	if tag > 0 && strings.IndexFunc(text[1:tag],
		func(r rune) bool { return r < 0x80 && !isNameByte(byte(r)) }) < 0 &&
		(tag == 1 || text[1] < '0' || text[1] > '9') {
		return token{tokenQuoted, until(text, tag+1, text[:tag+1])}
	}
	return variable(text)
}
