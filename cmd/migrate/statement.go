package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"selvedge/internal/engine"
)

// A statement is what query needs to know about SQL before SQLite sees it. The driver runs every
// statement of a text and returns the rows of the last one. So the text is cut into tokens here, by
// SQLite's own rules (sqlite.org/lang_keywords.html, sqlite.org/lang_comment.html), and anything
// but one statement that reads is refused before it runs.
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

// dialect returns the dialect of --db.
func (a *app) dialect() dialect {
	if a.onServer() {
		return ofServers
	}
	return ofFiles
}

// readStatement rejects a text that is empty, has several statements, or does not read.
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
		kind, length := next(rest)
		word := rest[:length]
		rest = rest[length:]
		if kind == tokenVariable && !slices.Contains(s.variables, word) {
			s.variables = append(s.variables, word)
		}
		if kind == tokenVariable && in == ofServers {
			written.WriteString("?" + strconv.Itoa(1+slices.Index(s.variables, word)))
		} else {
			written.WriteString(word)
		}
		switch {
		case kind == tokenBlank:
			continue
		case word == ";":
			ended = len(s.words) > 0
			continue
		case ended:
			return s, usage("query takes one statement; another one begins at %q",
				cut(strings.TrimSpace(word+rest), 40))
		case kind == tokenQuoted:
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
// UPDATE or DELETE: SQLite refuses those itself, on a read-only connection. A server refuses what a
// WITH or an EXPLAIN ANALYZE would write, in a read-only transaction.
func (s statement) reads() bool {
	words := s.words
	switch {
	case s.dialect == ofServers:
		first := slices.IndexFunc(words, func(word string) bool { return word != "(" })
		return first >= 0 && serverStatements[words[first]]
	case words[0] == "PRAGMA":
		return pragmaReads(words[1:])
	case words[0] == "EXPLAIN": // an explained PRAGMA may run, so what follows must read
		words = words[1:]
		if len(words) > 2 && words[0] == "QUERY" && words[1] == "PLAN" {
			words = words[2:]
		}
	}
	return len(words) > 0 && fileStatements[words[0]]
}

// The statements that read, and the PRAGMAs that show something and change nothing. Those of the second
// list take an argument that selects what to show; for the others an argument would be a new value
// (sqlite.org/pragma.html).
var (
	showingPragmas = engine.Words(`APPLICATION_ID AUTO_VACUUM CACHE_SIZE CELL_SIZE_CHECK COLLATION_LIST
		COMPILE_OPTIONS DATABASE_LIST DATA_VERSION ENCODING FOREIGN_KEYS FREELIST_COUNT FUNCTION_LIST
		JOURNAL_MODE MODULE_LIST PAGE_COUNT PAGE_SIZE PRAGMA_LIST QUERY_ONLY SCHEMA_VERSION SYNCHRONOUS
		USER_VERSION`)
	describingPragmas = engine.Words(`FOREIGN_KEY_CHECK FOREIGN_KEY_LIST INDEX_INFO INDEX_LIST INDEX_XINFO
		INTEGRITY_CHECK QUICK_CHECK TABLE_INFO TABLE_LIST TABLE_XINFO`)
	fileStatements   = engine.Words("SELECT WITH VALUES")
	serverStatements = engine.Words("SELECT WITH VALUES TABLE SHOW EXPLAIN")
)

func pragmaReads(words []string) bool {
	if len(words) > 2 && words[1] == "." {
		words = words[2:]
	}
	return len(words) > 0 && (describingPragmas[words[0]] || showingPragmas[words[0]] && len(words) == 1)
}

// A tokenKind is what a token is, and the number of its group in the expressions below.
type tokenKind int

const (
	tokenOther    tokenKind = iota // a name, a keyword, a number, an operator
	tokenBlank                     // white space or a comment
	tokenQuoted                    // a string, a BLOB literal, a quoted name
	tokenVariable                  // a parameter
)

// Each expression matches the token at the start of a text, by the rules of SQLite and of
// PostgreSQL (postgresql.org/docs/15/sql-syntax-lexical.html). An unclosed token extends to the end
// of the text. A byte order mark, which editors put before a script, is blank. On a server a
// parameter may also be written :name, :: is a cast, and :1 occurs in the slice of an array. They are
// compiled at the first use, since most commands have none.
var (
	fileTokens = tokens(`[ \t\n\f\r]|\x{feff}|--[^\n]*\n?|/\*.*?(?:\*/|\z)`,
		"`(?:[^`]|``)*`?|"+`\[[^\]]*\]?`, `[:@$]NAME+`, `NAME+|.`)
	serverTokens = tokens(`[ \t\n\f\r]|\x{feff}|--[^\r\n]*`,
		`[eE]'(?:\\.|[^'\\])*(?:'|\\)?`, `:LETTERNAME*|:\$NAME*|\$NAME+`, `::|:=|NAME+|.`)
	dollarTag = compiled(`^\$(?:LETTER(?:LETTER|[0-9])*)?\$`)
)

// inNames replaces NAME by the bytes of names and numbers (SQLite's IdChar), and LETTER by those
// with which a name begins.
var inNames = strings.NewReplacer("NAME", `[\w$\x{80}-\x{10FFFF}]`, "LETTER", `[A-Za-z_\x{80}-\x{10FFFF}]`)

// tokens makes the expression of an engine from what differs between the engines.
func tokens(blank, quoted, variable, other string) func() *regexp.Regexp {
	return compiled(`(?s)^(?:(` + blank + `)|([xX]?'(?:[^']|'')*'?|"(?:[^"]|"")*"?|` +
		quoted + `)|(\?NAME*|` + variable + `)|` + other + `)`)
}

func compiled(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(inNames.Replace(expression)) })
}

// nextToken returns the kind and length of the token at the start of text, which is not empty.
func nextToken(text string) (tokenKind, int) { return match(fileTokens, text) }

func match(tokens func() *regexp.Regexp, text string) (kind tokenKind, length int) {
	at := tokens().FindStringSubmatchIndex(text)
	for k := tokenBlank; k <= tokenVariable; k++ {
		if at[2*k] >= 0 {
			kind = k
		}
	}
	return kind, at[1]
}

// nextServerToken is nextToken for a server, where comments nest, and a string may stand between
// two equal tags, $$ or $tag$.
func nextServerToken(text string) (tokenKind, int) {
	if strings.HasPrefix(text, "/*") {
		return tokenBlank, nestedComment(text)
	}
	if tag := dollarTag().FindString(text); tag != "" {
		if end := strings.Index(text[len(tag):], tag); end >= 0 {
			return tokenQuoted, end + 2*len(tag)
		}
		return tokenQuoted, len(text)
	}
	return match(serverTokens, text)
}

// nestedComment returns the length of a comment, which may hold others.
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
