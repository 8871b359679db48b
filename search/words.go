package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"selvedge/internal/txn"
)

// A term is a word or a phrase that must be there, or must not.
type term struct {
	text   string
	begins bool // the last word is the beginning of one
	not    bool
}

// parse reads what a person typed. Any text is accepted; without a word to find it is db.ErrInvalid.
func parse(words string) (terms []term, err error) {
	finds := false
	for rest := strings.TrimSpace(words); rest != ""; rest = strings.TrimSpace(rest) {
		var t term
		if len(rest) > 1 && rest[0] == '-' && rest[1] != ' ' {
			t.not, rest = true, rest[1:]
		}
		if rest[0] == '"' {
			t.text, rest, _ = strings.Cut(rest[1:], `"`)
		} else {
			end := strings.IndexFunc(rest, unicode.IsSpace)
			if end < 0 {
				end = len(rest)
			}
			t.text, rest = rest[:end], rest[end:]
		}
		t.begins = strings.HasSuffix(t.text, "*") || strings.HasPrefix(rest, "*")
		rest = strings.TrimPrefix(rest, "*")
		t.text = strings.TrimRight(strings.ToValidUTF8(strings.ReplaceAll(t.text, "\x00", " "), " "), "*")
		if len(tokensOf(t.text)) > 0 {
			terms, finds = append(terms, t), finds || !t.not
		}
	}
	if !finds {
		return nil, txn.Invalid("write a word that is to be there", "the query %.60q has no word to find", words)
	}
	return terms, nil
}

// A token is a word of a text, in lower case and without accents.
type token struct {
	from, to int // in the text
	folded   string
}

// longestToken is the most bytes of a token; a server takes 2,046.
const longestToken = 500

// tokensOf splits a text into words of letters and digits, as FTS5's unicode61 does.
func tokensOf(text string) (list []token) {
	from := -1
	for i, r := range text {
		inside := unicode.In(r, unicode.L, unicode.N, unicode.Co) || from >= 0 && unicode.Is(unicode.Mn, r)
		switch {
		case inside && from < 0:
			from = i
		case !inside && from >= 0:
			list, from = append(list, token{from, i, folded(text[from:i])}), -1
		}
	}
	if from >= 0 {
		list = append(list, token{from, len(text), folded(text[from:])})
	}
	return list
}

func folded(word string) string {
	if word = cut(word, longestToken); isASCII(word) {
		return strings.ToLower(word)
	}
	return cut(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFD.String(word)), longestToken)
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// cut returns the beginning of a text, of whole characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// Mark and Unmark are around the found words of a snippet.
const Mark, Unmark = "\x02", "\x03"

// snippetTokens is the length of a snippet.
const snippetTokens = 24

// snippet returns some words around the first that was found, with marks.
func snippet(text string, terms []term) string {
	tokens := tokensOf(text)
	var wanted [][]token // by term; none for one that must not be there
	first := len(tokens)
	for n, t := range terms {
		wanted = append(wanted, nil)
		if t.not {
			continue
		}
		wanted[n] = tokensOf(t.text)
		for i := 0; i < first && i+len(wanted[n]) <= len(tokens); i++ {
			if t.at(tokens[i:], wanted[n]) {
				first = i
			}
		}
	}
	if first == len(tokens) {
		first = 0
	}
	begin := 0
	if first > snippetTokens*3/4 {
		begin = first - snippetTokens/4
	}
	end := min(begin+snippetTokens, len(tokens))
	marked := make([]int, len(tokens)+1) // 1 where what was found begins, -1 behind it
	for n, t := range terms {
		for i := first; wanted[n] != nil && i < end && i+len(wanted[n]) <= len(tokens); i++ {
			if t.at(tokens[i:], wanted[n]) {
				marked[i]++
				marked[i+len(wanted[n])]--
			}
		}
	}
	var b strings.Builder
	at, depth := 0, 0
	if begin > 0 {
		b.WriteString("…")
		at = tokens[begin].from
	}
	for i := begin; i < end; i++ {
		was := depth
		if depth += marked[i]; depth > 0 && was == 0 {
			b.WriteString(text[at:tokens[i].from] + Mark)
			at = tokens[i].from
		} else if depth == 0 && was > 0 {
			b.WriteString(text[at:tokens[i-1].to] + Unmark)
			at = tokens[i-1].to
		}
	}
	stop := len(text)
	if end < len(tokens) {
		stop = tokens[end-1].to
	}
	if depth > 0 {
		b.WriteString(text[at:tokens[end-1].to] + Unmark)
		at = tokens[end-1].to
	}
	b.WriteString(text[at:stop])
	if end < len(tokens) {
		b.WriteString("…")
	}
	return b.String()
}

// at reports whether the tokens begin with the words of the term.
func (t *term) at(tokens, wanted []token) bool {
	for i, w := range wanted {
		if t.begins && i == len(wanted)-1 {
			return strings.HasPrefix(tokens[i].folded, w.folded)
		}
		if tokens[i].folded != w.folded {
			return false
		}
	}
	return true
}
