package chrono

import (
	"errors"
	"math"
	"strings"
	"time"
	"unicode"
)

// The range of chrono's NaiveDate.
const (
	minYear = -262143
	maxYear = 262142
)

// Chrono's error texts.
const (
	timeOutOfRange = "input is out of range"
	timeImpossible = "no possible date and time matching input"
	timeInvalid    = "input contains invalid characters"
	timeTooShort   = "premature end of input"
	timeTooLong    = "trailing input"
)

// Format writes t exactly as the originals write their times: in UTC, with 'Z', 0, 3, 6 or 9 digits
// of fraction, and years outside 0 to 9999 with a sign.
func Format(t time.Time) string { return string(Append(nil, t)) }

// Append is Format, appended to dst.
func Append(dst []byte, t time.Time) []byte {
	t = t.UTC()
	return appendClock(dst, t, t.Second(), t.Nanosecond())
}

func appendClock(dst []byte, t time.Time, second, nanos int) []byte {
	year, month, day := t.Date()
	switch {
	case year < 0:
		dst = appendPadded(append(dst, '-'), -year, 4)
	case year > 9999:
		dst = appendPadded(append(dst, '+'), year, 4)
	default:
		dst = appendPadded(dst, year, 4)
	}
	dst = appendPadded(append(dst, '-'), int(month), 2)
	dst = appendPadded(append(dst, '-'), day, 2)
	dst = appendPadded(append(dst, 'T'), t.Hour(), 2)
	dst = appendPadded(append(dst, ':'), t.Minute(), 2)
	dst = appendPadded(append(dst, ':'), second, 2)
	switch {
	case nanos == 0:
	case nanos%1e6 == 0:
		dst = appendPadded(append(dst, '.'), nanos/1e6, 3)
	case nanos%1e3 == 0:
		dst = appendPadded(append(dst, '.'), nanos/1e3, 6)
	default:
		dst = appendPadded(append(dst, '.'), nanos, 9)
	}
	return append(dst, 'Z')
}

func appendPadded(dst []byte, n, width int) []byte {
	var digits [20]byte
	i := len(digits)
	for n > 0 || width > 0 {
		i--
		digits[i] = byte('0' + n%10)
		n /= 10
		width--
	}
	return append(dst, digits[i:]...)
}

// Parse reads a time. A time.Time has no second 60. Such a time becomes the last nanosecond of second
// 59, so that it still sorts before the next minute, and exact is its text; exact is "" for any
// other time.
func Parse(s string) (t time.Time, exact string, err error) {
	t, leapNanos, reason := scanTime(s)
	if reason != "" {
		return time.Time{}, "", errors.New(reason)
	}
	if leapNanos >= 0 {
		return t.Add(time.Second - 1), string(appendClock(nil, t, 60, leapNanos)), nil
	}
	return t, "", nil
}

// Text is t as text: exact, as Parse returned it, if it still means t; else Format(t).
func Text(t time.Time, exact string) string { return string(AppendText(nil, t, exact)) }

// AppendText is Text, appended to dst.
func AppendText(dst []byte, t time.Time, exact string) []byte {
	if exact != "" {
		if kept, _, err := Parse(exact); err == nil && kept.Equal(t) {
			return append(dst, exact...)
		}
	}
	return Append(dst, t)
}

// InRange reports whether the originals can read t back.
func InRange(t time.Time) bool {
	year := t.UTC().Year()
	return minYear <= year && year <= maxYear
}

// scanTime follows the steps of chrono's relaxed reader, with its blanks. leapNanos is the fraction of
// a second 60, or -1.
func scanTime(s string) (t time.Time, leapNanos int, reason string) {
	in := timeScanner{rest: s}
	year := in.within(in.year(), math.MinInt32, math.MaxInt32)
	in.skip("-")
	month := in.within(in.number(2), 1, 12)
	in.skip("-")
	day := in.within(in.number(2), 1, 31)
	in.separator()
	hour := in.within(in.number(2), 0, 23)
	in.skip(":")
	minute := in.within(in.number(2), 0, 59)
	in.skip(":")
	second := in.within(in.number(2), 0, 60)
	nanos := in.fraction()
	offset := in.offset()
	if in.reason == "" && in.trim() != "" {
		in.reason = timeTooLong
	}
	if in.reason != "" {
		return t, -1, in.reason
	}
	if year < minYear || year > maxYear || day > daysIn(year, month) || offset <= -24*60 || offset >= 24*60 {
		return t, -1, timeOutOfRange
	}
	leapNanos = -1
	if second == 60 {
		second, leapNanos, nanos = 59, nanos, 0
	}
	t = time.Date(int(year), time.Month(month), int(day), int(hour), int(minute), int(second), nanos, time.UTC)
	t = t.Add(-time.Duration(offset) * time.Minute)
	if !InRange(t) {
		return t, -1, timeImpossible
	}
	return t, leapNanos, ""
}

func daysIn(year, month int64) int64 {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// timeScanner reads a time from the left. After its first failure it does nothing.
type timeScanner struct {
	rest   string
	reason string
}

func (in *timeScanner) trim() string {
	in.rest = strings.TrimLeftFunc(in.rest, unicode.IsSpace)
	return in.rest
}

func (in *timeScanner) fail(reason string) {
	if in.reason == "" {
		in.reason = reason
	}
}

func (in *timeScanner) skip(literal string) {
	switch {
	case in.reason != "":
	case in.trim() == "":
		in.fail(timeTooShort)
	case !strings.HasPrefix(in.rest, literal):
		in.fail(timeInvalid)
	default:
		in.rest = in.rest[len(literal):]
	}
}

// number reads at most width digits, and at least one.
func (in *timeScanner) number(width int) int64 {
	if in.reason != "" {
		return 0
	}
	in.trim()
	return in.digits(width)
}

func (in *timeScanner) digits(width int) int64 {
	if in.rest == "" {
		in.fail(timeTooShort)
		return 0
	}
	var n int64
	i := 0
	for ; i < len(in.rest) && i < width && isDigit(in.rest[i]); i++ {
		if n > (math.MaxInt64-9)/10 {
			in.fail(timeOutOfRange)
			return 0
		}
		n = n*10 + int64(in.rest[i]-'0')
	}
	if i == 0 {
		in.fail(timeInvalid)
	}
	in.rest = in.rest[i:]
	return n
}

// within refuses a number before what follows is read.
func (in *timeScanner) within(n, smallest, largest int64) int64 {
	if n < smallest || n > largest {
		in.fail(timeOutOfRange)
	}
	return n
}

// year has at most four digits, or a sign and then any number of digits.
func (in *timeScanner) year() int64 {
	in.trim()
	if in.rest != "" && (in.rest[0] == '-' || in.rest[0] == '+') {
		negative := in.rest[0] == '-'
		in.rest = in.rest[1:]
		n := in.digits(math.MaxInt)
		if negative {
			return -n
		}
		return n
	}
	return in.digits(4)
}

// separator is the single character between date and time.
func (in *timeScanner) separator() {
	switch {
	case in.reason != "":
	case in.rest == "":
		in.fail(timeTooShort)
	case in.rest[0] != 'T' && in.rest[0] != 't' && in.rest[0] != ' ':
		in.fail(timeInvalid)
	default:
		in.rest = in.rest[1:]
	}
}

// fraction reads up to nine digits after a point. More digits are cut off, not rounded.
func (in *timeScanner) fraction() int {
	if in.reason != "" || !strings.HasPrefix(in.rest, ".") {
		return 0
	}
	in.rest = in.rest[1:]
	before := len(in.rest)
	n := in.digits(9)
	for read := before - len(in.rest); read < 9; read++ {
		n *= 10
	}
	for in.rest != "" && isDigit(in.rest[0]) {
		in.rest = in.rest[1:]
	}
	return int(n)
}

// offset is in minutes: Z, UTC, or a sign, two digits, any colons and blanks, two digits.
func (in *timeScanner) offset() int {
	if in.reason != "" {
		return 0
	}
	in.trim()
	if len(in.rest) >= 3 && strings.EqualFold(in.rest[:3], "UTC") {
		in.rest = in.rest[3:]
		return 0
	}
	sign := 1
	switch {
	case in.rest == "":
		in.fail(timeTooShort)
		return 0
	case in.rest[0] == 'Z' || in.rest[0] == 'z':
		in.rest = in.rest[1:]
		return 0
	case in.rest[0] == '+':
		in.rest = in.rest[1:]
	case in.rest[0] == '-':
		sign, in.rest = -1, in.rest[1:]
	case strings.HasPrefix(in.rest, "\u2212"):
		sign, in.rest = -1, in.rest[len("\u2212"):]
	default:
		in.fail(timeInvalid)
		return 0
	}
	hours := in.pair()
	in.rest = strings.TrimLeftFunc(in.rest, func(r rune) bool { return r == ':' || unicode.IsSpace(r) })
	minutes := in.pair()
	if minutes > 59 {
		in.fail(timeOutOfRange)
	}
	return sign * (hours*60 + minutes)
}

func (in *timeScanner) pair() int {
	switch {
	case in.reason != "":
		return 0
	case len(in.rest) < 2:
		in.fail(timeTooShort)
		return 0
	case !isDigit(in.rest[0]) || !isDigit(in.rest[1]):
		in.fail(timeInvalid)
		return 0
	}
	n := int(in.rest[0]-'0')*10 + int(in.rest[1]-'0')
	in.rest = in.rest[2:]
	return n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
