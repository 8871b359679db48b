package schemadoc

import (
	"regexp"
	"slices"
	"strings"
)

// A tableNotes is the migrations' comments beside a table's columns. SQLite's text of a table
// does not have them all: ALTER TABLE writes a new column before the comment of the former last
// one, and omits the new one's own.
type tableNotes struct {
	intro   string
	columns map[string]string
}

// follow goes through a migration's statements and keeps the notes of the tables as these are made,
// altered and dropped.
func (p *purposes) follow(script string) {
	list := tokens(script)
	for i := range list {
		if list[i].comment || list[i].depth > 0 {
			continue
		}
		s := statement(list[i:])
		switch {
		case s.begins("CREATE", "TABLE"):
			name := s.words[2]
			if s.begins("CREATE", "TABLE", "IF", "NOT", "EXISTS") {
				name = s.words[5]
			}
			body, _ := inParentheses(s.tokens)
			p.notes[name] = notesOf(body)
		case s.begins("DROP", "TABLE"):
			delete(p.notes, s.words[len(s.words)-1])
		case s.begins("ALTER", "TABLE"):
			p.alter(s, script)
		}
	}
}

// again is a later migration's comment on the new meaning of an old column: "-- table.column:
// text".
var again = regexp.MustCompile(`(?m)^-- (\w+)\.(\w+): (.+)$`)

func (p *purposes) explainAgain(script string) {
	for _, words := range again.FindAllStringSubmatch(script, -1) {
		if columns := p.notes[words[1]].columns; columns[words[2]] != "" {
			columns[words[2]] = words[3]
		}
	}
}

func (p *purposes) alter(s sqlStatement, script string) {
	table := s.words[2]
	change := s.words[3:]
	name := func(i int) string { // a column's, with or without the word COLUMN before it
		if strings.EqualFold(change[i], "COLUMN") {
			i++
		}
		return change[i]
	}
	notes := p.notes[table]
	switch strings.ToUpper(change[0]) {
	case "ADD":
		if notes.columns != nil {
			notes.columns[name(1)] = s.notes(script)
		}
	case "DROP":
		delete(notes.columns, name(1))
	case "RENAME":
		to := change[len(change)-1]
		if strings.EqualFold(change[1], "TO") {
			p.renameTable(table, to)
			return
		}
		if from := name(1); notes.columns != nil {
			notes.columns[to] = notes.columns[from]
			delete(notes.columns, from)
		}
	}
}

// renameTable ends the usual way to rebuild a table: the new one takes the old one's name, and its
// place in the page.
func (p *purposes) renameTable(from, to string) {
	p.notes[to] = p.notes[from]
	delete(p.notes, from)
	if above := p.of[from]; above != "" {
		p.of[to] = above
	}
	known := slices.ContainsFunc(p.chapters, func(c chapter) bool { return slices.Contains(c.tables, to) })
	for _, c := range p.chapters {
		if i := slices.Index(c.tables, from); i >= 0 && !known {
			c.tables[i] = to
		}
	}
}

// A sqlStatement is one statement of a script, as far as its semicolon, and the tokens that follow it.
type sqlStatement struct {
	tokens []token
	words  []string // without comments; names without their quotes
	rest   []token
}

func statement(list []token) sqlStatement {
	end := len(list)
	for i, t := range list {
		if t.is(";") && t.depth == list[0].depth {
			end = i
			break
		}
	}
	s := sqlStatement{tokens: list[:end], rest: list[end:]}
	for _, t := range s.tokens {
		if !t.comment {
			s.words = append(s.words, unquoted(t.text))
		}
	}
	return s
}

// begins reports whether the statement begins with these keywords and goes on after them.
func (s sqlStatement) begins(keywords ...string) bool {
	return len(s.words) > len(keywords) && slices.EqualFunc(keywords, s.words[:len(keywords)], strings.EqualFold)
}

// notes returns the comments of a statement that has only one thing to explain: those inside it,
// after its semicolon and indented in the lines that follow. If there are none, the one above it.
func (s sqlStatement) notes(script string) string {
	var own string
	for _, t := range s.tokens {
		if t.comment {
			own = join(own, t.text)
		}
	}
	for i := 1; i < len(s.rest) && s.rest[i].comment; i++ {
		between := script[s.rest[i-1].end:s.rest[i].start]
		if strings.Count(between, "\n") > 1 || strings.HasSuffix(between, "\n") {
			break // it is above what comes next
		}
		own = join(own, s.rest[i].text)
	}
	if own != "" {
		return own
	}
	lines := strings.Split(script[:s.tokens[0].start], "\n")
	var above string
	for i := len(lines) - 2; i >= 0 && strings.HasPrefix(lines[i], "--"); i-- {
		if comment := lines[i][2:]; !strings.HasPrefix(comment, " +goose") {
			above = join(strings.TrimSpace(comment), above)
		}
	}
	return above
}

// notesOf reads the text between the parentheses of CREATE TABLE.
func notesOf(body []token) tableNotes {
	intro, items := split(body)
	n := tableNotes{intro: intro, columns: map[string]string{}}
	for _, one := range items {
		if !one.isConstraint() {
			n.columns[unquoted(one.tokens[0].text)] = one.comment
		}
	}
	return n
}
