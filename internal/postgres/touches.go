package postgres

import (
	"database/sql/driver"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"selvedge/internal/engine"
)

// A connection derives from the text of its statements which rows of followed tables they touch:
// the key is an argument, or the first column that is returned. If it is neither, anything may be
// touched. What this misses, in a user's own statement, is found by the poll once a second.

// A touching says where a statement has the key of a row that it touches.
type touching struct {
	stream engine.Stream
	arg    int // from 1; 0: it is returned, or unknown
	shift  uint8
}

// touchWords are expressions that find the parts of a statement.
var touchWords = sync.OnceValue(func() (w struct {
	changesTable, inserted, keyIs, keyReturned *regexp.Regexp
},
) {
	w.changesTable = regexp.MustCompile(`(?i)\b(INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+(\w+)`)
	w.inserted = regexp.MustCompile(`(?is)^[^(]*\(([^()]*)\)\s*VALUES\s*\(([^()]*)\)`)
	w.keyIs = regexp.MustCompile(`(?i)(?:^|[\s(.])(key|id|run)\s*=\s*\$(\d+)`)
	w.keyReturned = regexp.MustCompile(`(?i)\bRETURNING\s+(key|id)\b`)
	return w
})

// keyColumn is the column of a stream's keys.
func keyColumn(table string) string {
	switch stream, shift, byColumn := engine.StreamOf(table); {
	case byColumn:
		return "run"
	case shift == 0 && (stream == engine.Runs || stream == engine.LiveRuns || stream == engine.WorkerRuntimes):
		return "key"
	}
	return "id"
}

// touchings reads a statement, as rebind writes it.
func touchings(text string) (list []touching, returns bool) {
	words := touchWords()
	for _, at := range words.changesTable.FindAllStringSubmatchIndex(text, -1) {
		table, rest := text[at[4]:at[5]], text[at[5]:]
		stream, shift, _ := engine.StreamOf(table)
		if stream == engine.NoStream || shift > 0 && text[at[2]] != 'I' && text[at[2]] != 'i' {
			continue // followers are not told of removed records
		}
		one := touching{stream: stream}
		if in := words.inserted.FindStringSubmatch(rest); in != nil {
			columns := strings.FieldsFunc(in[1], func(c rune) bool { return strings.ContainsRune(", \t\n", c) })
			values := strings.Split(in[2], ",")
			if n := slices.Index(columns, keyColumn(table)); n >= 0 && len(values) == len(columns) {
				number, _ := strings.CutPrefix(strings.TrimSpace(values[n]), "$")
				one.arg, _ = strconv.Atoi(number)
				one.shift = shift
			}
		} else if is := words.keyIs.FindStringSubmatch(rest); is != nil &&
			(is[1] == keyColumn(table) || shift > 0) {
			one.arg, _ = strconv.Atoi(is[2])
		}
		returns = returns || one.arg == 0 && words.keyReturned.MatchString(rest)
		list = append(list, one)
	}
	return list, returns && len(list) == 1
}

// touch notes what a statement touches by its arguments.
func (w *wire) touch(p *prepared, args []driver.Value) {
	for _, t := range p.touches {
		switch {
		case p.touchReturns:
		case t.arg < 1 || t.arg > len(args):
			w.touched.All = true
		default:
			key, is := args[t.arg-1].(int64)
			if !is {
				w.touched.All = true
			}
			w.touched.Add(engine.Touch{Stream: t.stream, Key: key >> t.shift})
		}
	}
}

// touchRow notes what a statement touches by a row that it returns.
func (w *wire) touchRow(p *prepared, row [][]byte) {
	if p == nil || !p.touchReturns {
		return
	}
	value, err := decode(row[0], p.Fields[0])
	key, is := value.(int64)
	if err != nil || !is {
		w.touched.All = true
		return
	}
	w.touched.Add(engine.Touch{Stream: p.touches[0].stream, Key: key})
}

// A notification tells other processes what commits touched: its version, who sends it, and the rows,
// each as its stream and its key, and a star if others may be touched.
const (
	notifiedAs   = "1"
	mostNotified = 7900 // bytes; the server takes 8000
	radix        = 36
)

func notification(sender string, t engine.Touched) string {
	var out strings.Builder
	out.WriteString(notifiedAs + " " + sender)
	for _, row := range t.Rows {
		if out.Len() > mostNotified {
			t.All = true
			break
		}
		out.WriteString(" " + strconv.Itoa(int(row.Stream)) + ":" + strconv.FormatInt(row.Key, radix))
	}
	if t.All {
		out.WriteString(" *")
	}
	return out.String()
}

// notified reads a notification. One of another version may be about anything.
func notified(text string) (sender string, t engine.Touched) {
	words := strings.Fields(text)
	if len(words) < 2 || words[0] != notifiedAs {
		return "", engine.Touched{All: true}
	}
	for _, word := range words[2:] {
		stream, key, _ := strings.Cut(word, ":")
		s, err := strconv.ParseUint(stream, 10, 8)
		k, err2 := strconv.ParseInt(key, radix, 64)
		if err != nil || err2 != nil {
			t.All = true
			continue
		}
		t.Add(engine.Touch{Stream: engine.Stream(s), Key: k})
	}
	return words[1], t
}
