package runs

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"selvedge/internal/serdejson"
)

// How the original's library (serde, with derived readers over a buffered value) reads JSON into
// its types: which shapes it accepts for a struct, an enum and a number, and its errors for all
// others.

var (
	startedStructure = structure("struct RunStarted",
		"run_id agent_id intent outcome_description started_at", 5)
	turnStructure = structure("struct RunTurn",
		"index prompt tool parameters output cli_outcome verifier_verdict policy_rejected", 7)
	endedStructure       = structure("struct RunEnded", "run_id agent_id termination ended_at", 4)
	terminationStructure = structure("struct variant RunTermination::Outcome", "status outcome", 2)
	agentStructure       = structure("struct AgentOutcome", "status summary evidence metrics timestamp", 1)
	metricsStructure     = structure("struct OutcomeMetrics",
		"turns tool_calls duration_ms retries actions_succeeded actions_failed", 0)
	evidenceStructure  = structure("struct Evidence", "kind description data", 3)
	exitedStructure    = structure("struct variant CliOutcome::Exited", "code", 1)
	rejectionStructure = structure("struct PolicyRejection", "rule param", 1)
)

func structure(name, fields string, required int) serdejson.Structure {
	return serdejson.Structure{Name: name, Names: split(fields), Required: required}
}

func split(list string) []string { return strings.Fields(list) }

// onlyMember returns the value of the one member of that name in an object; nil if there is none, or
// several.
func onlyMember(object []byte, name string) (value []byte) {
	for _, m := range serdejson.ContentOf(object, nil).Members {
		if !serdejson.KeyIs(m.Key, name) {
			continue
		}
		if value != nil {
			return nil
		}
		value = m.Value
	}
	return value
}

func isNull(text []byte) bool { return len(text) == 0 || text[0] == 'n' }

// signed reads an i64.
func signed(f *serdejson.Fields, i int) int64 {
	text := f.Need(i)
	if text == nil {
		return 0
	}
	n, err := serdejson.Whole(text, math.MinInt64, math.MaxInt64, "i64")
	f.Keep(err)
	return n.Int + int64(n.Uint) // one of them is 0
}

// float reads an f64, also from an integer.
func float(f *serdejson.Fields, i int) float64 {
	text := f.Need(i)
	if text == nil {
		return 0
	}
	if !serdejson.IsNumber(text) {
		f.Fail("invalid type: %s, expected f64", serdejson.Unexpected(text))
		return 0
	}
	// Whole numbers of up to 64 bits become the nearest float too, so that one parse serves all
	// three kinds.
	n, _ := strconv.ParseFloat(string(text), 64)
	return n
}

// isUnit reports whether a value stands for no data: the original reads enums from a buffered value,
// where an empty object does too.
func isUnit(value []byte) bool {
	return isNull(value) || value[0] == '{' && len(serdejson.ContentOf(value, nil).Members) == 0
}

// tagged reads an enum whose variant is in a member "kind", or first in an array. In an array it
// may be a number, which counts variants.
func tagged(text []byte, enum string, words []string, few []serdejson.Member) (int, serdejson.Content,
	error,
) {
	tag, rest, err := serdejson.Tagged(text, enum, few)
	if err != nil {
		return 0, rest, err
	}
	if serdejson.IsNumber(tag) {
		if n := serdejson.ParseNumber(tag); n.Kind == 'u' && n.Uint < uint64(len(words)) {
			return int(n.Uint), rest, nil
		} else if n.Kind == 'u' {
			return 0, rest, serdejson.Errorf("invalid value: %s, expected variant index 0 <= i < %d",
				serdejson.Unexpected(tag), len(words))
		}
	}
	i, err := serdejson.Variant(tag, words)
	return i, rest, err
}

// rawMember returns free-form JSON of the line; nil for null.
func rawMember(text []byte) []byte {
	if isNull(text) {
		return nil
	}
	// Without spare capacity, so that appending to it does not change the line.
	return slices.Clip(text)
}
