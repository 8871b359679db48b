package main

import (
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// A rowWriter writes the rows of an answer in one of the forms of query.
type rowWriter struct {
	row func(values []any) error
	end func(truncated bool) error
}

// A rowForm is a form in which query writes rows. Each form has an entry here and its writer below;
// --json, which all commands have, is the first.
type rowForm struct {
	flag, help string
	isJSON     bool // its text is JSON
	kept       bool // it is written once the last row is read
	// writer begins an answer; out is discarded if it fails
	writer func(a *app, columns []string, out io.Writer) (rowWriter, error)
}

var (
	jsonForm  = rowForm{flag: "json", isJSON: true, writer: jsonRows}
	tableForm = rowForm{
		flag: "table", help: "a table (the default on a terminal)", kept: true,
		writer: tableRows,
	}
	lineForm = rowForm{flag: "nl", help: "one JSON object a line", isJSON: true, writer: lineRows}
	csvForm  = rowForm{flag: "csv", help: "CSV with a header (the default elsewhere)", writer: csvRows}
	rowForms = []rowForm{jsonForm, tableForm, lineForm, csvForm}
)

// formFlags adds the flags of the forms to a command. The returned function reports which form was
// chosen.
func (a *app) formFlags(c *cobra.Command) func() (rowForm, error) {
	for _, form := range rowForms {
		if form.help != "" {
			c.Flags().Bool(form.flag, false, form.help)
		}
	}
	return func() (rowForm, error) {
		chosen := slices.DeleteFunc(slices.Clone(rowForms), func(form rowForm) bool {
			return c.Flags().Lookup(form.flag).Value.String() != "true"
		})
		switch {
		case len(chosen) > 1:
			return rowForm{}, usage("choose one of --%s", strings.Join(each(rowForms,
				func(f rowForm) string { return f.flag }), ", --"))
		case len(chosen) == 1:
			return chosen[0], nil
		case a.screen.terminal:
			return tableForm, nil
		}
		return csvForm, nil
	}
}

// jsonRows writes {"columns":[…],"rows":[[…]],"truncated":…} as the rows are read.
func jsonRows(_ *app, columns []string, out io.Writer) (rowWriter, error) {
	names, err := encodeJSON(columns)
	if err == nil {
		_, err = fmt.Fprintf(out, `{"columns":%s,"rows":[`, names)
	}
	comma := "" // before the next row
	return rowWriter{
		row: func(values []any) error {
			line := []byte(comma + "[")
			comma = ","
			for i, v := range values {
				if i > 0 {
					line = append(line, ',')
				}
				line = appendJSON(line, v)
			}
			_, err := out.Write(append(line, ']'))
			return err
		},
		end: func(truncated bool) error {
			_, err := fmt.Fprintf(out, "],\"truncated\":%t}\n", truncated)
			return err
		},
	}, err
}

// lineRows writes one object per line.
func lineRows(_ *app, columns []string, out io.Writer) (rowWriter, error) {
	names := objectKeys(columns)
	return rowWriter{
		row: func(values []any) error {
			line := []byte{'{'}
			for i, v := range values {
				if i > 0 {
					line = append(line, ',')
				}
				line = appendJSON(append(appendJSON(line, names[i]), ':'), v)
			}
			_, err := out.Write(append(line, '}', '\n'))
			return err
		},
		end: func(bool) error { return nil },
	}, nil
}

// objectKeys makes the names of columns unique: a second "id" becomes "id_2".
func objectKeys(columns []string) []string {
	seen := map[string]bool{}
	return each(columns, func(name string) string {
		key := name
		for n := 2; seen[key]; n++ {
			key = name + "_" + strconv.Itoa(n)
		}
		seen[key] = true
		return key
	})
}

// csvRows writes CSV. On a terminal it escapes control characters.
func csvRows(a *app, columns []string, to io.Writer) (rowWriter, error) {
	out := csv.NewWriter(to)
	write := func(cells []string) error {
		if a.screen.terminal {
			cells = each(cells, printable)
		}
		return out.Write(cells)
	}
	return rowWriter{
		row: func(values []any) error { return write(each(values, csvText)) },
		end: func(bool) error {
			out.Flush()
			return out.Error()
		},
	}, write(columns)
}

// cellWidth is the length to which a table on a terminal cuts a cell; the other forms cut nothing.
const cellWidth = 120

// tableRows keeps the rows until all are read.
func tableRows(a *app, columns []string, out io.Writer) (rowWriter, error) {
	g := grid{header: columns, whole: true, texts: []int{}}
	texts := make([]bool, len(columns)) // columns that hold anything but numbers
	return rowWriter{
		row: func(values []any) error {
			cells := make([]string, len(values))
			for i, v := range values {
				switch v := v.(type) {
				case nil:
					cells[i] = "NULL"
				case []byte:
					cells[i], texts[i] = "x'"+hex.EncodeToString(v)+"'", true
				case int64, float64, bool:
					cells[i] = plain(v)
				default:
					cells[i], texts[i] = plain(v), true
				}
				if a.screen.terminal {
					cells[i] = cut(cells[i], cellWidth)
				}
			}
			g.add(cells...)
			return nil
		},
		end: func(bool) error {
			for i, text := range texts {
				if text {
					g.texts = append(g.texts, i)
				} else if len(g.rows) > 0 {
					g.right = append(g.right, i)
				}
			}
			text := ""
			if s := a.screen; s.terminal && s.width > 0 && g.tooWide(s.width) {
				text = g.records(s.width, s.colours)
			} else {
				text = a.drawn(&g)
			}
			_, err := io.WriteString(out, text)
			return err
		},
	}, nil
}

// appendJSON appends a value of SQLite as JSON: an INTEGER with all its digits, a REAL with a point
// or an exponent (one for which JSON has no number as {"$real":"Infinity"}, or "NaN" from a server), a
// BLOB as {"$blob":"base64"}.
func appendJSON(line []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(line, "null"...)
	case int64:
		return strconv.AppendInt(line, v, 10)
	case float64:
		if math.IsInf(v, 0) {
			return fmt.Appendf(line, `{"$real":"%s"}`, map[bool]string{true: "Infinity", false: "-Infinity"}[v > 0])
		}
		if math.IsNaN(v) {
			return append(line, `{"$real":"NaN"}`...)
		}
		return append(line, realNumber(v)...)
	case []byte:
		line = append(line, `{"$blob":"`...)
		line = base64.StdEncoding.AppendEncode(line, v)
		return append(line, `"}`...)
	}
	text, _ := encodeJSON(plain(value)) // a string always has a JSON form
	return append(line, text...)
}

func csvText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	}
	return plain(value)
}

// plain returns a number or text without quotes. The driver returns a time for a column that is
// declared as one; goose's table has one.
func plain(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case float64:
		return realNumber(v)
	case time.Time:
		return v.UTC().Format(time.DateTime)
	}
	return fmt.Sprint(value)
}

func realNumber(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "9e999"
	case math.IsInf(f, -1):
		return "-9e999"
	case math.IsNaN(f):
		return "NaN"
	}
	text := strconv.FormatFloat(f, 'g', -1, 64)
	if strings.ContainsAny(text, ".e") {
		return text
	}
	return text + ".0"
}
