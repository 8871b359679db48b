package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"time"

	"selvedge/internal/chrono"
)

// Decode reads one JSON value without losing digits: numbers are json.Number.
func Decode(text []byte) (any, error) {
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	var value any
	if err := in.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := in.Token(); err != io.EOF {
		return nil, fmt.Errorf("has something behind its JSON value")
	}
	return value, nil
}

// Encode is the JSON text of a decoded value.
func Encode(value any) json.RawMessage {
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	if err := to.Encode(value); err != nil {
		panic(fmt.Sprintf("replay: encode a decoded value: %v", err))
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// plain turns our side of a comparison into a decoded value.
func plain(value any) (any, error) {
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	if err := to.Encode(value); err != nil {
		return nil, err
	}
	return Decode(out.Bytes())
}

// A Comparison defines when two answers are the same: numbers by value, times as instants,
// {"$time": true} for any time and {"$now_ms": n} for the time n milliseconds after Now.
type Comparison struct {
	// NullIsAbsent makes a null member and a missing one the same.
	NullIsAbsent bool
	// MoreMembers allows members in our answer that the recorded one doesn't have.
	MoreMembers bool
	// Now is the player's clock.
	Now func() time.Time
}

// Diff tells where got differs from the recorded want; "" means nowhere. Both are decoded values.
func (c Comparison) Diff(want, got any) string { return c.diff("", want, got) }

func (c Comparison) diff(at string, want, got any) string {
	if special, ok := want.(map[string]any); ok && len(special) == 1 {
		if _, ok := special["$time"]; ok {
			if isTime(got) {
				return ""
			}
			return differs(at, want, got)
		}
		if ms, ok := special["$now_ms"]; ok {
			if c.isNow(ms, got) {
				return ""
			}
			return differs(at, want, got)
		}
	}
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			return c.diffObjects(at, want, got)
		}
	case []any:
		if got, ok := got.([]any); ok {
			return c.diffArrays(at, want, got)
		}
	case json.Number:
		if got, ok := got.(json.Number); ok && sameNumber(want, got) {
			return ""
		}
	case string:
		if got, ok := got.(string); ok && (want == got || sameTime(want, got)) {
			return ""
		}
	default: // nil, bool
		if want == got {
			return ""
		}
	}
	return differs(at, want, got)
}

func (c Comparison) diffObjects(at string, want, got map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		value, there := got[name]
		if !there {
			if c.NullIsAbsent && want[name] == nil {
				continue
			}
			return fmt.Sprintf("%s.%s: %s is missing", at, name, short(want[name]))
		}
		if d := c.diff(at+"."+name, want[name], value); d != "" {
			return d
		}
	}
	if c.MoreMembers {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, there := want[name]; !there && !(c.NullIsAbsent && got[name] == nil) {
			return fmt.Sprintf("%s.%s: %s is not in the recorded answer", at, name, short(got[name]))
		}
	}
	return ""
}

func (c Comparison) diffArrays(at string, want, got []any) string {
	for i := range min(len(want), len(got)) {
		if d := c.diff(fmt.Sprintf("%s[%d]", at, i), want[i], got[i]); d != "" {
			return d
		}
	}
	if len(want) != len(got) {
		return fmt.Sprintf("%s: %d elements, recorded are %d: %s, recorded is %s", at, len(got), len(want),
			short(got), short(want))
	}
	return ""
}

func differs(at string, want, got any) string {
	if at == "" {
		at = "."
	}
	return fmt.Sprintf("%s: %s, recorded is %s", at, short(got), short(want))
}

func short(value any) string {
	text := string(Encode(value))
	if len(text) > 600 {
		return text[:600] + "…"
	}
	return text
}

// sameNumber compares whole numbers of 64 bits exactly and all others as floats, as the originals hold them.
func sameNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	x, okX := new(big.Rat).SetString(string(a))
	y, okY := new(big.Rat).SetString(string(b))
	if okX && okY && x.Cmp(y) == 0 {
		return true
	}
	if okX && okY && fitsWord(x) && fitsWord(y) {
		return false
	}
	f, errF := strconv.ParseFloat(string(a), 64)
	g, errG := strconv.ParseFloat(string(b), 64)
	return errF == nil && errG == nil && f == g
}

func fitsWord(x *big.Rat) bool {
	return x.IsInt() && (x.Num().IsInt64() || x.Num().IsUint64())
}

func isTime(value any) bool {
	text, ok := value.(string)
	if !ok {
		return false
	}
	_, _, err := chrono.Parse(text)
	return err == nil
}

func sameTime(a, b string) bool {
	x, exactX, errX := chrono.Parse(a)
	y, exactY, errY := chrono.Parse(b)
	return errX == nil && errY == nil && x.Equal(y) && exactX == exactY
}

func (c Comparison) isNow(ms, got any) bool {
	text, _ := got.(string)
	at, _, err := chrono.Parse(text)
	return err == nil && c.Now != nil && at.Equal(c.later(ms))
}

// later is the time ms milliseconds after the player's clock.
func (c Comparison) later(ms any) time.Time {
	n, _ := ms.(json.Number)
	count, err := n.Int64()
	if err != nil || c.Now == nil {
		panic(fmt.Sprintf("replay: $now_ms of %v needs a number and a clock", ms))
	}
	return c.Now().Add(time.Duration(count) * time.Millisecond)
}
