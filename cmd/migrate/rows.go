package main

import (
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
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
type rowWriter interface {
	row(values []any) error
	end(truncated bool) error
}

// A rowForm is a form in which query writes rows. A form is an entry here, and its writer below;
// --json, which all commands have, is the first.
type rowForm struct {
	flag, help string
	isJSON     bool // its texts are JSON
	kept       bool // it is written when the last row is there
	// writer begins an answer; out is thrown away where it fails
	writer func(a *app, columns []string, out io.Writer) (rowWriter, error)
}

var (
	jsonForm  = rowForm{flag: "json", isJSON: true, writer: newJSONRows}
	tableForm = rowForm{
		flag: "table", help: "a table (the default on a terminal)", kept: true, writer: newTableRows,
	}
	lineForm = rowForm{flag: "nl", help: "one JSON object a line", isJSON: true, writer: newLineRows}
	csvForm  = rowForm{flag: "csv", help: "CSV with a header (the default elsewhere)", writer: newCSVRows}
	rowForms = []rowForm{jsonForm, tableForm, lineForm, csvForm}
)

// formFlags adds the flags of the forms to a command and gives what tells which one was chosen.
func (a *app) formFlags(c *cobra.Command) func() (rowForm, error) {
	chosen := make([]*bool, len(rowForms))
	names := make([]string, len(rowForms))
	for i, form := range rowForms {
		names[i] = "--" + form.flag
		if chosen[i] = &a.json; form.help != "" {
			chosen[i] = c.Flags().Bool(form.flag, false, form.help)
		}
	}
	return func() (rowForm, error) {
		var given []rowForm
		for i, form := range rowForms {
			if *chosen[i] {
				given = append(given, form)
			}
		}
		switch {
		case len(given) > 1:
			return rowForm{}, usage("choose one of %s", strings.Join(names, ", "))
		case len(given) == 1:
			return given[0], nil
		case a.screen.terminal:
			return tableForm, nil
		}
		return csvForm, nil
	}
}

// jsonRows writes {"columns":[…],"rows":[[…]],"truncated":…} as the rows come.
type jsonRows struct {
	out   io.Writer
	comma string // before the next row
}

func newJSONRows(_ *app, columns []string, out io.Writer) (rowWriter, error) {
	names, err := encodeJSON(columns)
	if err == nil {
		_, err = fmt.Fprintf(out, `{"columns":%s,"rows":[`, strings.TrimSuffix(string(names), "\n"))
	}
	return &jsonRows{out: out}, err
}

func (w *jsonRows) row(values []any) error {
	line := []byte(w.comma + "[")
	w.comma = ","
	for i, v := range values {
		if i > 0 {
			line = append(line, ',')
		}
		line = appendJSON(line, v)
	}
	_, err := w.out.Write(append(line, ']'))
	return err
}

func (w *jsonRows) end(truncated bool) error {
	_, err := fmt.Fprintf(w.out, "],\"truncated\":%t}\n", truncated)
	return err
}

// lineRows writes an object a line.
type lineRows struct {
	out   io.Writer
	names []string
}

func newLineRows(_ *app, columns []string, out io.Writer) (rowWriter, error) {
	return &lineRows{out: out, names: objectKeys(columns)}, nil
}

func (w *lineRows) row(values []any) error {
	line := []byte{'{'}
	for i, v := range values {
		if i > 0 {
			line = append(line, ',')
		}
		line = appendJSON(line, w.names[i])
		line = append(line, ':')
		line = appendJSON(line, v)
	}
	_, err := w.out.Write(append(line, '}', '\n'))
	return err
}

func (w *lineRows) end(bool) error { return nil }

// objectKeys makes the names of columns differ: a second "id" becomes "id_2".
func objectKeys(columns []string) []string {
	seen := map[string]bool{}
	keys := make([]string, len(columns))
	for i, name := range columns {
		key := name
		for n := 2; seen[key]; n++ {
			key = name + "_" + strconv.Itoa(n)
		}
		seen[key], keys[i] = true, key
	}
	return keys
}

type csvRows struct {
	out     *csv.Writer
	escaped bool // for a terminal, which controls must not reach
}

func newCSVRows(a *app, columns []string, out io.Writer) (rowWriter, error) {
	w := &csvRows{out: csv.NewWriter(out), escaped: a.screen.terminal}
	return w, w.write(columns)
}

func (w *csvRows) write(cells []string) error {
	shown := slices.Clone(cells)
	for i, cell := range cells {
		if w.escaped {
			shown[i] = printable(cell)
		}
	}
	return w.out.Write(shown)
}

func (w *csvRows) row(values []any) error {
	cells := make([]string, len(values))
	for i, v := range values {
		cells[i] = csvText(v)
	}
	return w.write(cells)
}

func (w *csvRows) end(bool) error {
	w.out.Flush()
	return w.out.Error()
}

// tableRows keeps the rows until all are there.
type tableRows struct {
	app  *app
	out  io.Writer
	grid grid
	text []bool // columns that hold anything but numbers
}

// cellWidth is the longest text in a cell of a table on a terminal; the other forms cut nothing.
const cellWidth = 120

func newTableRows(a *app, columns []string, out io.Writer) (rowWriter, error) {
	return &tableRows{app: a, out: out, grid: grid{header: columns, whole: true, texts: []int{}}}, nil
}

func (w *tableRows) row(values []any) error {
	if w.text == nil {
		w.text = make([]bool, len(values))
	}
	cells := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case nil:
			cells[i] = "NULL"
		case []byte:
			cells[i], w.text[i] = "x'"+hex.EncodeToString(v)+"'", true
		case int64, float64, bool:
			cells[i] = plain(v)
		default:
			cells[i], w.text[i] = plain(v), true
		}
		if w.app.screen.terminal {
			cells[i] = cut(cells[i], cellWidth)
		}
	}
	w.grid.add(cells...)
	return nil
}

func (w *tableRows) end(bool) error {
	for i, text := range w.text {
		if text {
			w.grid.texts = append(w.grid.texts, i)
		} else {
			w.grid.right = append(w.grid.right, i)
		}
	}
	text := ""
	if s := w.app.screen; s.terminal && s.width > 0 && w.grid.tooWide(s.width) {
		text = w.grid.records(s.width, s.colours)
	} else {
		text = w.app.drawn(&w.grid)
	}
	_, err := io.WriteString(w.out, text)
	return err
}

// appendJSON writes a value of SQLite: an INTEGER with all its digits, a REAL with a point or an
// exponent (an infinite one, for which JSON has no number, as {"$real":"Infinity"}), a BLOB as
// {"$blob":"base64"}.
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
		return append(line, realNumber(v)...)
	case []byte:
		line = append(line, `{"$blob":"`...)
		line = base64.StdEncoding.AppendEncode(line, v)
		return append(line, `"}`...)
	}
	text, err := encodeJSON(plain(value))
	if err != nil { // a string always has a JSON form
		text, _ = json.Marshal(err.Error())
	}
	return append(line, strings.TrimSuffix(string(text), "\n")...)
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

// plain is a number or text as it stands. A time is what the driver makes of a column that is
// declared as one: goose's.
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
	}
	text := strconv.FormatFloat(f, 'g', -1, 64)
	if strings.ContainsAny(text, ".e") {
		return text
	}
	return text + ".0"
}
