package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Player makes the calls of one transcript on a store of ours.
type Player interface {
	Play(c *Call) Answer
}

// An Answer is the outcome of a call on our side, and what it is compared with.
type Answer struct {
	Outcome
	// Rule is the number of the rule in testdata/legacy/README.md by which this call is judged
	// instead of by the recorded answer; 0 for none.
	Rule int
	// Instead is what must be answered by the Rule. A rule without it is an error: it would forgive anything.
	Instead *Outcome
	// Model, if set, is the answer of a model of the original. It must be the recorded one.
	Model *Outcome
	// Bound is the value of the call's alias; nil if our answer shows it as the recorded one
	// does.
	Bound any
	// Wrong is a problem that the player itself found; "" for none.
	Wrong string
}

// A Tally counts the calls of transcripts that were played.
type Tally struct {
	Compared int         // with the recorded answer
	Judged   map[int]int // by a rule, by its number
}

func (t *Tally) count(rule int) {
	if rule == 0 {
		t.Compared++
		return
	}
	if t.Judged == nil {
		t.Judged = map[int]int{}
	}
	t.Judged[rule]++
}

// Add counts other's calls too.
func (t *Tally) Add(other Tally) {
	t.Compared += other.Compared
	for rule, n := range other.Judged {
		for range n {
			t.count(rule)
		}
	}
}

// String is for a test's log.
func (t Tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d calls compared", t.Compared)
	for _, rule := range slices.Sorted(maps.Keys(t.Judged)) {
		fmt.Fprintf(&b, ", %d judged by rule %d", t.Judged[rule], rule)
	}
	return b.String()
}

// Play makes every call of the transcript and compares the answers. The error is about the first
// that is wrong.
func Play(t Transcript, p Player, c Comparison) (Tally, error) { return play(t, p, c, false) }

// PlayFalsified plays the transcript and at each call compares with falsified answers, too: a
// falsified answer that passes is an error.
func PlayFalsified(t Transcript, p Player, c Comparison) (Tally, error) { return play(t, p, c, true) }

func play(t Transcript, p Player, c Comparison, falsify bool) (Tally, error) {
	var tally Tally
	aliases := Aliases{}
	for _, call := range t.Calls {
		call.Args = aliases.replace(call.Args, c)
		answer := p.Play(&call)
		at := fmt.Sprintf("%s:%d: %s", t.Name, call.Line, call.Op)
		ours, err := decoded(answer)
		if err != nil {
			return tally, fmt.Errorf("%s: %w", at, err)
		}
		if call.Binds != "" {
			value := answer.Bound // first: by a rule, another value may be in the alias's place
			if value == nil {
				value, _ = bound(call.Want.OK, ours.OK, call.Binds)
			}
			if value != nil {
				aliases[call.Binds] = value
			}
		}
		ours.OK = aliases.hide(ours.OK)
		if ours.Instead != nil {
			ours.Instead.OK = aliases.hide(ours.Instead.OK)
		}
		if ours.Model != nil {
			ours.Model.OK = aliases.hide(ours.Model.OK)
		}
		if wrong := c.judge(call.Want, ours); wrong != "" {
			return tally, fmt.Errorf("%s(%s): %s", at, short(call.Args), wrong)
		}
		if falsify {
			if passed := c.passingLie(call.Want, ours); passed != "" {
				return tally, fmt.Errorf("%s: %s", at, passed)
			}
		}
		tally.count(ours.Rule)
	}
	return tally, nil
}

// decoded is the answer with its values as the recorded ones are: decoded JSON.
func decoded(a Answer) (Answer, error) {
	for _, o := range []**Outcome{&a.Instead, &a.Model} {
		if *o == nil {
			continue
		}
		value, err := plain((*o).OK)
		if err != nil {
			return a, err
		}
		*o = &Outcome{OK: value, Err: (*o).Err, Kind: (*o).Kind, Panic: (*o).Panic}
	}
	var err error
	a.OK, err = plain(a.OK)
	return a, err
}

// passingLie tells of a falsified answer that is taken for right: a recorded one, or one of ours
// that a rule judges.
func (c Comparison) passingLie(want Recorded, ours Answer) string {
	if ours.Rule == 0 || ours.Model != nil {
		for _, lie := range falsified(want) {
			if c.judge(lie, ours) == "" {
				return "a falsified answer passed: " + describe(lie.Outcome)
			}
		}
	}
	if ours.Rule != 0 {
		otherKind := ours.Outcome
		otherKind.Kind += "falsified"
		for _, lie := range append(falsified(Recorded{Outcome: ours.Outcome}), Recorded{Outcome: otherKind}) {
			lying := ours
			lying.Outcome = lie.Outcome
			if c.judge(want, lying) == "" {
				return fmt.Sprintf("by rule %d a falsified answer of ours passed: %s", ours.Rule, describe(lie.Outcome))
			}
		}
	}
	return ""
}

// judge returns what is wrong with an answer.
func (c Comparison) judge(want Recorded, a Answer) string {
	if a.Wrong != "" {
		return a.Wrong
	}
	if a.Model != nil {
		if wrong := c.compare(want, *a.Model); wrong != "" {
			return "the model of the original answers " + wrong
		}
	}
	switch {
	case a.Rule == 0:
		return c.compare(want, a.Outcome)
	case a.Instead == nil:
		return fmt.Sprintf("rule %d says nothing of what must be answered instead of %s", a.Rule,
			describe(want.Outcome))
	}
	wrong := c.compare(Recorded{Outcome: *a.Instead}, a.Outcome)
	if wrong == "" && a.Instead.Kind != a.Kind {
		wrong = fmt.Sprintf("an error of kind %q, which should be %q", a.Kind, a.Instead.Kind)
	}
	if wrong != "" {
		return fmt.Sprintf("by rule %d: %s", a.Rule, wrong)
	}
	return ""
}

// Agrees reports whether an outcome equals the recorded one.
func (c Comparison) Agrees(want Recorded, got Outcome) bool {
	value, err := plain(got.OK)
	got.OK = value
	return err == nil && c.compare(want, got) == ""
}

func (c Comparison) compare(want Recorded, got Outcome) string {
	wanted, is := kindOf(want.Outcome), kindOf(got)
	if wanted != is {
		return fmt.Sprintf("%s, recorded is %s", describe(got), describe(want.Outcome))
	}
	switch wanted {
	case "err":
		if got.Kind != "" && got.Kind != want.Kind {
			return fmt.Sprintf("an error of kind %q, recorded is %s", got.Kind, describe(want.Outcome))
		}
		return ""
	case "panic":
		if *got.Panic != "" && *got.Panic != *want.Panic {
			return fmt.Sprintf("%s, recorded is %s", describe(got), describe(want.Outcome))
		}
		return ""
	}
	if len(want.AnyOf) == 0 {
		return c.Diff(want.OK, got.OK)
	}
	var first string
	for _, one := range want.AnyOf {
		d := c.Diff(one, got.OK)
		if d == "" {
			return ""
		}
		if first == "" {
			first = d
		}
	}
	return "none of the possible answers: " + first
}

func kindOf(o Outcome) string {
	switch {
	case o.Err != nil:
		return "err"
	case o.Panic != nil:
		return "panic"
	}
	return "ok"
}

func describe(o Outcome) string {
	switch kindOf(o) {
	case "err":
		return fmt.Sprintf("the error %q (%s)", *o.Err, o.Kind)
	case "panic":
		return fmt.Sprintf("the panic %q", *o.Panic)
	}
	return short(o.OK)
}
