package main

import (
	"regexp"
	"slices"
	"strings"
)

// A change is one of a statement's text.
type change struct {
	from, to int
	text     string
}

func (c change) apply(text string) string { return text[:c.from] + c.text + text[c.to:] }

// around is the line of the change, with this in its place.
func (c change) around(text, changed string) string {
	from := strings.LastIndexByte(text[:c.from], '\n') + 1
	to := len(text)
	if end := strings.IndexByte(text[c.to:], '\n'); end >= 0 {
		to = c.to + end
	}
	return text[from:c.from] + changed + text[c.to:to]
}

var (
	sqlWord  = regexp.MustCompile(`\b(SELECT|WHERE|AND|LIMIT|SET|ORDER BY)\b`)
	sqlToken = regexp.MustCompile(`'[^']*'|[A-Za-z_]\w*|<<|>>|<>|->>?|<=|>=|\|\||\d+|\S`)
)

func isSQL(text string) bool { return sqlWord.MatchString(text) }

// A token is a word or sign of a statement, and how many parentheses it is in.
type sqlPart struct {
	text     string
	from, to int
	depth    int
}

func sqlParts(text string) (parts []sqlPart) {
	depth := 0
	for _, at := range sqlToken.FindAllStringIndex(text, -1) {
		p := sqlPart{text[at[0]:at[1]], at[0], at[1], depth}
		switch p.text {
		case "(":
			depth++
		case ")":
			depth--
			p.depth = depth
		}
		parts = append(parts, p)
	}
	return parts
}

// clauseEnds are the words behind a condition.
var clauseEnds = []string{
	"AND", "OR", "ORDER", "GROUP", "LIMIT", "RETURNING", "UNION", "ON", "WHERE",
	"THEN", "LEFT", "JOIN", "AS", "EXCEPT", "DO",
}

// sqlChanges returns the mutants of a statement: each condition taken for true, with its
// parameters unchanged, each comparison and limit moved by one, each order reversed, each step of
// a counter left out. goesOn: more text is appended, so a condition at the end may be incomplete.
func sqlChanges(text string, goesOn bool) (changes []change) {
	parts := sqlParts(text)
	for i, p := range parts {
		var next sqlPart
		if i+1 < len(parts) {
			next = parts[i+1]
		}
		switch p.text {
		case "WHERE", "AND":
			if p.text == "AND" && between(parts[:i], p.depth) || i+1 == len(parts) {
				continue
			}
			end := i + 1
			for end < len(parts) && parts[end].depth >= p.depth &&
				!(parts[end].depth == p.depth && (slices.Contains(clauseEnds, parts[end].text) &&
					!isDistinct(parts, end) || parts[end].text == ")" && !opened(parts[i+1:end], p.depth))) {
				end++
			}
			if end == len(parts) && goesOn || end == i+1 || hasBetween(parts[i+1:end], p.depth) {
				continue
			}
			from, to := next.from, parts[end-1].to
			changes = append(changes, change{from, to, "(1 OR (" + text[from:to] + "))"})
		case "<", "<=", ">", ">=":
			other := map[string]string{"<": "<=", "<=": "<", ">": ">=", ">=": ">"}[p.text]
			changes = append(changes, change{p.from, p.to, other})
		case "LIMIT":
			if next.text == "?" {
				changes = append(changes, change{next.from, next.to, "(? - 1)"})
			}
		case "DESC":
			changes = append(changes, change{p.from, p.to, "ASC"})
		case "+":
			if next.text == "1" {
				changes = append(changes, change{next.from, next.to, "0"})
			}
		}
	}
	return changes
}

// isDistinct tells of a word that is part of a condition: IS NOT DISTINCT FROM has none of clauseEnds.
func isDistinct(parts []sqlPart, at int) bool {
	return parts[at].text == "ON" && at > 0 && parts[at-1].text == "DISTINCT"
}

// opened reports whether a parenthesis was opened at this depth that is not closed yet.
func opened(parts []sqlPart, depth int) bool {
	n := 0
	for _, p := range parts {
		if p.depth == depth && p.text == "(" {
			n++
		}
		if p.depth == depth && p.text == ")" {
			n--
		}
	}
	return n > 0
}

// between reports whether an AND behind these parts is that of a BETWEEN.
func between(parts []sqlPart, depth int) bool {
	for _, p := range slices.Backward(parts) {
		if p.depth != depth {
			continue
		}
		switch p.text {
		case "BETWEEN":
			return true
		case "AND", "WHERE":
			return false
		}
	}
	return false
}

func hasBetween(parts []sqlPart, depth int) bool {
	return slices.ContainsFunc(parts, func(p sqlPart) bool { return p.depth == depth && p.text == "BETWEEN" })
}
