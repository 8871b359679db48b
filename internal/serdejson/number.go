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

// appendNumber writes a number that a scanner has accepted.
func appendNumber(dst, text []byte) []byte {
	switch n := ParseNumber(text); n.Kind {
	case 'u':
		return strconv.AppendUint(dst, n.Uint, 10)
	case 'i':
		return strconv.AppendInt(dst, n.Int, 10)
	default:
		return AppendFloat(dst, n.Float)
	}
}

// AppendFloat writes the shortest digits that read back as f, as serde_json 1.0.154 does: with a
// point for decimal exponents from -5 to 15, else like 1e+16 and 1.5e-7.
func AppendFloat(dst []byte, f float64) []byte {
	if f == 0 {
		if math.Signbit(f) {
			dst = append(dst, '-')
		}
		return append(dst, '0', '.', '0')
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	mark := start + bytes.LastIndexByte(dst[start:], 'e')
	exponent, _ := strconv.Atoi(string(dst[mark+1:]))
	if exponent < -5 || exponent > 15 {
		// Go pads the exponent to two digits.
		if dst[mark+2] == '0' {
			dst = append(dst[:mark+2], dst[mark+3:]...)
		}
		return dst
	}
	dst = strconv.AppendFloat(dst[:start], f, 'f', -1, 64)
	if bytes.IndexByte(dst[start:], '.') < 0 {
		dst = append(dst, '.', '0')
	}
	return dst
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
