package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"selvedge"
	"selvedge/db"
	"selvedge/query"
	"selvedge/runs"
	"selvedge/test/dbtest"
	"selvedge/test/night"
	"selvedge/web"
)

func TestMain(m *testing.M) { dbtest.Main(m, nil) }

const token = "the token of the tests"

// A client sends requests to the pages of one night, with the token unless it is changed.
type client struct {
	*httptest.Server
	t      testing.TB
	db     *db.DB
	cookie *http.Cookie
}

func serve(t testing.TB, o web.Options) *client {
	t.Helper()
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	held, err := night.Few(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Leave() })
	o.Token = token
	s := httptest.NewServer(web.Handler(d, o))
	t.Cleanup(s.Close)
	s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := s.Client().Get(s.URL + "/?token=" + url.QueryEscape(token))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if len(answer.Cookies()) != 1 {
		t.Fatalf("the cookies are %v", answer.Cookies())
	}
	return &client{s, t, d, answer.Cookies()[0]}
}

// send sends a request that change may change, and returns the answer with its body.
func (c *client) send(method, path, form string, change func(*http.Request)) (*http.Response, string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, c.URL+path, strings.NewReader(form))
	if err != nil {
		c.t.Fatal(err)
	}
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.AddCookie(c.cookie)
	if change != nil {
		change(r)
	}
	answer, err := c.Client().Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer, string(body)
}

// get returns a page once it waits for nothing.
func (c *client) get(path string) string {
	c.t.Helper()
	for range 100 {
		answer, body := c.send(http.MethodGet, path, "", nil)
		if answer.StatusCode != http.StatusOK {
			c.t.Fatalf("%s: %s: %s", path, answer.Status, body)
		}
		if !strings.Contains(body, `soon">`) {
			return body
		}
	}
	c.t.Fatalf("%s: it waits for ever", path)
	return ""
}

const done = "/run?agent=deployer&id=nightly-done"

func TestPages_ShowTheNight(t *testing.T) {
	c := serve(t, web.Options{})
	for path, wants := range map[string][]string{
		"/": {
			"Deploy on a Friday?", "9007199254740993", "two tests are red", "stalled", "$0.75",
			"migrate answer nightly-waits gate approved",
		},
		"/?by=agent":                     {"newest first"},
		"/runs":                          {"nightly-done", "6 shown"},
		"/runs?words=two+tests":          {"nightly-child", "1 shown", `value="two tests"`},
		"/runs?failed=1&since=yesterday": {"two tests are red", "checked"},
		"/runs?stalled=1":                {"nightly-stalls", "1 shown"},
		"/runs?status=waiting":           {"nightly-waits", "2 shown"},
		done: {
			"reply-0", "post-1", "I post it.", "success",
			"nightly-child", "$0.75", "agent_end",
		},
		"/run?agent=tester&id=nightly-child":     {"started by", "two tests are red"},
		"/live":                                  {"nightly-done"},
		"/liverun?id=nightly-done":               {"agent_start"},
		"/cost":                                  {"deployer", "large", "<rect"},
		"/agents":                                {"0 shown"},
		"/workers":                               {"0 shown"},
		"/quarantine":                            {"0 shown"},
		"/health":                                {"schema"},
		"/run.md?agent=deployer&id=nightly-done": {"# deploy the build", "## turn turn 0 http"},
		"/run.html?agent=deployer&id=nightly-done":  {"Nothing was left out", "I post it."},
		"/run?agent=deployer&id=nightly-unknown":    {"nobody knows whether it happened", "effects settle"},
		"/run.json?agent=deployer&id=nightly-waits": {`"prompt": "Deploy on a Friday?"`},
	} {
		body := c.get(path)
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s does not show %q:\n%s", path, want, body[strings.Index(body, "<body")+1:])
			}
		}
	}
	for path, want := range map[string]int{
		"/run?agent=deployer&id=none": http.StatusNotFound, "/runs?after=nonsense": http.StatusBadRequest,
		"/runs?since=someday": http.StatusBadRequest, "/runs?status=odd": http.StatusBadRequest,
		"/runs?cost=much": http.StatusBadRequest, "/none": http.StatusNotFound, "/answer": http.StatusNotFound,
	} {
		if answer, body := c.send(http.MethodGet, path, "", nil); answer.StatusCode != want {
			t.Errorf("%s: %s: %s", path, answer.Status, body)
		}
	}
}

func TestSearch_MarksWhatWasFound(t *testing.T) {
	c := serve(t, web.Options{})
	for path, wants := range map[string][]string{
		"/search": {"All words must be there"},
		"/search?words=two+red": {
			"<mark>two</mark> tests are <mark>red</mark>", "nightly-child",
		},
		"/search?words=Fri*&store=live": {"<mark>Friday</mark>", "1 shown"},
	} {
		for _, want := range wants {
			if body := c.get(path); !strings.Contains(body, want) {
				t.Errorf("%s does not show %q:\n%s", path, want, body)
			}
		}
	}
	if answer, body := c.send(http.MethodGet, "/search?words=%22", "", nil); answer.StatusCode !=
		http.StatusBadRequest {
		t.Errorf("no word: %s: %s", answer.Status, body)
	}
}

func TestLists_TurnPagesWithTheirFilter(t *testing.T) {
	c := serve(t, web.Options{})
	if err := night.Many(t.Context(), c.db, 160, 1); err != nil {
		t.Fatal(err)
	}
	next := regexp.MustCompile(`<a rel="next" href="([^"]+)"`)
	previous := regexp.MustCompile(`<a rel="prev" href="([^"]+)"`)
	path := func(m []string) string { return "/" + strings.ReplaceAll(m[1], "&amp;", "&") }
	first := c.get("/runs?words=shop")
	second := c.get(path(next.FindStringSubmatch(first)))
	third := c.get(path(next.FindStringSubmatch(second)))
	if !strings.Contains(third, `value="shop"`) {
		t.Error("the third page has lost the filter")
	}
	row := regexp.MustCompile(`title="([^"]+)"><bdi>`)
	back := c.get(path(previous.FindStringSubmatch(third)))
	if got, want := row.FindStringSubmatch(back), row.FindStringSubmatch(second); got[1] != want[1] {
		t.Errorf("back from the third page: %q, not %q", got[1], want[1])
	}
	if first := row.FindStringSubmatch(first); row.FindStringSubmatch(second)[1] == first[1] {
		t.Error("the second page is the first")
	}
}

func TestGuard_RefusesStrangers(t *testing.T) {
	c := serve(t, web.Options{Hosts: []string{"example.org"}})
	bare := func(r *http.Request) { r.Header.Del("Cookie") }
	for _, path := range []string{"/", done, "/stream", "/run.json?agent=deployer&id=nightly-done", "/none"} {
		for name, change := range map[string]func(*http.Request){
			"no token": bare,
			"other token": func(r *http.Request) {
				bare(r)
				r.AddCookie(&http.Cookie{Name: c.cookie.Name, Value: "x"})
			},
			"wrong token in the address": func(r *http.Request) {
				bare(r)
				r.URL.RawQuery = "token=wrong"
			},
		} {
			if answer, body := c.send(http.MethodGet, path, "",
				change); answer.StatusCode != http.StatusUnauthorized ||
				strings.Contains(body, "nightly") {
				t.Errorf("%s, %s: %s", path, name, answer.Status)
			}
		}
		for _, host := range []string{
			"evil.example", "localhost.evil.example", "10.0.0.1",
			"127.0.0.1.evil.example:80",
		} {
			answer, _ := c.send(http.MethodGet, path, "", func(r *http.Request) { r.Host = host })
			if answer.StatusCode != http.StatusForbidden {
				t.Errorf("%s for %q: %s", path, host, answer.Status)
			}
		}
	}
	for _, host := range []string{
		"localhost", "localhost:1", "[::1]:8", "127.9.9.9", "example.org",
		"EXAMPLE.org:443",
	} {
		if answer, _ := c.send(http.MethodGet, "/", "",
			func(r *http.Request) { r.Host = host }); answer.StatusCode != http.StatusOK {
			t.Errorf("%q: %s", host, answer.Status)
		}
	}
}

func TestGuard_TokenBecomesACookie(t *testing.T) {
	c := serve(t, web.Options{})
	answer, _ := c.send(http.MethodGet, done+"&token="+url.QueryEscape(token), "",
		func(r *http.Request) { r.Header.Del("Cookie") })
	cookie := answer.Header.Get("Set-Cookie")
	if answer.StatusCode != http.StatusSeeOther ||
		answer.Header.Get("Location") != "run?agent=deployer&id=nightly-done" {
		t.Errorf("%s to %q", answer.Status, answer.Header.Get("Location"))
	}
	for _, want := range []string{"HttpOnly", "SameSite=Strict"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie %q is not %s", cookie, want)
		}
	}
	for _, path := range []string{"/", done, "/none", "/run.json?agent=deployer&id=nightly-done"} {
		answer, body := c.send(http.MethodGet, path, "", nil)
		policy := answer.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") ||
			strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
		if answer.Header.Get("Access-Control-Allow-Origin") != "" || strings.Contains(body, token) {
			t.Errorf("%s may be read from elsewhere, or has the token", path)
		}
	}
}

func TestAnswer_TakesOnlyFormsOfItsPages(t *testing.T) {
	c := serve(t, web.Options{Answer: true})
	secret := regexp.MustCompile(`name="secret" value="([^"]+)"`).FindStringSubmatch(c.get("/"))[1]
	form := url.Values{
		"secret": {secret}, "agent": {"deployer"}, "id": {"nightly-waits"}, "key": {"gate"},
		"decision": {"approved"}, "by": {"ada"},
	}
	from := func(origin, site string) func(*http.Request) {
		return func(r *http.Request) {
			if origin != "" {
				r.Header.Set("Origin", origin)
			}
			if site != "" {
				r.Header.Set("Sec-Fetch-Site", site)
			}
		}
	}
	other := url.Values{
		"secret": {"guessed"}, "agent": form["agent"], "id": form["id"],
		"key": form["key"], "decision": {"no"},
	}
	for name, bad := range map[string]struct {
		form   url.Values
		change func(*http.Request)
	}{
		"another origin":      {form, from("http://evil.example", "")},
		"another site":        {form, from(c.URL, "cross-site")},
		"a sibling's port":    {form, from("http://127.0.0.1:1", "")},
		"no origin":           {form, nil},
		"null":                {form, from("null", "")},
		"a secret of its own": {other, from(c.URL, "same-origin")},
	} {
		if answer, _ := c.send(http.MethodPost, "/answer", bad.form.Encode(),
			bad.change); answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", name, answer.Status)
		}
	}
	huge := form.Encode() + "&fields=" + strings.Repeat("x", 2<<20)
	if answer, _ := c.send(http.MethodPost, "/answer", huge, from(c.URL,
		"")); answer.StatusCode != http.StatusBadRequest {
		t.Errorf("2 MB: %s", answer.Status)
	}
	for range 2 { // the same answer twice is one
		answer, body := c.send(http.MethodPost, "/answer", form.Encode(), from(c.URL, "same-origin"))
		if answer.StatusCode != http.StatusSeeOther {
			t.Fatalf("%s: %s", answer.Status, body)
		}
	}
	form.Set("decision", "rejected")
	if answer, _ := c.send(http.MethodPost, "/answer", form.Encode(), from(c.URL,
		"")); answer.StatusCode != http.StatusConflict {
		t.Errorf("another answer: %s", answer.Status)
	}
	if !strings.Contains(c.get("/run?agent=deployer&id=nightly-waits"), "done: approved, by ada") {
		t.Error("the answer is not shown")
	}
}

func TestAnswer_NeedsTheOption(t *testing.T) {
	c := serve(t, web.Options{})
	if answer, _ := c.send(http.MethodPost, "/answer", "secret=x",
		nil); answer.StatusCode != http.StatusMethodNotAllowed &&
		answer.StatusCode != http.StatusNotFound {
		t.Errorf("%s", answer.Status)
	}
	if strings.Contains(c.get("/"), "<form method=\"post\"") {
		t.Error("the page has a form")
	}
}

// next reads the cursor of the next message of a stream.
func next(t *testing.T, in *bufio.Scanner) string {
	t.Helper()
	for in.Scan() {
		if cursor, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			return cursor
		}
	}
	t.Fatal(in.Err())
	return ""
}

func (c *client) listen(path, last string) *bufio.Scanner {
	c.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	c.t.Cleanup(stop)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	r.AddCookie(c.cookie)
	r.Header.Set("Last-Event-ID", last)
	answer, err := c.Client().Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		c.t.Fatal(answer.Status)
	}
	in := bufio.NewScanner(answer.Body)
	in.Scan() // the server follows from here on
	return in
}

func TestStream_GoesOnAtTheLastCursor(t *testing.T) {
	c := serve(t, web.Options{})
	r, err := selvedge.On(c.db, selvedge.Options{Agent: "a"}).Take(t.Context(), "r",
		selvedge.Start{Intent: "grow"})
	if err != nil {
		t.Fatal(err)
	}
	address := regexp.MustCompile(`data-stream="([^"]+)"`).FindStringSubmatch(c.get("/run?agent=a&id=r"))[1]
	address = "/" + strings.ReplaceAll(address, "&amp;", "&")
	in := c.listen(address, "")
	if err := r.Turn(selvedge.Turn{Prompt: "one"}); err != nil {
		t.Fatal(err)
	}
	last := next(t, in)
	if err := r.Turn(selvedge.Turn{Prompt: "two"}); err != nil {
		t.Fatal(err)
	}
	behind := next(t, in)
	// Whoever was away since the first message hears of the second.
	if got := next(t, c.listen(address, last)); got != behind {
		t.Errorf("%q, not %q", got, behind)
	}
	// A page of all runs hears of every commit.
	in = c.listen("/stream", "")
	next(t, in) // it can't know what it missed
	if err := r.Turn(selvedge.Turn{Prompt: "three"}); err != nil {
		t.Fatal(err)
	}
	next(t, in)
}

// A browser comes back to a stream that was cut off, but not to one that said it is over.
func TestStream_FailedReadIsNoEnd(t *testing.T) {
	var fails atomic.Bool
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal, Observe: func(o db.Observation) {
		if fails.Load() && o.Why == "poll for followers" {
			panic("no")
		}
	}})
	s := httptest.NewServer(web.Handler(d, web.Options{}))
	t.Cleanup(s.Close)
	c := &client{s, t, d, &http.Cookie{Name: "none"}}
	traces := runs.NewStore(d, runs.Options{})
	grow := func() {
		if err := traces.AppendTurns(t.Context(), "a", "r", []runs.Turn{{}}); err != nil {
			t.Fatal(err)
		}
	}
	grow()
	in := c.listen("/stream?agent=a&id=r", "")
	next(t, in)
	fails.Store(true)
	grow()
	for in.Scan() {
		if strings.Contains(in.Text(), "event: end") {
			t.Error("the stream said it is over")
		}
	}
	if err := in.Err(); err != nil {
		t.Error(err)
	}
}

func TestStream_IsBounded(t *testing.T) {
	c := serve(t, web.Options{})
	for range 200 {
		c.listen("/stream?agent=deployer&id=nightly-works", "")
	}
	answer, _ := c.send(http.MethodGet, "/stream", "", nil)
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Errorf("the stream beyond the bound: %s", answer.Status)
	}
	c.get("/") // pages go on
}

var leaks = []string{
	"sk-proj-abcdefghijklmnop1234", "ghp_abcdefghijklmnopqrstuvwxyz0123456789", "AKIAABCDEFGHIJKLMNOP",
	"hunter2hunter2", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2ln", "swordfish-9", "s3cr3tpass",
	"horse battery", "it;em", "first-0f-two", "second-0f-two", "staple",
}

func TestReport_LeavesSecretsOut(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	s := runs.NewStore(d, runs.Options{})
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	_, err := s.Append(t.Context(), runs.Batch{AgentID: "a", RunID: "r", Records: []runs.Record{
		runs.Started{RunID: "r", AgentID: "a", Intent: "use " + leaks[0]},
		runs.Turn{
			Prompt: new("curl -H 'Authorization: Bearer " + leaks[1] + "' and password=" + leaks[3]),
			Parameters: json.RawMessage(fmt.Sprintf(
				`{"aws": %q, "db_password": 12345678, "n": 9007199254740993, "password": "a %s",
				"secret": %q, "api_keys": [%q, %q], "tags": ["kept"]}`, leaks[2], leaks[7], leaks[8], leaks[9],
				leaks[10])),
			Output: json.RawMessage(fmt.Sprintf(
				`"jwt %s\nAPI_KEY=%s\npostgres://ada:%s@host/db\nlet secret := \"a %s\" // why"`, leaks[4], leaks[5],
				leaks[6], leaks[11])),
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []web.Format{web.HTML, web.Markdown, web.JSON} {
		var text, whole strings.Builder
		q := query.On(d, "")
		if err := web.Report(t.Context(), &text, q, ref, format, web.ReportOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := web.Report(t.Context(), &whole, q, ref, format, web.ReportOptions{Secrets: true}); err != nil {
			t.Fatal(err)
		}
		for _, leak := range append(leaks, "12345678") {
			if strings.Contains(text.String(), leak) {
				t.Errorf("%s has %q:\n%s", format, leak, text.String())
			}
			if !strings.Contains(whole.String(), leak) {
				t.Errorf("%s with secrets lacks %q", format, leak)
			}
		}
		for _, plain := range []string{"9007199254740993", "postgres://ada:", "kept", "// why"} {
			if !strings.Contains(text.String(), plain) {
				t.Errorf("%s has lost %q, which is no secret:\n%s", format, plain, text.String())
			}
		}
		if format == web.JSON {
			var report web.JSONReport
			if err := json.Unmarshal([]byte(text.String()), &report); err != nil || report.LeftOut < len(leaks) {
				t.Errorf("%d left out, %v:\n%s", report.LeftOut, err, text.String())
			}
		}
	}
}

// Any input is shown or refused, and what a trace holds is never more than text.
func FuzzPages(f *testing.F) {
	c := serve(f, web.Options{})
	s := runs.NewStore(c.db, runs.Options{})
	f.Add("</script><script>x</script>", "\x1b[31m\u202e")
	n := 0
	f.Fuzz(func(t *testing.T, prompt, words string) {
		c := &client{c.Server, t, c.db, c.cookie}
		n++
		id := fmt.Sprint("fuzz-", n)
		prompt = strings.ToValidUTF8(prompt, "")
		output, err := json.Marshal(words)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Append(t.Context(), runs.Batch{AgentID: "f", RunID: id, Records: []runs.Record{
			runs.Started{RunID: id, AgentID: "f", Intent: prompt}, runs.Turn{Prompt: &prompt, Output: output},
		}}); err != nil {
			return // such a record can't be written
		}
		body := c.get("/run?agent=f&id=" + id)
		if strings.Count(body, "<script>") != 1 || strings.ContainsAny(body, "\x1b\u202e\u2028") {
			t.Errorf("%q, %q:\n%s", prompt, words, body)
		}
		answer, _ := c.send(http.MethodGet, "/runs?"+url.Values{
			"words": {words},
			"since": {prompt},
		}.Encode(), "", nil)
		if answer.StatusCode >= http.StatusInternalServerError {
			t.Errorf("%q, %q: %s", prompt, words, answer.Status)
		}
	})
}
