package sqlite

import (
	"errors"
	"fmt"
	"strings"

	"selvedge/internal/engine"
)

// The statements that a callback may not run. The transaction is ours to end, and a setting or an
// attached file would stay on the connection for the next callers.
var refusedStatements = map[string]string{
	"BEGIN": transactionControl, "COMMIT": transactionControl, "END": transactionControl,
	"ROLLBACK": transactionControl, "SAVEPOINT": transactionControl, "RELEASE": transactionControl,
	"ATTACH": "files are not attached inside it", "DETACH": "files are not attached inside it",
	"VACUUM": "it can't run inside a transaction",
}

// The pragmas that only show something (sqlite.org/pragma.html). For those of askingPragmas an
// argument selects what to show; for those of readingPragmas it would be a new value.
var (
	readingPragmas = engine.Words(`APPLICATION_ID AUTO_VACUUM BUSY_TIMEOUT CACHE_SIZE CELL_SIZE_CHECK
		CHECKPOINT_FULLFSYNC COLLATION_LIST COMPILE_OPTIONS DATA_VERSION DATABASE_LIST ENCODING FOREIGN_KEYS
		FREELIST_COUNT FULLFSYNC FUNCTION_LIST JOURNAL_MODE JOURNAL_SIZE_LIMIT MAX_PAGE_COUNT MMAP_SIZE
		MODULE_LIST PAGE_COUNT PAGE_SIZE PRAGMA_LIST QUERY_ONLY SCHEMA_VERSION SECURE_DELETE SYNCHRONOUS
		TRUSTED_SCHEMA USER_VERSION WAL_AUTOCHECKPOINT`)
	askingPragmas = engine.Words(`FOREIGN_KEY_CHECK FOREIGN_KEY_LIST INDEX_INFO INDEX_LIST INDEX_XINFO
		INTEGRITY_CHECK QUICK_CHECK TABLE_INFO TABLE_LIST TABLE_XINFO`)
)

// creating are the words between CREATE and the name, or its schema.
var creating = engine.Words("UNIQUE VIRTUAL TABLE INDEX VIEW TRIGGER IF NOT EXISTS")

// Temporary objects belong to the connection: they would outlive the transaction, and hide
// objects of the same name in the file. The next caller's rows would go into a table that no
// other connection sees.
var errTemporary = errors.New("a temporary object would stay for later callers, and hide the one " +
	"of its name in the file; use WITH, or a table that you drop")

const transactionControl = "the transaction is begun and ended for the function; use Tx.Savepoint, or " +
	"return an error to undo it"

// anyNumber is the parameter count of a text whose parameters have names.
const anyNumber = -1

// examine reads a text of one or more statements before SQLite sees it: a PRAGMA may take effect
// while it is prepared, even behind EXPLAIN. It returns the number of arguments that the text
// takes, and an error for a statement that a callback may not run.
func examine(query string) (params int, err error) {
	t := tokens{text: query}
	for {
		word, kind := t.next()
		if kind == tokenEnd {
			return params, nil
		}
		if kind == tokenSemicolon {
			continue
		}
		t.params = 0
		if err := t.statement(strings.ToUpper(word)); err != nil {
			return 0, fmt.Errorf("%w: %w", engine.ErrInvalid, err)
		}
		// Every statement of a text gets the same arguments, from the first on.
		if t.params == anyNumber || params == anyNumber {
			params = anyNumber
		} else {
			params = max(params, t.params)
		}
	}
}

// statement reads one statement to its semicolon; first is its first word.
func (t *tokens) statement(first string) error {
	word, kind := t.next()
	if first == "EXPLAIN" {
		for strings.EqualFold(word, "QUERY") || strings.EqualFold(word, "PLAN") {
			word, kind = t.next()
		}
		if kind == tokenEnd || kind == tokenSemicolon {
			return nil // a syntax error
		}
		first = strings.ToUpper(word)
		word, kind = t.next()
	}
	if why := refusedStatements[first]; why != "" {
		return fmt.Errorf("%s is not for a function given to Read or Write: %s", first, why)
	}
	if first == "PRAGMA" {
		return t.pragma(word, kind)
	}
	trigger := false
	if first == "CREATE" {
		if strings.EqualFold(word, "TEMP") || strings.EqualFold(word, "TEMPORARY") {
			return errTemporary
		}
		trigger = strings.EqualFold(word, "TRIGGER")
		for kind == tokenWord && creating[strings.ToUpper(word)] {
			word, kind = t.next()
		}
		inTemp := strings.EqualFold(unquoted(word), "TEMP")
		if word, kind = t.next(); inTemp && word == "." {
			return errTemporary
		}
	}
	for {
		if kind == tokenEnd {
			return nil
		}
		if kind == tokenSemicolon {
			if !trigger {
				return nil
			}
			// The statements of a trigger's body; END alone is its end.
			if word, kind = t.next(); kind == tokenWord {
				if strings.EqualFold(word, "END") {
					trigger = false
				} else if why := refusedStatements[strings.ToUpper(word)]; why != "" {
					return fmt.Errorf("%s is not for a function given to Read or Write: %s", word, why)
				}
			}
			continue
		}
		_, kind = t.next()
	}
}

// pragma reads [schema.]name [= value | (value)].
func (t *tokens) pragma(name string, kind tokenKind) error {
	if kind == tokenEnd || kind == tokenSemicolon {
		return nil // a syntax error
	}
	after, next := t.next()
	if after == "." {
		if name, next = t.next(); next == tokenWord || next == tokenQuote {
			_, next = t.next()
		}
	}
	pragma, asked := strings.ToUpper(unquoted(name)), next != tokenEnd && next != tokenSemicolon
	if !askingPragmas[pragma] && (asked || !readingPragmas[pragma]) {
		return fmt.Errorf("PRAGMA %s is not for a function given to Read or Write, where it only shows: a "+
			"setting would stay for the next callers", unquoted(name))
	}
	for next != tokenEnd && next != tokenSemicolon {
		_, next = t.next()
	}
	return nil
}

func unquoted(name string) string {
	if len(name) < 2 || !strings.ContainsRune("\"`[']", rune(name[0])) {
		return name
	}
	return name[1 : len(name)-1]
}

type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenSemicolon
	tokenWord  // a keyword, a name or a number
	tokenQuote // a quoted name or a string
	tokenOther
)

// tokens divides a text as SQLite's tokenizer does (sqlite.org/lang_comment.html and
// lang_keywords.html), as far as it takes to know where statements begin, and counts the
// parameters.
type tokens struct {
	text   string
	at     int
	params int
}

func (t *tokens) next() (string, tokenKind) {
	t.skipSpace()
	if t.peek() == 0 { // a text ends at a NUL
		t.at = len(t.text)
		return "", tokenEnd
	}
	start := t.at
	c := t.text[start]
	switch {
	case c == ';':
		t.at++
		return ";", tokenSemicolon
	case wordByte(c):
		t.word()
		return t.text[start:t.at], tokenWord
	case c == '[':
		t.skipPast("]")
		return t.text[start:t.at], tokenQuote
	case c == '\'' || c == '"' || c == '`':
		for more := true; more; more = t.peek() == c { // a doubled quote is part of the text
			t.at++
			t.skipPast(string(c))
		}
		return t.text[start:t.at], tokenQuote
	}
	t.at++
	switch c {
	case '?':
		t.parameter()
	case ':', '@', '#':
		if wordByte(t.peek()) {
			t.word()
			t.params = anyNumber
		}
	}
	return t.text[start:t.at], tokenOther
}

// parameter counts ? and ?NNN; a ? alone takes the number after the largest so far.
func (t *tokens) parameter() {
	start, number := t.at, 0
	for ; t.peek() >= '0' && t.peek() <= '9' && number < 1<<20; t.at++ {
		number = number*10 + int(t.peek()-'0')
	}
	switch {
	case t.params == anyNumber:
	case t.at == start:
		t.params++
	default:
		t.params = max(t.params, number)
	}
}

func (t *tokens) word() {
	if t.peek() == '$' { // a name of a parameter too
		t.params = anyNumber
	}
	for wordByte(t.peek()) {
		t.at++
	}
}

func (t *tokens) skipSpace() {
	for t.at < len(t.text) {
		rest := t.text[t.at:]
		switch {
		case strings.ContainsRune(" \t\n\v\f\r", rune(rest[0])):
			t.at++
		case strings.HasPrefix(rest, "\ufeff"):
			t.at += len("\ufeff")
		case strings.HasPrefix(rest, "--"):
			t.skipPast("\n")
		case strings.HasPrefix(rest, "/*"):
			t.at += len("/*")
			t.skipPast("*/")
		default:
			return
		}
	}
}

// skipPast skips to behind the next end, or to the end of the text.
func (t *tokens) skipPast(end string) {
	_, rest, _ := strings.Cut(t.text[t.at:], end)
	t.at = len(t.text) - len(rest)
}

// peek returns the next byte; 0 at the end.
func (t *tokens) peek() byte {
	if t.at < len(t.text) {
		return t.text[t.at]
	}
	return 0
}

func wordByte(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' &&
		c <= 'Z'
}
