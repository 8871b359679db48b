package postgres

import (
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unsafe"

	"github.com/jackc/pgx/v5/pgconn"

	"selvedge/internal/engine"
	"selvedge/internal/scan"
)

// The types with a binary form here; all others go as text. The numbers are those of pg_type.dat.
const (
	oidBool    = 16
	oidBytea   = 17
	oidInt8    = 20
	oidInt2    = 21
	oidInt4    = 23
	oidText    = 25
	oidFloat4  = 700
	oidFloat8  = 701
	oidUnknown = 705
	oidBPChar  = 1042
	oidVarchar = 1043
	oidNumeric = 1700

	firstUserType = 16384 // FirstNormalObjectId of access/transam.h
)

const (
	textFormat   int16 = 0
	binaryFormat int16 = 1
)

// formatOf returns the format, text or binary, in which a column's values are requested.
func formatOf(oid uint32) int16 {
	switch oid {
	case oidBool, oidBytea, oidInt2, oidInt4, oidInt8, oidFloat4, oidFloat8, oidText, oidVarchar:
		return binaryFormat
	}
	return textFormat
}

func isText(oid uint32) bool {
	return oid == oidText || oid == oidVarchar || oid == oidUnknown || oid == oidBPChar
}

// encode returns an argument in the form of a parameter of type oid. nil is NULL.
func encode(v driver.Value, oid uint32) (value []byte, format int16, err error) {
	if v == nil {
		return nil, textFormat, nil
	}
	if b, ok := v.(bool); ok {
		n := int64(0)
		if b {
			n = 1
		}
		v = n
	}
	if b, ok := v.([]byte); ok && b == nil {
		return nil, textFormat, nil
	}
	switch oid {
	case oidBytea:
		switch v := v.(type) {
		case []byte:
			return v, binaryFormat, nil
		case string:
			return given(v), binaryFormat, nil
		}
	case oidInt8, oidInt4, oidInt2:
		if n, ok := v.(int64); ok {
			return encodeInt(n, oid)
		}
	case oidBool:
		if n, ok := v.(int64); ok {
			if n != 0 {
				return []byte{1}, binaryFormat, nil
			}
			return []byte{0}, binaryFormat, nil
		}
	case oidFloat8:
		if n, ok := v.(int64); ok {
			v = float64(n)
		}
		if f, ok := v.(float64); ok {
			return binary.BigEndian.AppendUint64(nil, math.Float64bits(f)), binaryFormat, nil
		}
	}
	switch v := v.(type) {
	case int64:
		return strconv.AppendInt(nil, v, 10), textFormat, nil
	case float64:
		return strconv.AppendFloat(nil, v, 'g', -1, 64), textFormat, nil
	case string:
		return given(encodeText(v)), textFormat, nil
	case []byte:
		return given(encodeText(string(v))), textFormat, nil
	}
	return nil, 0, fmt.Errorf("%w: a %T is no value of a table", engine.ErrInvalid, v)
}

func encodeInt(n int64, oid uint32) ([]byte, int16, error) {
	switch {
	case oid == oidInt8:
		return binary.BigEndian.AppendUint64(nil, uint64(n)), binaryFormat, nil
	case oid == oidInt4 && n >= math.MinInt32 && n <= math.MaxInt32:
		return binary.BigEndian.AppendUint32(nil, uint32(n)), binaryFormat, nil
	case oid == oidInt2 && n >= math.MinInt16 && n <= math.MaxInt16:
		return binary.BigEndian.AppendUint16(nil, uint16(n)), binaryFormat, nil
	}
	return nil, 0, fmt.Errorf("%w: %d does not fit the parameter: write CAST(? AS BIGINT)", engine.ErrInvalid, n)
}

// given returns the bytes of a text; not nil for an empty text, since nil is NULL. They must not
// be written to.
func given(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// decode returns a value of a column as SQLite would: a number as int64 or float64, a boolean as
// 0 or 1, text, or bytes. The result does not point into the connection's buffer.
func decode(value []byte, field pgconn.FieldDescription) (driver.Value, error) {
	if value == nil {
		return nil, nil
	}
	if field.Format == textFormat {
		switch field.DataTypeOID {
		case oidNumeric:
			return decodeNumeric(string(value))
		case oidBytea:
			return nil, fmt.Errorf("column %s: bytes came as text", field.Name)
		}
		return decodeText(string(value)), nil
	}
	switch {
	case field.DataTypeOID == oidBool && len(value) == 1:
		return int64(value[0]), nil
	case field.DataTypeOID == oidInt8 && len(value) == 8:
		return int64(binary.BigEndian.Uint64(value)), nil
	case field.DataTypeOID == oidInt4 && len(value) == 4:
		return int64(int32(binary.BigEndian.Uint32(value))), nil
	case field.DataTypeOID == oidInt2 && len(value) == 2:
		return int64(int16(binary.BigEndian.Uint16(value))), nil
	case field.DataTypeOID == oidFloat8 && len(value) == 8:
		return math.Float64frombits(binary.BigEndian.Uint64(value)), nil
	case field.DataTypeOID == oidFloat4 && len(value) == 4:
		return float64(math.Float32frombits(binary.BigEndian.Uint32(value))), nil
	case field.DataTypeOID == oidBytea:
		return append([]byte{}, value...), nil
	case isText(field.DataTypeOID):
		return decodeText(string(value)), nil
	}
	return nil, fmt.Errorf("column %s: %d bytes of type %d can't be read", field.Name, len(value),
		field.DataTypeOID)
}

// take scans a value of a column into a destination of a common type, and reports whether it could.
// It does what decode and scan.Assign do for all types, without the value in between.
func take(dest any, value []byte, field *pgconn.FieldDescription) bool {
	if value == nil {
		switch d := dest.(type) {
		case **string:
			*d = nil
		case **int64:
			*d = nil
		case *[]byte:
			*d = nil
		default:
			return scan.Assign(dest, nil)
		}
		return true
	}
	switch {
	case field.Format != binaryFormat:
	case field.DataTypeOID == oidText:
		switch d := dest.(type) {
		case *string:
			*d = decodeText(string(value))
			return true
		case **string:
			s := decodeText(string(value))
			*d = &s
			return true
		}
	case field.DataTypeOID == oidInt8 && len(value) == 8:
		n := int64(binary.BigEndian.Uint64(value))
		switch d := dest.(type) {
		case *int64:
			*d = n
			return true
		case *int:
			*d = int(n)
			return int64(*d) == n
		case **int64:
			*d = &n
			return true
		}
	case field.DataTypeOID == oidBytea:
		if d, ok := dest.(*[]byte); ok {
			*d = append([]byte{}, value...)
			return true
		}
	}
	v, err := decode(value, *field)
	return err == nil && scan.Assign(dest, v)
}

// decodeNumeric returns a whole number, such as sum(bigint), as int64, and any other as float64.
func decodeNumeric(s string) (driver.Value, error) {
	whole, fraction, _ := strings.Cut(s, ".")
	if strings.Trim(fraction, "0") == "" {
		if n, err := strconv.ParseInt(whole, 10, 64); err == nil {
			return n, nil
		}
	}
	return strconv.ParseFloat(s, 64)
}
