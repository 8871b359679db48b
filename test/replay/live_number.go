package replay

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"selvedge/internal/serdejson"
)

// liveFree returns a free value as the original of the live runs holds it: its numbers are integers
// of 64 bits or floats.
func liveFree(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = liveFree(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = liveFree(v[i])
		}
		return out
	case json.Number:
		if f := liveFloat(v); serdejson.ParseNumber([]byte(v)).Kind == 'f' && !math.IsInf(f, 0) {
			return json.Number(serdejson.AppendFloat(nil, f))
		}
	}
	return value
}

// liveShort returns a number as a float of 32 bits: in its shortest form, with a point for decimal
// exponents from -6 to 12; null for one that is too large.
func liveShort(number json.Number) any {
	var f float32
	switch n := serdejson.ParseNumber([]byte(number)); n.Kind {
	case 'u':
		f = float32(n.Uint)
	case 'i':
		f = float32(n.Int)
	default:
		f = float32(liveFloat(number))
	}
	if math.IsInf(float64(f), 0) {
		return nil
	}
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(float64(f), 'e', -1, 32), "e")
	if e, _ := strconv.Atoi(exponent); e < -6 || e > 12 {
		return json.Number(fmt.Sprintf("%se%+d", digits, e))
	}
	text := strconv.FormatFloat(float64(f), 'f', -1, 32)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return json.Number(text)
}

// liveFloat reads a float as the original does, whose JSON reader rounds more than once: the digits
// as an integer, and then a power of ten.
func liveFloat(number json.Number) float64 {
	text, negative := strings.CutPrefix(string(number), "-")
	mantissa, exponentText, _ := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent, err := strconv.Atoi(exponentText)
	if err != nil {
		exponent = 0
	}
	var significand uint64
	full := false
	for i, digit := range whole + fraction {
		digit -= '0'
		full = full || significand > (math.MaxUint64-uint64(digit))/10
		switch {
		case !full:
			significand = significand*10 + uint64(digit)
			if i >= len(whole) {
				exponent--
			}
		case i < len(whole):
			exponent++
		}
	}
	f := float64(significand)
	for exponent < -308 && f != 0 {
		f /= 1e308
		exponent += 308
	}
	power, _ := strconv.ParseFloat("1e"+strconv.Itoa(max(exponent, -exponent)), 64) // math.Pow10 is not exact
	switch {
	case f == 0:
	case exponent < 0:
		f /= power
	default:
		f *= power
	}
	if negative {
		f = -f
	}
	return f
}
