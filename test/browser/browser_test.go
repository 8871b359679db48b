package browser

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"selvedge"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/night"
)

// The pages are those of one server, over one night.
var (
	address *url.URL // with the token
	file    string
	axe     string // the source of axe-core
	browser context.Context
)

const axeVersion = "4.14.1"

func TestMain(m *testing.M) {
	code, err := prepared(m)
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}

func prepared(m *testing.M) (code int, err error) {
	if out, err := exec.Command("../../tools/need", "chromium", "npm").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	pack := exec.Command("npm", "pack", "--silent", "--pack-destination", dir, "axe-core@"+axeVersion)
	if out, err := pack.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("npm pack: %w: %s", err, out)
	}
	source, err := exec.Command("tar", "-xzOf", filepath.Join(dir, "axe-core-"+axeVersion+".tgz"),
		"package/axe.min.js").Output()
	if err != nil {
		return 0, err
	}
	axe = string(source)
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "migrate"), "./cmd/migrate")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	ctx := context.Background()
	file = filepath.Join(dir, "night.db")
	d, err := db.Open(ctx, file, db.Options{Synchronous: db.SyncNormal})
	if err != nil {
		return 0, err
	}
	defer d.Close()
	count, err := strconv.Atoi(cmp.Or(os.Getenv("RUNS"), "5000"))
	if err != nil {
		return 0, err
	}
	if err := night.Many(ctx, d, count, 10); err != nil {
		return 0, err
	}
	held, err := night.Few(ctx, d)
	if err != nil {
		return 0, err
	}
	defer held.Leave()
	if err := hostile(ctx, d); err != nil {
		return 0, err
	}
	serve := exec.Command(filepath.Join(dir, "migrate"), "--db", file, "serve", "--answer")
	said, err := serve.StdoutPipe()
	if err != nil {
		return 0, err
	}
	serve.Stderr = os.Stderr
	if err := serve.Start(); err != nil {
		return 0, err
	}
	defer func() {
		_ = serve.Process.Kill()
		_ = serve.Wait() // killed
	}()
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		return 0, err
	}
	if address, err = url.Parse(strings.TrimSpace(strings.TrimPrefix(line, "open "))); err != nil {
		return 0, err
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.NoSandbox,
		chromedp.UserDataDir(filepath.Join(dir, "profile")))
	allocated, stop := chromedp.NewExecAllocator(ctx, options...)
	defer stop()
	tabs, end := chromedp.NewContext(allocated)
	defer end()
	browser = tabs //nolint:fatcontext // that of all tabs
	if err := chromedp.Do(browser, chromedp.Navigate(address.String())); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// evil is what an agent may have read somewhere and written into its trace.
const evil = "</pre></details><script>document.title='owned'</script>" +
	"<img src=x onerror=\"document.title='owned'\">" +
	"\x1b[2J \u202egnp.exe {{.}} javascript:alert(1)"

func hostile(ctx context.Context, d *db.DB) error {
	s := runs.NewStore(d, runs.Options{})
	_, err := s.Append(ctx, runs.Batch{AgentID: evil, RunID: "hostile " + evil, Records: []runs.Record{
		runs.Started{RunID: "hostile " + evil, AgentID: evil, Intent: evil},
		runs.Turn{Prompt: new(evil), Tool: new(evil), Output: json.RawMessage(strconv.Quote("x") + "")},
		runs.Turn{Output: []byte(`{"big": 9007199254740993, "<b>": "</script>"}`)},
		runs.Turn{Output: []byte(`"` + strings.Repeat("long ", 800_000) + `"`)},
	}})
	return err
}

// at returns the address of a page.
func at(page string) string {
	u := *address
	u.RawQuery = ""
	return u.String() + page
}

func run(id string) string { return "run?" + url.Values{"agent": {"deployer"}, "id": {id}}.Encode() }

var pages = map[string]string{
	"tonight": "", "by-agent": "?by=agent", "runs": "runs", "failed": "runs?failed=1",
	"stalled": "runs?stalled=1",
	"words":   "runs?words=part+11&outcome=failure", "live": "live", "liverun": "liverun?id=live-3",
	"cost": "cost", "search": "search?words=two+tests",
	"agents": "agents?all=1", "workers": "workers", "quarantine": "quarantine", "health": "health",
	"run-done": run("nightly-done"), "run-waits": run("nightly-waits"), "run-unknown": run("nightly-unknown"),
	"run-works": run("nightly-works"), "missing": run("none"),
	"hostile": "run?" + url.Values{"agent": {evil}, "id": {"hostile " + evil}}.Encode(),
	"report":  "run.html?agent=deployer&id=nightly-done",
}

// A tab is a tab of the browser, with what went wrong in its console.
type tab struct {
	context.Context
	t     *testing.T
	said  chan string
	close context.CancelFunc
}

type action = chromedp.Action[chromedp.Void]

func open(t *testing.T, actions ...action) *tab {
	t.Helper()
	ctx, stop := chromedp.NewContext(browser)
	t.Cleanup(stop)
	tab := &tab{ctx, t, make(chan string, 1000), stop}
	err := chromedp.Listen(ctx, func(e any) {
		switch e := e.(type) {
		case *runtime.EventExceptionThrown:
			tab.said <- e.ExceptionDetails.Text
		case *cdplog.EventEntryAdded:
			tab.said <- e.Entry.Text + " " + e.Entry.URL
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	tab.do(func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, cdplog.Enable, cdp.Empty{})
		return v, err
	})
	tab.do(actions...)
	return tab
}

// do runs actions one after another.
func (tab *tab) do(actions ...action) {
	tab.t.Helper()
	limited, stop := context.WithTimeout(tab, 30*time.Second)
	defer stop()
	if err := chromedp.Do(limited, actions...); err != nil {
		tab.t.Fatal(err)
	}
}

// ask runs an action that returns a value.
func ask[T any](tab *tab, a chromedp.Action[T]) T {
	tab.t.Helper()
	limited, stop := context.WithTimeout(tab, 30*time.Second)
	defer stop()
	value, err := chromedp.Run(limited, a)
	if err != nil {
		tab.t.Fatal(err)
	}
	return value
}

// eventually waits until a script returns true. A page that is being left answers nothing.
func (tab *tab) eventually(script string) {
	tab.t.Helper()
	limited, stop := context.WithTimeout(tab, 10*time.Second)
	defer stop()
	for {
		is, err := chromedp.Run(limited, chromedp.Evaluate[bool](script))
		if is {
			return
		}
		select {
		case <-limited.Done():
			tab.t.Fatalf("%s: %v\n%s", script, err, ask(tab, chromedp.Text(chromedp.CSS("main"))))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (tab *tab) wrong() (list []string) {
	for {
		select {
		case text := <-tab.said:
			list = append(list, text)
		default:
			return list
		}
	}
}

func goTo(page string) action { return chromedp.Navigate(at(page)) }

func scheme(name string) action {
	return func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
		})
		return v, err
	}
}

type finding struct {
	ID    string
	Help  string
	Nodes []struct{ HTML, FailureSummary string }
}

const violations = `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}).then(r =>
	r.violations.map(v => ({ID: v.id, Help: v.help,
		Nodes: v.nodes.map(n => ({HTML: n.html, FailureSummary: n.failureSummary}))})))`

func TestSearch_FillsInWithoutReload(t *testing.T) {
	tab := open(t, goTo("search?words=nightly"))
	tab.eventually(`!document.querySelector("main .soon")`)
}

func TestPages_AreAccessibleAtBothWidths(t *testing.T) {
	for name, page := range pages {
		for _, wide := range []int64{1280, 375} {
			for _, colours := range []string{"light", "dark"} {
				tab := open(t, chromedp.EmulateViewport(wide, 900), scheme(colours), goTo(page),
					chromedp.WaitVisible(chromedp.CSS("main")), chromedp.Evaluate[chromedp.Void](axe))
				for _, f := range ask(tab, chromedp.Evaluate[[]finding](violations, chromedp.EvalAwaitPromise)) {
					t.Errorf("%s, %d wide, %s: %s: %s: %+v", name, wide, colours, f.ID, f.Help, f.Nodes[0])
				}
				if width := ask(tab, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`)); width > wide {
					t.Errorf("%s is %d wide on a screen of %d", name, width, wide)
				}
				if ask(tab, chromedp.Title()) == "owned" {
					t.Errorf("%s ran what a trace holds", name)
				}
				for _, text := range tab.wrong() {
					if name != "missing" { // its status is 404, which is said
						t.Errorf("%s, %s: %s", name, colours, text)
					}
				}
				picture(tab, fmt.Sprintf("%s-%d-%s", name, wide, colours))
				tab.close()
			}
		}
	}
}

func picture(tab *tab, name string) {
	tab.t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	png := ask(tab, chromedp.FullScreenshot(100))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
		tab.t.Fatal(err)
	}
}

func shows(text string) string {
	return fmt.Sprintf(`document.querySelector("main").innerText.includes(%q)`, text)
}

func TestRun_GrowsWhileItIsLookedAt(t *testing.T) {
	s, err := selvedge.Open(t.Context(), file, selvedge.Options{Agent: "grower"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // what it wrote is looked at
	r, err := s.Take(t.Context(), "grows", selvedge.Start{Intent: "grow"})
	if err != nil {
		t.Fatal(err)
	}
	turn := func(words string) {
		t.Helper()
		if err := r.Turn(selvedge.Turn{Prompt: words}); err != nil {
			t.Fatal(err)
		}
	}
	const state = `document.querySelector("#live").textContent === `
	tab := open(t, goTo("run?agent=grower&id=grows"))
	tab.eventually(state + `"live"`)
	turn("the first words")
	tab.eventually(shows("the first words"))
	tab.do(chromedp.Click(chromedp.CSS("#pause")))
	tab.eventually(state + `"paused"`)
	turn("said in the pause")
	tab.do(chromedp.Sleep(time.Second))
	if ask(tab, chromedp.Evaluate[bool](shows("said in the pause"))) {
		t.Error("a paused page changed")
	}
	tab.do(chromedp.Click(chromedp.CSS("#pause")))
	tab.eventually(shows("said in the pause"))
	if err := r.Say("words that are not in the trace"); err != nil {
		t.Fatal(err)
	}
	tab.eventually(shows("words that are not in the trace"))
	if err := r.End(selvedge.Succeeded("grown")); err != nil {
		t.Fatal(err)
	}
	tab.eventually(state + `"ended"`)
}

func TestKeys_MoveThroughThePage(t *testing.T) {
	focused := chromedp.Evaluate[string](
		`document.activeElement.getAttribute("href") || document.activeElement.id`)
	press := func(tab *tab, key string) string {
		tab.do(chromedp.KeyEvent(key))
		return ask(tab, focused)
	}
	tab := open(t, goTo("runs"))
	first, second, back := press(tab, "j"), press(tab, "j"), press(tab, "k")
	if first == "" || first == second || back != first {
		t.Errorf("j, j and k went to %q, %q and %q", first, second, back)
	}
	tab.do(chromedp.KeyEvent("?"), chromedp.WaitVisible(chromedp.CSS("#help")))
	if got := press(tab, "/"); got != "filter" {
		t.Errorf("/ went to %q", got)
	}
	tab.do(goTo(run("nightly-done")))
	if first, second := press(tab, "J"), press(tab, "J"); first == "" || first == second ||
		press(tab, "K") != first {
		t.Errorf("J, J and K went to %q, %q", first, second)
	}
}

func TestAnswer_IsGivenOnThePage(t *testing.T) {
	// In one script: the page may be shown anew between two.
	tab := open(t, goTo(run("nightly-waits")), chromedp.Evaluate[chromedp.Void](`{
		const form = document.querySelector("form.answer");
		form.elements.decision.value = "approved";
		form.elements.by.value = "ada";
		form.requestSubmit();
	}`))
	tab.eventually(shows("done: approved, by ada"))
}

func TestAnswer_BegunStaysOnThePage(t *testing.T) {
	tab := open(t, goTo(""), chromedp.Evaluate[chromedp.Void](
		`document.querySelector("form.answer").elements.by.value = "ada"`))
	s, err := selvedge.Open(t.Context(), file, selvedge.Options{Agent: "other"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()    //nolint:errcheck // what it wrote is looked at
	for i := range 3 { // commits, after each of which the page looks again
		if _, err := s.Submit(t.Context(), fmt.Sprint("other-", i), selvedge.Start{Intent: "other"}); err != nil {
			t.Fatal(err)
		}
		tab.do(chromedp.Sleep(time.Second))
	}
	by := ask(tab, chromedp.Evaluate[string](`document.querySelector("form.answer").elements.by.value`))
	if by != "ada" {
		t.Errorf("what was typed is %q now", by)
	}
}

func TestPages_WorkWithoutScripts(t *testing.T) {
	tab := open(t, func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: true})
		return v, err
	}, goTo("runs?failed=1"))
	list := ask(tab, chromedp.Text(chromedp.CSS("main")))
	tab.do(chromedp.Click(chromedp.CSS("main a.id")), chromedp.WaitVisible(chromedp.CSS(".timeline")))
	if one := ask(tab, chromedp.Text(chromedp.CSS("main"))); !strings.Contains(list, "two tests are red") ||
		!strings.Contains(one, "started") {
		t.Errorf("%s\n%s", list, one)
	}
}

func TestHostile_TextIsOnlyText(t *testing.T) {
	tab := open(t, goTo(pages["hostile"]))
	text := ask(tab, chromedp.Evaluate[string](`document.querySelectorAll("details").forEach(d => d.open = true);
		document.querySelector("main").innerText`))
	for _, want := range []string{"<script>", "onerror=", `\u001b[2J`, `\u202e`, "9007199254740993", "{{.}}"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if strings.ContainsAny(text, "\x1b\u202e") || ask(tab, chromedp.Title()) == "owned" {
		t.Error("the text of the trace was more than text")
	}
}

func TestReport_NeedsNothingElse(t *testing.T) {
	tab := open(t, goTo("run.html?agent=deployer&id=nightly-done"))
	path := filepath.Join(t.TempDir(), "run.html")
	if err := os.WriteFile(path, []byte(ask(tab, chromedp.OuterHTML(chromedp.CSS("html")))), 0o600); err != nil {
		t.Fatal(err)
	}
	tab.do(chromedp.Navigate("file://" + path))
	text := ask(tab, chromedp.Text(chromedp.CSS("main")))
	asked := ask(tab, chromedp.Evaluate[int](`performance.getEntriesByType("resource").length`))
	if !strings.Contains(text, "I post it.") || asked > 0 {
		t.Errorf("it asks for %d things more\n%s", asked, text)
	}
}
