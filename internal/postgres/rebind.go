package postgres

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"selvedge/internal/engine"
)

// The statements that a callback may not run. The transaction is ours to end, and a setting would
// stay on the connection for the next callers.
var refusedStatements = map[string]string{
	"BEGIN": transactionControl, "START": transactionControl, "COMMIT": transactionControl,
	"END": transactionControl, "ROLLBACK": transactionControl, "ABORT": transactionControl,
	"SAVEPOINT": transactionControl, "RELEASE": transactionControl,
	"PREPARE": prepares, "EXECUTE": prepares, "DEALLOCATE": prepares,
	"DISCARD": settings, "SET": settings, "RESET": settings, "LISTEN": settings, "UNLISTEN": settings,
	"COPY": "it needs a stream of its own", "VACUUM": "it can't run inside a transaction",
}

const (
	transactionControl = "the transaction is begun and ended for the function; use Tx.Savepoint, or return " +
		"an error to undo it"
	prepares = "statements are prepared for the function"
	settings = "a setting would stay for the next callers"
)

// rebind rewrites a text for the server: each ? becomes $1, $2 and so on, and ?7 becomes $7,
// outside of strings, quoted names, comments and $tags$
// (postgresql.org/docs/15/sql-syntax-lexical.html). It refuses what a callback may not run, and
// reports whether the statement may change something.
func rebind(query string) (text string, changes bool, err error) {
	t := tokens{text: query}
	t.out.Grow(len(query) + 16)
	first, last := "", "" // last is the word or the quoted name that the next token follows
	for t.at < len(t.text) {
		start := t.at
		word := t.next()
		switch token := t.text[start:t.at]; {
		case word != "":
			first, last = cmp.Or(first, strings.ToUpper(word)), word
			changes = changes || strings.EqualFold(word, "INTO")
		case token == "(":
			changes = changes || last != "" && !reading[strings.ToLower(last)]
			last = ""
		case token[0] == '"':
			last = token
		case strings.TrimSpace(token) != "" && !strings.HasPrefix(token, "--") && !strings.HasPrefix(token, "/*"):
			last = ""
		}
	}
	if why := refusedStatements[first]; why != "" {
		return "", false, fmt.Errorf("%w: %s is not for a function given to Read or Write: %s", engine.ErrInvalid,
			first, why)
	}
	return t.out.String(), changes || first != "SELECT" && first != "VALUES", nil
}

// reading are the words that may stand before a parenthesis in a query that changes nothing. Any
// other function may change something: nextval does, and a user's own may. A query that is
// wrongly taken for a change costs a commit.
var reading = engine.Words(`all and any array as avg between bool_and bool_or by case cast coalesce count
	date_trunc distinct else except exists extract filter from generate_series greatest having in instr
	intersect is join json_extract jsonb_array_elements lateral least left length like limit lower max md5
	min not nullif octet_length offset on or over partition position replace right round row row_number
	select server_nanos set substr substring sum then trim union unnest upper using values when where within`)

type tokens struct {
	text   string
	at     int
	params int
	out    strings.Builder
}

// next copies one token, and returns it if it is a word.
func (t *tokens) next() (word string) {
	start := t.at
	c := t.text[start]
	rest := t.text[start:]
	switch {
	case strings.HasPrefix(rest, "--"):
		t.line()
	case strings.HasPrefix(rest, "/*"):
		t.comment()
	case c == '\'' || c == '"':
		t.quoted(c)
	case (c == 'e' || c == 'E') && strings.HasPrefix(rest[1:], "'"):
		t.at++
		t.escaped()
	case c == '$':
		t.dollar()
	case c == '?':
		t.parameter()
		return ""
	case wordByte(c):
		for t.at < len(t.text) && (wordByte(t.text[t.at]) || t.text[t.at] == '$') {
			t.at++
		}
		word = t.text[start:t.at]
	default:
		t.at++
	}
	t.out.WriteString(t.text[start:t.at])
	return word
}

func (t *tokens) parameter() {
	t.at++
	start := t.at
	for t.at < len(t.text) && t.text[t.at] >= '0' && t.text[t.at] <= '9' {
		t.at++
	}
	number := t.text[start:t.at]
	if number == "" {
		t.params++
		number = strconv.Itoa(t.params)
	} else if n, err := strconv.Atoi(number); err == nil {
		t.params = max(t.params, n)
	}
	t.out.WriteString("$" + number)
}

// dollar is a parameter's name, or a string between two equal tags.
func (t *tokens) dollar() {
	end := t.at + 1
	for end < len(t.text) && wordByte(t.text[end]) {
		end++
	}
	digit := end > t.at+1 && t.text[t.at+1] >= '0' && t.text[t.at+1] <= '9'
	if digit || end == len(t.text) || t.text[end] != '$' {
		t.at = end
		return
	}
	tag := t.text[t.at : end+1]
	t.skipPast(len(tag), tag)
}

// quoted reads to the closing quote. A doubled one ends one string here and begins the next, which
// is the same.
func (t *tokens) quoted(quote byte) { t.skipPast(1, string(quote)) }

// escaped reads E'…', where a backslash escapes the next character.
func (t *tokens) escaped() {
	for t.at++; t.at < len(t.text); t.at++ {
		switch t.text[t.at] {
		case '\\':
			t.at++
		case '\'':
			t.at++
			return
		}
	}
	t.at = len(t.text)
}

// line reads to the end of the line. For the server a carriage return ends one too.
func (t *tokens) line() {
	if n := strings.IndexAny(t.text[t.at:], "\r\n"); n >= 0 {
		t.at += n + 1
	} else {
		t.at = len(t.text)
	}
}

// comment reads a comment, which may have others inside.
func (t *tokens) comment() {
	depth := 0
	for t.at < len(t.text) {
		switch rest := t.text[t.at:]; {
		case strings.HasPrefix(rest, "/*"):
			depth++
			t.at += 2
		case strings.HasPrefix(rest, "*/"):
			depth--
			t.at += 2
		default:
			t.at++
		}
		if depth == 0 {
			return
		}
	}
}

func (t *tokens) skipPast(from int, end string) {
	if n := strings.Index(t.text[t.at+from:], end); n >= 0 {
		t.at += from + n + len(end)
	} else {
		t.at = len(t.text)
	}
}

func wordByte(c byte) bool {
	return c == '_' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
