package web

import (
	"embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"selvedge"
	"selvedge/agents"
	"selvedge/db"
	"selvedge/query"
	"selvedge/runs"
)

// A page is what the template "page" shows.
type page struct {
	Title  string
	Name   string // of the template of Body
	Here   string // the page of the menu it belongs to
	Stream string // address of what follows it; "": it does not change
	Body   any
	// Report leaves out the menu, for a page that is sent to somebody.
	Report bool

	Style  template.CSS
	Script template.JS
	Scope  string
}

// A failure is what the page "error" shows.
type failure struct{ Message, Hint string }

//go:embed page.css page.js *.html
var files embed.FS

func file(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return string(text)
}

var (
	style  = sync.OnceValue(func() template.CSS { return template.CSS(file("page.css")) })
	script = sync.OnceValue(func() template.JS { return template.JS(file("page.js")) })
)

var parsed struct {
	once sync.Once
	t    *template.Template
}

// templates returns the templates. They are parsed at the first page: most commands show none.
func templates() *template.Template {
	parsed.once.Do(func() {
		parsed.t = template.Must(template.New("").Funcs(template.FuncMap{
			"clean": clean, "line": firstLine, "text": plain, "when": when, "ago": ago, "took": took,
			"dollars": dollars, "count": count, "tokens": tokens, "body": body, "join": link, "bytes": humanize.IBytes,
			"menu": func() []menuItem { return menu }, "settle": settleLine,
			"form":     func(secret string, s *selvedge.Step) form { return form{secret, s} },
			"step":     func(s selvedge.Step) *selvedge.Step { return &s },
			"milli":    func(ms uint64) time.Time { return time.UnixMilli(int64(min(ms, 1<<53))) },
			"unsigned": func(n int64) uint64 { return uint64(max(n, 0)) },
			"ref":      func(t time.Time) *time.Time { return &t },
			"folds":    func(s string) bool { return firstLine(s) != strings.TrimSpace(s) },
			"alive": func(e agents.Entry) agents.Liveness {
				if e.Status != agents.Active {
					return ""
				}
				return agents.LivenessFor(e)
			},
			"show": render, "snippet": snippet,
			"achieved": func(r query.Run) bool {
				return r.Outcome == runs.OutcomeSuccess ||
					r.Outcome == runs.OutcomePartialSuccess || r.Outcome == runs.OutcomeDone
			},
			"stores": func() []string { return []string{"runs", "live", "checkpoints", "workers"} },
		}).ParseFS(files, "*.html"))
	})
	return parsed.t
}

type menuItem struct{ Name, Title string }

var menu = []menuItem{
	{"runs", "Runs"},
	{"live", "Live runs"},
	{"search", "Search"},
	{"cost", "Cost"},
	{"agents", "Agents"},
	{"workers", "Workers"},
	{"quarantine", "Quarantine"},
	{"health", "Health"},
}

// A form is what the template "answer" shows.
type form struct {
	Secret string
	Step   *selvedge.Step
}

// settleLine is the command that settles a step.
func settleLine(s *selvedge.Step) string {
	if s.Kind == selvedge.StepEffect {
		return "migrate effects settle " + firstLine(s.RunID) + " " + firstLine(s.Key) + " done|retry|give_up"
	}
	return "migrate answer " + firstLine(s.RunID) + " " + firstLine(s.Key) + " approved"
}

// render runs a template whose name is known only when the page is shown.
func render(name string, data any) (template.HTML, error) {
	var text strings.Builder
	err := templates().ExecuteTemplate(&text, name, data)
	return template.HTML(text.String()), err //nolint:gosec // a template has escaped it
}

// clean makes what an agent wrote safe to look at: control characters, and marks that turn the direction of
// the text, are shown as their numbers.
func clean(s string) string {
	odd := func(r rune) bool {
		return r == utf8.RuneError || unicode.IsControl(r) && r != '\n' && r != '\t' ||
			unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
	}
	if strings.IndexFunc(s, odd) < 0 {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		if odd(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

const (
	lineLength = 160     // characters of a folded text
	bodyLength = 1 << 16 // bytes of a text that is unfolded
)

// firstLine shortens a text to a line.
func firstLine(s string) string {
	line := clean(strings.Join(strings.Fields(strings.ToValidUTF8(s[:min(len(s), 8*lineLength)],
		"\uFFFD")), " "))
	if runes := []rune(line); len(runes) > lineLength {
		return string(runes[:lineLength]) + "…"
	} else if len(s) > 8*lineLength {
		return line + "…"
	}
	return line
}

// body shortens a text to what a page can hold.
func body(s string) string {
	if len(s) <= bodyLength {
		return clean(s)
	}
	return clean(strings.ToValidUTF8(s[:bodyLength], "")) +
		fmt.Sprintf("\n… %s of %s are shown; JSON has all", humanize.IBytes(bodyLength),
			humanize.IBytes(uint64(len(s))))
}

func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05") + " UTC"
}

// ago returns how long ago a time was.
func ago(t time.Time) string {
	switch passed := time.Since(t); {
	case t.IsZero():
		return ""
	case passed < time.Minute:
		return "just now"
	default:
		return roughly(passed) + " ago"
	}
}

// roughly formats a duration in its largest unit.
func roughly(d time.Duration) string {
	switch {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%d d", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%d m", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// took formats how long something took; end may be nil, for until now.
func took(start time.Time, end *time.Time) string {
	if end == nil {
		end = new(time.Now())
	}
	d := end.Sub(start)
	switch {
	case start.IsZero() || end.IsZero() || d <= 0:
		return ""
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d m %d s", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d h %d m", d/time.Hour, d%time.Hour/time.Minute)
}

func dollars(n *float64) string {
	switch {
	case n == nil:
		return "unknown"
	case *n != 0 && *n < 0.01:
		return "$" + strconv.FormatFloat(*n, 'f', 4, 64)
	}
	return "$" + strconv.FormatFloat(*n, 'f', 2, 64)
}

func count(n *uint64) string {
	if n == nil {
		return ""
	}
	return humanize.Comma(int64(min(*n, 1<<63-1)))
}

// tokens describes a usage in a line.
func tokens(u db.Usage) string {
	var parts []string
	for _, part := range []struct {
		n    *uint64
		name string
	}{{u.InputTokens, "in"}, {u.CacheReadInputTokens, "cached"}, {u.OutputTokens, "out"}} {
		if part.n != nil {
			parts = append(parts, count(part.n)+" "+part.name)
		}
	}
	if u.CostUSD != nil {
		parts = append(parts, dollars(u.CostUSD))
	}
	return strings.Join(parts, ", ")
}

// link makes the address of a page of its name and pairs of parameters; empty ones are left out.
func link(name string, pairs ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" || pairs[i] == "agent" || pairs[i] == "id" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	return withQuery(name, values)
}

// A turning leads to the next and the previous page of a list. The filter is in both addresses.
type turning struct{ Previous, First, Next string }

// maxBack is how many previous pages an address remembers.
const maxBack = 30

// turn returns the links of a list whose next page is behind a cursor.
func turn(r *http.Request, next string) (t turning) {
	name, values := relativeName(r), r.URL.Query()
	after, back := values.Get("after"), values["back"]
	to := func(after string, back []string) string {
		with := maps.Clone(values)
		with.Del("after")
		with.Del("back")
		if after != "" {
			with.Set("after", after)
		}
		if len(back) > 0 {
			with["back"] = back
		}
		return withQuery(name, with)
	}
	if next != "" {
		before := back
		if after != "" {
			before = append(slices.Clone(back), after)
		}
		t.Next = to(next, before[max(0, len(before)-maxBack):])
	}
	if after != "" {
		t.First = to("", nil)
		t.Previous = t.First
		if len(back) > 0 {
			t.Previous = to(back[len(back)-1], back[:len(back)-1])
		}
	}
	return t
}

func withQuery(name string, values url.Values) string {
	if len(values) == 0 {
		return name
	}
	return name + "?" + values.Encode()
}

// relativeName is the name of a page, for an address in a page beside it.
func relativeName(r *http.Request) string {
	if name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]; name != "" {
		return url.PathEscape(name)
	}
	return "./"
}

// at reads the place of a list from an address.
func at(r *http.Request) db.At { return db.At{After: r.FormValue("after"), Limit: 50} }
