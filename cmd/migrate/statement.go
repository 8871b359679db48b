package main

import (
	"slices"
	"strconv"
	"strings"
)

// A statement is what query needs to know about SQL before SQLite sees it. The driver runs every
// statement of a text and gives the rows of the last one, so the text is cut into tokens here, by
// SQLite's own rules (sqlite.org/lang_keywords.html, sqlite.org/lang_comment.html), and anything
// but one reading statement is refused before it runs.
type statement struct {
	dialect   dialect
	text      string   // as the engine gets it
	words     []string // the tokens; names and keywords in upper case, literals and quoted names as "'"
	variables []string // with their first character: ":id", "@id", "$id", "?", "?1"
}

// A dialect is how an engine reads SQL. The zero value is SQLite's.
type dialect int

const (
	ofFiles dialect = iota
	ofServers
)

// dialect is that of --db.
func (a *app) dialect() dialect {
	if a.onServer() {
		return ofServers
	}
	return ofFiles
}

// readStatement refuses a text that is empty, has several statements, or does not read.
func readStatement(text string, in dialect) (statement, error) {
	s := statement{dialect: in}
	next, takes := nextToken, "SELECT, WITH, VALUES, EXPLAIN of these, and the PRAGMAs that only show something"
	if in == ofServers {
		next, takes = nextServerToken, "SELECT, WITH, VALUES, TABLE, SHOW and EXPLAIN"
	}
	var written strings.Builder
	if strings.IndexByte(text, 0) >= 0 {
		return s, usage("the SQL contains a NUL")
	}
	ended := false
	for rest := text; rest != ""; {
		token := next(rest)
		word := rest[:token.length]
		rest = rest[token.length:]
		if token.kind == tokenVariable && !slices.Contains(s.variables, word) {
			s.variables = append(s.variables, word)
		}
		if token.kind == tokenVariable && in == ofServers {
			written.WriteString("?" + strconv.Itoa(1+slices.Index(s.variables, word)))
		} else {
			written.WriteString(word)
		}
		switch {
		case token.kind == tokenBlank:
			continue
		case word == ";":
			ended = len(s.words) > 0
			continue
		case ended:
			return s, usage("query takes one statement; another one begins at %q",
				cut(strings.TrimSpace(word+rest), 40))
		case token.kind == tokenQuoted:
			word = "'"
		}
		s.words = append(s.words, strings.ToUpper(word))
	}
	if len(s.words) == 0 {
		return s, usage("the SQL is empty")
	}
	s.text = written.String()
	if !s.reads() {
		return s, &fault{
			kind: kindUsage, hint: "it takes " + takes,
			err: usage("query only reads, and takes no %s", describe(s.words)),
		}
	}
	return s, nil
}

func describe(words []string) string {
	if words[0] == "PRAGMA" {
		return "such PRAGMA"
	}
	return cut(words[0], 20)
}

// reads reports whether the statement is of a kind that reads. A WITH may still begin an INSERT,
// UPDATE or DELETE: SQLite refuses those itself, on a connection that was opened to read.
func (s statement) reads() bool {
	words := s.words
	if s.dialect == ofServers {
		return serverReads(words)
	}
	if words[0] == "EXPLAIN" { // a PRAGMA may run while it is explained, so what follows must read
		words = words[1:]
		if len(words) > 2 && words[0] == "QUERY" && words[1] == "PLAN" {
			words = words[2:]
		}
		return len(words) > 0 && slices.Contains([]string{"SELECT", "WITH", "VALUES"}, words[0])
	}
	if words[0] == "PRAGMA" {
		return pragmaReads(words[1:])
	}
	return slices.Contains([]string{"SELECT", "WITH", "VALUES"}, words[0])
}

// The PRAGMAs that show something and change nothing: those of the second list take an argument
// that says what to show; for the others an argument would be a new value (sqlite.org/pragma.html).
var (
	showingPragmas = []string{
		"APPLICATION_ID", "AUTO_VACUUM", "CACHE_SIZE", "CELL_SIZE_CHECK", "COLLATION_LIST", "COMPILE_OPTIONS",
		"DATABASE_LIST",
		"DATA_VERSION", "ENCODING", "FOREIGN_KEYS", "FREELIST_COUNT", "FUNCTION_LIST", "JOURNAL_MODE",
		"MODULE_LIST",
		"PAGE_COUNT", "PAGE_SIZE", "PRAGMA_LIST", "QUERY_ONLY", "SCHEMA_VERSION", "SYNCHRONOUS", "USER_VERSION",
	}
	describingPragmas = []string{
		"FOREIGN_KEY_CHECK", "FOREIGN_KEY_LIST", "INDEX_INFO", "INDEX_LIST", "INDEX_XINFO", "INTEGRITY_CHECK",
		"QUICK_CHECK",
		"TABLE_INFO", "TABLE_LIST", "TABLE_XINFO",
	}
)

func pragmaReads(words []string) bool {
	if len(words) > 2 && words[1] == "." {
		words = words[2:]
	}
	if len(words) == 0 {
		return false
	}
	return slices.Contains(describingPragmas, words[0]) || slices.Contains(showingPragmas, words[0]) &&
		len(words) == 1
}

type tokenKind int

const (
	tokenOther    tokenKind = iota // a name, a keyword, a number, an operator
	tokenBlank                     // white space or a comment
	tokenQuoted                    // a string, a BLOB literal, a quoted name
	tokenVariable                  // a parameter
)

type token struct {
	kind   tokenKind
	length int
}

// nextToken gives the token at the start of text, which is not empty.
func nextToken(text string) token {
	switch c := text[0]; {
	case strings.IndexByte(" \t\n\f\r", c) >= 0:
		return token{tokenBlank, 1}
	case strings.HasPrefix(text, "\ufeff"): // a byte order mark, as editors put before a script
		return token{tokenBlank, len("\ufeff")}
	case strings.HasPrefix(text, "--"):
		return token{tokenBlank, until(text, 2, "\n")}
	case strings.HasPrefix(text, "/*"):
		return token{tokenBlank, until(text, 2, "*/")}
	case c == '\'' || c == '"' || c == '`':
		return token{tokenQuoted, quotedLength(text)}
	case c == '[':
		return token{tokenQuoted, until(text, 1, "]")}
	case c == '?' || c == ':' || c == '@' || c == '$':
		return variable(text)
	case isNameByte(c):
		n := 1
		for n < len(text) && isNameByte(text[n]) {
			n++
		}
		if n == 1 && (c == 'x' || c == 'X') && len(text) > 1 && text[1] == '\'' {
			return token{tokenQuoted, 1 + quotedLength(text[1:])}
		}
		return token{tokenOther, n}
	}
	return token{tokenOther, 1}
}

// until is the length of text up to the end of mark, all of it where there is none.
func until(text string, from int, mark string) int {
	i := strings.Index(text[from:], mark)
	if i < 0 {
		return len(text)
	}
	return from + i + len(mark)
}

// quotedLength is the length of what begins with a quote. The quote twice is the quote itself.
func quotedLength(text string) int {
	for i := 1; i < len(text); i++ {
		if text[i] != text[0] {
			continue
		}
		if i+1 < len(text) && text[i+1] == text[0] {
			i++
			continue
		}
		return i + 1
	}
	return len(text)
}

func variable(text string) token {
	n := 1
	for n < len(text) && isNameByte(text[n]) {
		n++
	}
	if n == 1 && text[0] != '?' {
		return token{tokenOther, 1}
	}
	return token{tokenVariable, n}
}

// isNameByte holds for what a name or a number is made of (SQLite's IdChar: every byte from 0x80 on, too).
func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' ||
		c >= 0x80
}
