package schemadoc

import (
	"strings"
	"unicode"
)

// A token is a piece of a CREATE statement. Depth counts the parentheses around it; an opening and
// its closing one have the depth outside them.
type token struct {
	text       string
	comment    bool
	depth      int
	start, end int // its place
}

// is reports whether the token is the keyword, or the sign, that word spells.
func (t token) is(word string) bool { return !t.comment && strings.EqualFold(t.text, word) }

// tokens cuts SQL into words, quoted names and strings, comments and single signs.
func tokens(sql string) []token {
	var list []token
	depth := 0
	for i := 0; i < len(sql); {
		if strings.IndexByte(" \t\r\n", sql[i]) >= 0 {
			i++
			continue
		}
		n := tokenLength(sql[i:])
		t := token{text: sql[i : i+n], depth: depth, start: i, end: i + n}
		switch {
		case strings.HasPrefix(t.text, "--"), strings.HasPrefix(t.text, "/*"):
			t.comment = true
			t.text = strings.TrimSpace(strings.TrimSuffix(t.text[2:], "*/"))
		case t.text == "(":
			depth++
		case t.text == ")":
			depth--
			t.depth = depth
		}
		list = append(list, t)
		i += n
	}
	return list
}

func tokenLength(sql string) int {
	until := func(end string, from int) int {
		if i := strings.Index(sql[from:], end); i >= 0 {
			return from + i + len(end)
		}
		return len(sql)
	}
	switch {
	case strings.HasPrefix(sql, "--"):
		if i := strings.IndexByte(sql, '\n'); i >= 0 {
			return i
		}
		return len(sql)
	case strings.HasPrefix(sql, "/*"):
		return until("*/", 2)
	case sql[0] == '[':
		return until("]", 1)
	case strings.IndexByte(`'"`+"`", sql[0]) >= 0:
		return quotedLength(sql)
	}
	for i, r := range sql {
		if r != '_' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return max(i, 1)
		}
	}
	return len(sql)
}

// quotedLength is the length of the quoted text at the head of sql; a doubled quote stands for itself.
func quotedLength(sql string) int {
	for i := 1; i < len(sql); i++ {
		if sql[i] != sql[0] {
			continue
		}
		if i+1 < len(sql) && sql[i+1] == sql[0] {
			i++
			continue
		}
		return i + 1
	}
	return len(sql)
}

// An item is one element of a list: a column, a constraint, or an expression that a view selects.
type item struct {
	tokens  []token // without comments
	comment string
}

// split cuts a list at the commas of its own depth. A comment belongs to the item that began last,
// also where a comma stands between the two, as it does at the end of a line; those before the
// first item are the intro.
func split(list []token) (intro string, items []item) {
	if len(list) == 0 {
		return "", nil
	}
	depth := list[0].depth
	begun := false // the item at hand has a token
	for _, t := range list {
		switch {
		case t.comment && len(items) == 0:
			intro = join(intro, t.text)
		case t.comment:
			last := &items[len(items)-1]
			last.comment = join(last.comment, t.text)
		case t.is(",") && t.depth == depth:
			begun = false
		default:
			if !begun {
				items = append(items, item{})
				begun = true
			}
			last := &items[len(items)-1]
			last.tokens = append(last.tokens, t)
		}
	}
	return intro, items
}

func join(a, b string) string { return strings.TrimSpace(a + " " + b) }

// text writes tokens with the spaces that people would put.
func text(list []token) string {
	var b strings.Builder
	for i, t := range list {
		sign := i > 1 && list[i-1].is("-") && (list[i-2].is("(") || list[i-2].is(",")) // of a number
		if i > 0 && !sign && spaced(list[i-1].text, t.text) {
			b.WriteByte(' ')
		}
		b.WriteString(t.text)
	}
	return b.String()
}

func spaced(before, next string) bool {
	switch {
	case before == "(", next == ")", next == ",", next == ";":
		return false
	case next == "(":
		// A call or a column list of a table, but not an operator's or a keyword's operand.
		return before != "(" && (!isWord(before) || strings.ToUpper(before) == before)
	case isOperator(before) && isOperator(next): // <>, >=, ||
		return false
	}
	return true
}

func isOperator(s string) bool { return len(s) == 1 && strings.ContainsAny(s, "<>=|!") }

func isWord(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return r != '_' && r != '.' && !unicode.IsLetter(r) &&
			!unicode.IsDigit(r)
	}) < 0
}

// inParentheses returns the text between the first parenthesis of list and its partner, and the
// rest.
func inParentheses(list []token) (inside, rest []token) {
	from := -1
	for i, t := range list {
		switch {
		case from < 0 && t.is("("):
			from = i + 1
		case from >= 0 && t.is(")") && t.depth == list[from-1].depth:
			return list[from:i], list[i+1:]
		}
	}
	return nil, list
}

// unquoted is the name that a token spells.
func unquoted(name string) string {
	if len(name) < 2 {
		return name
	}
	switch q := name[0]; q {
	case '"', '`', '\'':
		return strings.ReplaceAll(name[1:len(name)-1], string([]byte{q, q}), string(q))
	case '[':
		return name[1 : len(name)-1]
	}
	return name
}

// isConstraint reports whether an item of CREATE TABLE is a constraint of the table, not a column.
func (i item) isConstraint() bool {
	switch strings.ToUpper(i.tokens[0].text) {
	case "CHECK", "UNIQUE", "PRIMARY", "FOREIGN", "CONSTRAINT":
		return true
	}
	return false
}

// readTable returns the parts of a CREATE TABLE that no pragma reports: its CHECKs, and STRICT or
// WITHOUT ROWID.
func readTable(sql string) (rules []Rule, suffix string) {
	body, rest := inParentheses(tokens(sql))
	_, items := split(body)
	for _, one := range items {
		comment := ""
		if one.isConstraint() {
			comment = one.comment
		}
		for i, t := range one.tokens {
			if t.is("CHECK") {
				check, _ := inParentheses(one.tokens[i:])
				rules = append(rules, Rule{Check: text(check), Comment: comment})
			}
		}
	}
	return rules, text(rest)
}

// readView returns the comments of a view's columns, in their order.
func readView(sql string) (intro string, comments []string) {
	list := tokens(sql)
	begin := -1
	for i, t := range list {
		if t.is("AS") && t.depth == 0 {
			break
		}
		if t.is("(") && t.depth == 0 {
			named, _ := inParentheses(list[i:])
			return commentsOf(named)
		}
	}
	for i, t := range list {
		switch {
		case t.depth != 0 || t.comment:
		case begin < 0 && t.is("SELECT"):
			begin = i + 1
		case begin >= 0 && t.is("FROM"):
			return commentsOf(list[begin:i])
		}
	}
	return "", nil
}

func commentsOf(list []token) (intro string, comments []string) {
	intro, items := split(list)
	for _, one := range items {
		comments = append(comments, one.comment)
	}
	return intro, comments
}
