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
// reports whether the statement may change something, and whether that is only a sequence: numbers of
// nextval that its rows carry.
func rebind(query string) (text string, changes, draws bool, err error) {
	var out strings.Builder
	out.Grow(len(query) + 16)
	params := 0
	first, last := "", "" // last is the word or the quoted name that the next token follows
	for rest := query; rest != ""; {
		token, word := nextToken(rest)
		rest = rest[len(token):]
		switch {
		case word:
			first, last = cmp.Or(first, strings.ToUpper(token)), token
			changes = changes || strings.EqualFold(token, "INTO")
		case token == "(":
			called := strings.ToLower(last)
			draws = draws || called == "nextval"
			changes = changes || called != "" && called != "nextval" && !reading[called]
			last = ""
		case token[0] == '"':
			last = token
		case strings.TrimSpace(token) != "" && !strings.HasPrefix(token, "--") && !strings.HasPrefix(token, "/*"):
			last = ""
		}
		if number, is := strings.CutPrefix(token, "?"); is {
			number = cmp.Or(number, strconv.Itoa(params+1))
			if n, err := strconv.Atoi(number); err == nil {
				params = max(params, n)
			}
			token = "$" + number
		}
		out.WriteString(token)
	}
	if why := refusedStatements[first]; why != "" {
		return "", false, false, fmt.Errorf("%w: %s is not for a function given to Read or Write: %s",
			engine.ErrInvalid, first, why)
	}
	changes = changes || first != "SELECT" && first != "VALUES"
	return out.String(), changes, draws && !changes, nil
}

// reading are the words that may stand before a parenthesis in a query that changes nothing. Any
// other function may change something, as a user's own may. A query that is wrongly taken for a change
// costs a commit.
var reading = engine.Words(`all and any array as avg between bool_and bool_or by case cast coalesce count
	date_trunc distinct else except exists extract filter from generate_series greatest having in instr
	intersect is join json_extract jsonb_array_elements lateral least left length like limit lower max md5
	min not nullif octet_length offset on or over partition pg_advisory_xact_lock
	pg_advisory_xact_lock_shared position replace right round row row_number
	select server_nanos set substr substring sum then trim union unnest upper using values when where within`)

// nextToken returns the first token of a text, and whether it is a word.
func nextToken(text string) (token string, word bool) {
	end := 1
	switch c := rune(text[0]); {
	case strings.HasPrefix(text, "--"): // for the server a carriage return ends a line too
		if end = strings.IndexAny(text, "\r\n") + 1; end == 0 {
			end = len(text)
		}
	case strings.HasPrefix(text, "/*"):
		end = endOfComment(text)
	case c == '\'' || c == '"': // a doubled quote ends one string here and begins the next, which is the same
		end = past(text, text[:1])
	case (c == 'e' || c == 'E') && strings.HasPrefix(text[1:], "'"):
		end = endOfEscaped(text)
	case c == '$': // a parameter's name, or a string between two equal tags
		end += span(text[1:], inWord)
		if named := end > 1 && digit(rune(text[1])); !named && strings.HasPrefix(text[end:], "$") {
			end = past(text, text[:end+1])
		}
	case c == '?':
		end += span(text[1:], digit)
	case inWord(c):
		end = span(text, func(c rune) bool { return inWord(c) || c == '$' })
		word = true
	}
	return text[:end], word
}

// past returns the end of a text that begins with the mark that ends it.
func past(text, mark string) int {
	if n := strings.Index(text[len(mark):], mark); n >= 0 {
		return n + 2*len(mark)
	}
	return len(text)
}

// endOfEscaped returns the end of E'…', where a backslash escapes the next character.
func endOfEscaped(text string) int {
	for at := len("E'"); at < len(text); at++ {
		switch text[at] {
		case '\\':
			at++
		case '\'':
			return at + 1
		}
	}
	return len(text)
}

// endOfComment returns the end of a comment, which may have others inside.
func endOfComment(text string) int {
	depth := 0
	for at := 0; at < len(text); {
		switch rest := text[at:]; {
		case strings.HasPrefix(rest, "/*"):
			depth++
			at += 2
		case strings.HasPrefix(rest, "*/"):
			depth--
			at += 2
		default:
			at++
		}
		if depth == 0 {
			return at
		}
	}
	return len(text)
}

// span returns the length of the beginning of a text that has only such characters.
func span(text string, of func(rune) bool) int {
	return len(text) - len(strings.TrimLeftFunc(text, of))
}

func digit(c rune) bool { return c >= '0' && c <= '9' }

func inWord(c rune) bool {
	return c == '_' || c >= 0x80 || digit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
