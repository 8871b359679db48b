package serdejson

import (
	"bytes"
	"math"
	"strconv"
)

// A Number is a JSON number as the originals hold it: the first of uint64, int64 and float64 that fits.
type Number struct {
	Kind  byte // 'u', 'i' or 'f': which of the others is set
	Uint  uint64
	Int   int64
	Float float64
}

// IsNumber reports whether a value that a scanner has accepted is a number.
func IsNumber(text []byte) bool { return text[0] == '-' || isDigit(text[0]) }

// ParseNumber reads a number that a scanner has accepted.
func ParseNumber(text []byte) Number {
	if text[0] != '-' {
		if u, err := strconv.ParseUint(string(text), 10, 64); err == nil {
			return Number{Kind: 'u', Uint: u}
		}
	} else if i, err := strconv.ParseInt(string(text), 10, 64); err == nil && i < 0 {
		return Number{Kind: 'i', Int: i}
	}
	f, _ := strconv.ParseFloat(string(text), 64)
	return Number{Kind: 'f', Float: f}
}

// AppendFloat writes the shortest digits that read back as f, as serde_json 1.0.154 does: with a
// point for decimal exponents from -5 to 15, else like 1e+16 and 1.5e-7.
func AppendFloat(dst []byte, f float64) []byte {
	start, format := len(dst), byte('f')
	if size := math.Abs(f); size != 0 && (size < 1e-5 || size >= 1e16) {
		format = 'e'
	}
	dst = strconv.AppendFloat(dst, f, format, -1, 64)
	end := len(dst)
	switch {
	case format == 'f' && bytes.IndexByte(dst[start:], '.') < 0:
		return append(dst, '.', '0')
	case format == 'e' && dst[end-4] == 'e' && dst[end-2] == '0': // Go pads the exponent to two digits
		return append(dst[:end-2], dst[end-1])
	}
	return dst
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
