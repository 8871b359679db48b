package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"selvedge"
	"selvedge/db"
	"selvedge/query"
	"selvedge/runs"
)

// A Format is what a report is written in.
type Format string

const (
	HTML     Format = "html"     // a page that needs nothing else
	Markdown Format = "markdown" // for people and models
	JSON     Format = "json"     // every record as it was written
)

// ReportOptions configure Report.
type ReportOptions struct {
	// Secrets keeps what looks like a secret: keys and tokens in known forms, and the values of members
	// such as password. It is left out otherwise, and the report says how many were.
	Secrets bool
}

// Report writes a run as one text to keep or to send: its summary, its timeline and the words of its live
// run. It reads the run in pages. db.ErrNotFound: there is no such run.
func Report(ctx context.Context, w io.Writer, q *query.Store, run runs.RunRef, f Format,
	o ReportOptions,
) error {
	detail, err := q.Run(ctx, run)
	if err != nil {
		return err
	}
	hide := &hider{keep: o.Secrets}
	var items []query.Item
	for at := (db.At{Limit: db.MaxLimit}); ; {
		page, err := q.Timeline(ctx, run, at)
		if err != nil {
			return err
		}
		items = append(items, page.Items...)
		if at.After = page.Next; at.After == "" {
			break
		}
	}
	body := reportBody{shown: shown{Detail: detail}, Made: time.Now().UTC()}
	if detail.Live {
		for at := (db.At{Limit: db.MaxLimit}); ; {
			page, err := q.Live(ctx, run.RunID, at)
			if err != nil {
				return err
			}
			body.Live = append(body.Live, page.Items...)
			if at.After = page.Next; at.After == "" {
				break
			}
		}
	}
	if f == JSON {
		return hide.json(w, body, items)
	}
	body.Rows = rowsOf(items)
	body.HasBar = layOut(body.Rows)
	hide.body(&body)
	body.Hidden = hide.count
	if f == Markdown {
		return markdown(w, &body)
	}
	p := &page{Title: cmp.Or(body.Intent, body.RunID), Name: "report", Body: body, Report: true, Style: style()}
	return templates().ExecuteTemplate(w, "page", p)
}

type reportBody struct {
	shown
	Hidden int // secrets that were left out
	Made   time.Time
}

// export sends a run in a format.
func (s *server) export(f Format) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var text strings.Builder
		err := Report(r.Context(), &text, s.query, refOf(r), f,
			ReportOptions{Secrets: r.FormValue("secrets") != ""})
		if err != nil {
			s.write(w, r, nil, err)
			return
		}
		w.Header().Set("Content-Type", map[Format]string{
			HTML: "text/html", Markdown: "text/markdown", JSON: "application/json",
		}[f]+"; charset=utf-8")
		_, _ = io.WriteString(w, text.String()) // the client may be gone
	}
}

// secretNames are the names of members and variables that hold secrets.
const secretNames = `(?:password|passwd|secret|api[_-]?key|access[_-]?key|private[_-]?key|access[_-]?token|` +
	`auth[_-]?token|refresh[_-]?token|authorization|credential)s?`

// quoted is a text in quotes, which are escaped in a JSON text within another.
const quoted = `(?:"(?:[^"\\\n]|\\.)+"|\\"(?:[^"\\\n]|\\[^"\n])+\\"|'[^'\\\n]+')`

// secrets are the forms of secrets that are left out. The first group, where there is one, stays.
var secrets = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		// The value of a member or a variable whose name says what it is, or the list of its values.
		`(?i)(` + secretNames + `\\?["']?\s*(?::=|[:=])\s*(?:bearer\s+|basic\s+)?)` +
			`(?:` + quoted + `|\[\s*(?:` + quoted + `[\s,]*)+\]|` +
			`\\?["']?(?:bearer\s+|basic\s+)?[^\s"'\\,;&}]{4,})` +
			// Keys and tokens of well-known services, by how they begin; JSON web tokens; private keys.
			`|(bearer\s+)[a-z0-9._~+/=-]{16,}` +
			`|\b(?:sk|pk|rk)-[a-z0-9_-]{16,}|\bgh[pousr]_[a-z0-9]{30,}|\bgithub_pat_[a-z0-9_]{30,}` +
			`|\bxox[abprs]-[a-z0-9-]{10,}` +
			`|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[a-z0-9_-]{35}|\beyJ[a-z0-9_-]{8,}\.[a-z0-9_-]{8,}\.[a-z0-9_-]*` +
			`|-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?` +
			`|(://[^/\s:@"']+:)[^/\s@"']+@`)
})

const hidden = "[left out]"

var (
	secretMember = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)` + secretNames + `"$`)
	})
	jsonScalar = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*`)
	})
)

// A hider leaves out secrets, and counts them.
type hider struct {
	keep  bool
	count int
}

func (h *hider) text(s *string) {
	if h.keep || s == nil || *s == "" {
		return
	}
	*s = secrets().ReplaceAllStringFunc(*s, func(found string) string {
		h.count++
		groups := secrets().FindStringSubmatch(found)
		if groups == nil {
			return hidden
		}
		if strings.HasSuffix(found, "@") && groups[3] != "" {
			return groups[3] + hidden + "@"
		}
		return cmp.Or(groups[1], groups[2]) + hidden
	})
}

// values leaves out the secrets of a JSON text, which stays one.
func (h *hider) values(text string) string {
	if h.keep {
		return text
	}
	var out strings.Builder
	done, isSecret, listed := 0, false, false
	for _, at := range jsonScalar().FindAllStringIndex(text, -1) {
		value, between := text[at[0]:at[1]], text[done:at[0]]
		out.WriteString(between)
		done = at[1]
		isSecret = isSecret && !(listed && strings.Contains(between, "]"))
		listed = isSecret && (listed || strings.Contains(between, "["))
		switch {
		case strings.HasPrefix(strings.TrimLeft(text[done:min(len(text), done+8)], " \n"), ":"):
			isSecret, listed = secretMember().MatchString(value), false
		case isSecret && value != `""`:
			value, isSecret = `"`+hidden+`"`, listed
			h.count++
		case value[0] == '"':
			inner := value[1 : len(value)-1]
			h.text(&inner)
			value = `"` + inner + `"`
		}
		out.WriteString(value)
	}
	return out.String() + text[done:]
}

func (h *hider) body(b *reportBody) {
	h.text(&b.Intent)
	h.text(&b.Why)
	for i := range b.Rows {
		r := &b.Rows[i]
		h.text(&r.Text)
		h.text(&r.State)
		for n := range r.Parts {
			h.text(&r.Parts[n].Text)
		}
	}
	for i := range b.Live {
		h.text(&b.Live[i].Text)
	}
	for i := range b.Children {
		h.text(&b.Children[i].Intent)
		h.text(&b.Children[i].Why)
	}
}

// A JSONReport is a report in the format JSON.
type JSONReport struct {
	Run      query.Run    `json:"run"`      // as in tonight
	Own      query.Spent  `json:"own"`      // what it used
	Tree     query.Spent  `json:"tree"`     // what it and the runs below it used
	Children []query.Run  `json:"children"` // runs that it started
	Trace    []JSONRecord `json:"trace"`    // its records, and steps that no record follows
	// the events of its live run, as they were recorded
	Live    []json.RawMessage `json:"live"`
	MadeAt  time.Time         `json:"made_at"`  // RFC 3339, UTC
	LeftOut int               `json:"left_out"` // texts that look like secrets
}

// A JSONRecord is a record of a trace.
type JSONRecord struct {
	Record     json.RawMessage `json:"record"`      // as it was written; null: only steps
	RecordedAt *time.Time      `json:"recorded_at"` // RFC 3339, UTC; null: imported
	Steps      []selvedge.Step `json:"steps"`       // that led to the turn, as in effects list
}

func (h *hider) json(w io.Writer, b reportBody, items []query.Item) error {
	report := JSONReport{
		Run: b.Run, Own: query.SpentOf(b.Cost.Own), Tree: query.SpentOf(b.Cost.Tree),
		Children: append([]query.Run{}, b.Children...), Trace: []JSONRecord{},
		Live: []json.RawMessage{}, MadeAt: b.Made,
	}
	for _, item := range items {
		r := JSONRecord{Record: json.RawMessage("null"), Steps: append([]selvedge.Step{}, item.Steps...)}
		if item.Record != nil {
			line, err := item.Record.MarshalJSON()
			if err != nil {
				return err
			}
			r.Record = line
		}
		if !item.At.IsZero() {
			r.RecordedAt = &item.At
		}
		report.Trace = append(report.Trace, r)
	}
	for _, e := range b.Live {
		report.Live = append(report.Live, e.JSON)
	}
	const mark = `"left_out": 0`
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	out := h.values(string(text))
	if at := strings.LastIndex(out, mark); h.count > 0 {
		out = out[:at] + fmt.Sprintf(`"left_out": %d`, h.count) + out[at+len(mark):]
	}
	_, err = io.WriteString(w, out+"\n")
	return err
}

// markdown writes a report for a reader of plain text, or for a model.
func markdown(w io.Writer, b *reportBody) error {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	line("# %s\n", firstLine(cmp.Or(b.Intent, b.RunID)))
	line("- run: %s, agent: %s", clean(b.RunID), clean(b.AgentID))
	line("- status: %s", strings.TrimSpace(string(b.Status)+" "+string(b.Outcome)))
	line("- started: %s; took %s", when(b.StartedAt), took(b.StartedAt, b.EndedAt))
	line("- used: %s", cmp.Or(tokens(b.Cost.Own), "unknown"))
	if b.Cost.Runs > 1 {
		line("- used with the runs below it: %s", cmp.Or(tokens(b.Cost.Tree), "unknown"))
	}
	if b.Why != "" {
		line("- why: %s", firstLine(b.Why))
	}
	if b.Hidden > 0 {
		line("- left out: %d texts that look like secrets", b.Hidden)
	}
	for _, r := range b.Rows {
		line("\n## %s %s\n", r.Kind, clean(r.Label))
		if said := strings.TrimSpace(r.State + " " + took(r.From, &r.To)); said != "" {
			line("%s\n", clean(said))
		}
		if r.Text != "" {
			fenced(&out, r.Text)
		}
		for _, p := range r.Parts {
			if p.Text != r.Text {
				line("\n%s:\n", p.Name)
				fenced(&out, p.Text)
			}
		}
	}
	if len(b.Live) > 0 {
		line("\n## Live\n")
	}
	for _, e := range b.Live {
		if e.Text != "" && !e.Dropped {
			line("\n%s:\n", strings.TrimSpace(e.Type+" "+e.Tool))
			fenced(&out, e.Text)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// fenced writes a text between fences that are longer than those in it.
func fenced(out *strings.Builder, text string) {
	text = body(text)
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	fmt.Fprintf(out, "%s\n%s\n%s\n", fence, strings.TrimRight(text, "\n"), fence)
}
