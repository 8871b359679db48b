package main

import (
	"fmt"
	"slices"
	"strings"
)

// A story is the sequence of a traced process's reports.
type story struct {
	armed, looking, ended bool
	answers               []answer // of each operation
	errors                []string // of those that failed
	current               int      // the operation that began last
	seen                  []seen
	blind                 []string // operations that it could not read at its end
	left                  []string // what failed operations left behind, and other complaints
}

// An answer is the outcome of an operation, as its caller received it.
type answer string

const (
	unbegun  answer = ""
	begun    answer = "begin"   // and then the process ended
	finished answer = "done"    // acknowledged
	refused  answer = "no"      // an error that means that it did not happen
	unknown  answer = "unknown" // db.ErrOutcomeUnknown
)

// A seen is what the process itself read of an operation after it was answered.
type seen struct {
	op   int
	what trace
}

func newStory(sc *script) *story {
	return &story{answers: make([]answer, len(sc.ops)), errors: make([]string, len(sc.ops)), current: -1}
}

// record takes one line.
func (s *story) record(line string) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "armed":
		s.armed = true
		return
	case "looking":
		s.looking = true
		return
	case "end":
		s.ended = true
		return
	case "left":
		s.left = append(s.left, line)
		return
	}
	number, text, _ := strings.Cut(rest, " ")
	var i int
	if _, err := fmt.Sscan(number, &i); err != nil || i >= len(s.answers) {
		return
	}
	switch word {
	case "saw":
		s.seen = append(s.seen, seen{i, trace(text)})
	case "blind":
		if s.looking {
			s.blind = append(s.blind, fmt.Sprintf("%d: %s", i, text))
		}
	case string(begun):
		s.answers[i], s.current = begun, i
		s.forget(i)
	case string(finished), string(refused), string(unknown):
		s.answers[i], s.errors[i] = answer(word), text
	}
}

// forget drops what was read of an operation that begins again, if that did not contradict
// itself.
func (s *story) forget(op int) {
	of := func(r seen) bool { return r.op == op }
	if first := slices.IndexFunc(s.seen, of); first >= 0 {
		other := func(r seen) bool { return of(r) && r.what != s.seen[first].what }
		if slices.ContainsFunc(s.seen, other) {
			s.left = append(s.left, fmt.Sprintf("operation %d was read as %s, and then as something else", op,
				s.seen[first].what))
		}
	}
	s.seen = slices.DeleteFunc(s.seen, of)
}

// allows reports whether the operation may be seen as what after the process ended.
func (o op) allows(a answer, what trace) bool {
	switch {
	case a == finished:
		return what == done
	case a == unbegun:
		return what == absent
	case o.gradual:
		return true
	case a == refused:
		return what == absent
	}
	return what == done || what == absent
}

// lingering returns what failed although the last fault was over. An outcome that is unknown may
// make a handle refuse.
func (s *story) lingering(sc *script, last int, late bool) (problems []string) {
	if sc.crowd || slices.Contains(s.answers, unknown) {
		return nil
	}
	for i, a := range s.answers {
		if a == refused && i > last {
			problems = append(problems, fmt.Sprintf("%s failed though nothing was wrong any more: %s", sc.ops[i].name,
				s.errors[i]))
		}
	}
	if !late {
		for _, b := range s.blind {
			problems = append(problems, "could not be read though nothing was wrong any more: "+b)
		}
	}
	return problems
}
