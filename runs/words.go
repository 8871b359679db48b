package runs

import (
	"fmt"
	"slices"

	"selvedge/internal/serdejson"
)

// provenance is where a decoded record came from. A record that a caller builds has the zero value.
type provenance struct {
	Line  []byte // the line, if encoding the fields yields other bytes
	Exact bool   // encoding the fields as they are yields the line
}

// Made reports whether a caller built the record, so that it was not decoded.
func (p provenance) Made() bool { return p.Line == nil && !p.Exact }

func (s Started) source() provenance { return s.from }
func (t Turn) source() provenance    { return t.from }
func (e Ended) source() provenance   { return e.from }
func (u Unknown) source() provenance { return u.from }

// The words of a trace in the order of formats.md. Error texts list them in this order, and a tag
// inside a record may be a number that counts in it.
var (
	recordWords      = split("started ended turn")
	terminationWords = split("outcome incomplete")
	cliOutcomeWords  = split("exited killed timeout")
	verdictWords     = split("pass fail not_run")
	outcomeWords     = split("success partial_success give_up timeout failure done")
	evidenceWords    = split("self_assessment tool_result state_change external_verification stop_reason " +
		"evaluator")
	verdictsByWord = []Verdict{VerdictPass, VerdictFail, VerdictNotRun}
)

// String returns the word in a trace: "not_run", "pass" or "fail".
func (v Verdict) String() string {
	if i := slices.Index(verdictsByWord, v); i >= 0 {
		return verdictWords[i]
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// parseVerdict reads the word of a trace.
func parseVerdict(word string) (Verdict, error) {
	if i := slices.Index(verdictWords, word); i >= 0 {
		return verdictsByWord[i], nil
	}
	return 0, serdejson.Errorf("unknown variant `%s`, expected %s", word, serdejson.OneOf(verdictWords))
}
