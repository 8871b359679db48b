//go:build postgres

package failover_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

// A note is a line of a process.
type note struct {
	at               time.Time // when it was heard
	process          string
	kind, lane, text string
	rest             string
}

// Notes are all that the processes said.
type notes struct {
	t *testing.T

	mu        sync.Mutex
	list      []note
	processes map[string]speaker
}

type speaker struct {
	*dbtest.Process
	silent chan struct{} // closed when it has said its last
}

// listen reads a process's reports, and returns once the process is ready.
func (ns *notes) listen(name string, p *dbtest.Process) {
	ns.t.Helper()
	late := time.AfterFunc(patience, func() { dump(p) })
	p.Expect("ready")
	late.Stop()
	if ns.processes == nil {
		ns.processes = map[string]speaker{}
	}
	s := speaker{p, make(chan struct{})}
	ns.processes[name] = s
	go func() {
		defer close(s.silent)
		for {
			line, ok := p.Line()
			if !ok {
				return
			}
			words := append(strings.Split(line, "\t"), "", "", "")
			ns.mu.Lock()
			ns.list = append(ns.list, note{time.Now(), name, words[0], words[1], words[2], words[3]})
			ns.mu.Unlock()
		}
	}()
}

// stop ends processes, and waits for all that they said.
func (ns *notes) stop(which func(name string) bool) {
	for name, p := range ns.processes {
		if which(name) {
			_ = p.TrySend("stop") // one that died is reported below
		}
	}
	for name, p := range ns.processes {
		if !which(name) {
			continue
		}
		delete(ns.processes, name)
		late := time.AfterFunc(patience, func() { dump(p.Process) })
		<-p.silent
		if late.Stop() {
			p.Wait()
		} else {
			ns.t.Errorf("%s did not end within %v: %s", name, patience, p.Stderr())
		}
	}
}

// dump ends a process that hangs, with a trace of where it does.
func dump(p *dbtest.Process) { _ = syscall.Kill(p.Pid(), syscall.SIGQUIT) }

func (ns *notes) all() []note {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return slices.Clone(ns.list)
}

// count counts the notes since a moment.
func (ns *notes) count(since time.Time, which func(note) bool) (n int) {
	for _, one := range ns.all() {
		if one.at.After(since) && which(one) {
			n++
		}
	}
	return n
}

func textOf(r runs.Record) string {
	if turn, ok := r.(runs.Turn); ok && turn.Prompt != nil {
		return *turn.Prompt
	}
	return ""
}

func textOfEvent(e live.Event) string {
	var event struct{ Text string }
	_ = json.Unmarshal(e.JSON(), &event) // an event without text is skipped
	return event.Text
}

// An entry is an item of a stream, as it is there in the end.
type entry struct {
	sequence int64
	text     string
}

// A world is the state of the database in the end.
type world struct {
	streams map[string][]entry // by lane
	last    map[string]string  // of the agents' entries, by lane
	past    map[string][]int64 // epochs under which a checkpoint was completed
	saved   map[string]bool    // checkpoints that wait

	apart time.Duration // by how much the servers' clocks are, at most
}

func readRun(ctx context.Context, t *testing.T, s *runs.Store, ref runs.RunRef) (list []entry) {
	t.Helper()
	for r, err := range s.Trace(ctx, ref) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, entry{r.Sequence, textOf(r.Record)})
	}
	return list
}

func readLive(ctx context.Context, t *testing.T, s *live.Store, id string) (list []entry) {
	t.Helper()
	for e, err := range s.EachEvent(ctx, id) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, entry{int64(e.Sequence), textOfEvent(e.Event)})
	}
	return list
}

// readWorld reads what the named writers have written.
func readWorld(t *testing.T, d *db.DB, writers []string) world {
	t.Helper()
	ctx := t.Context()
	w := world{
		streams: map[string][]entry{}, last: map[string]string{}, past: map[string][]int64{},
		saved: map[string]bool{},
	}
	rs, ls, rg, cs := runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{}),
		agents.NewRegistry(d, agents.Options{}), checkpoints.NewStore(d, checkpoints.Options{})
	for _, name := range append([]string{shared, "keyed"}, writers...) {
		w.streams["runs/"+name] = readRun(ctx, t, rs, sharedRun(name))
	}
	for _, name := range append([]string{shared}, writers...) {
		w.streams["live/"+name] = readLive(ctx, t, ls, name)
	}
	for _, lane := range laneNames {
		w.streams["held-"+lane] = readRun(ctx, t, rs, logOf(lane))
	}
	runtime, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: shared, MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range runtime.EachEvent(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		w.streams["workers"] = append(w.streams["workers"], entry{int64(e.ID), string(e.Kind)})
	}
	for one, err := range runtime.All(ctx, workers.WorkerFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		lane := "workers/" + string(one.WorkerRef.WorkerID)
		for e, err := range runtime.Transcript(ctx, one.WorkerRef) {
			if err != nil {
				t.Fatal(err)
			}
			w.streams[lane] = append(w.streams[lane], entry{int64(len(w.streams[lane]) + 1), e.Content})
		}
	}
	for _, name := range writers {
		e, err := rg.Get(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		w.last["agents/"+name] = e.BaseState
	}
	for past, err := range cs.History(ctx, checkpoints.HistoryFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if past.Ending == checkpoints.Completed {
			w.past[past.RunID] = append(w.past[past.RunID], past.Epoch)
		}
	}
	for c, err := range cs.All(ctx, checkpoints.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		w.saved[c.RunID] = true
	}
	return w
}

// losses returns the acknowledged changes that are not there.
func (w *world) losses(said []note) (list []string) {
	there := map[string]bool{}
	for lane, entries := range w.streams {
		for _, e := range entries {
			there[lane+" "+e.text] = true
		}
	}
	for _, n := range said {
		if n.kind != acked {
			continue
		}
		kind, _, _ := strings.Cut(n.lane, "/")
		// which may be gone as a whole
		stream := kind == "runs" || kind == "live" || kind == "workers" || strings.HasPrefix(n.lane, "held-")
		switch {
		case stream && !there[n.lane+" "+n.text],
			n.lane == "saved" && !w.saved[n.text] && len(w.past[n.text]) == 0,
			n.lane == "completed" && len(w.past[n.text]) == 0:
			list = append(list, n.lane+" "+n.text)
		}
	}
	return list
}

// A complainer is a test, or one of the judge itself.
type complainer interface {
	Helper()
	Errorf(format string, args ...any)
}

// judge compares the database with the notes.
func (w *world) judge(t complainer, said []note) {
	t.Helper()
	said = ended(said)
	for _, n := range said {
		if n.kind == strange || n.kind == gap || n.lane == "again" {
			t.Errorf("%s: %s %s %s: %s", n.process, n.kind, n.lane, n.text, n.rest)
		}
	}
	if gone := w.losses(said); len(gone) > 0 {
		t.Errorf("%d acknowledged writes are lost: %q", len(gone), gone[:min(10, len(gone))])
	}
	w.judgeStreams(t, said)
	w.judgeHolders(t, said)
	judgeFences(t, said)
	w.judgeClaims(t, said)
	w.judgeAgents(t, said)
	w.judgeFollowers(t, said)
	w.judgeTimes(t, said)
	judgeDoubts(t, said)
}

func (w *world) judgeStreams(t complainer, said []note) {
	t.Helper()
	may, mayNot := map[string]bool{}, map[string]string{}
	for _, n := range said {
		switch n.kind {
		case acked, unknown, unfinished:
			may[n.lane+" "+n.text] = true
		case failed, lost:
			mayNot[n.lane+" "+n.text] = n.rest
		}
	}
	for lane, entries := range w.streams {
		times := map[string]int{}
		for i, e := range entries {
			if e.sequence != int64(i)+entries[0].sequence || entries[0].sequence > 1 {
				t.Errorf("%s: item %d has the number %d, behind a first one of %d", lane, i+1, e.sequence,
					entries[0].sequence)
				break
			}
			times[e.text]++
		}
		if lane == "workers" {
			continue // events without a text
		}
		for text, n := range times {
			key := lane + " " + text
			switch {
			case text == "" || text == "held":
			case n > 1:
				t.Errorf("%s is there %d times", key, n)
			case mayNot[key] != "" && !may[key]:
				t.Errorf("%s is there, and was said to have failed: %s", key, mayNot[key])
			case !may[key]:
				t.Errorf("%s is there, and nobody was told", key)
			}
		}
	}
}

// judgeHolders examines the writes made under exclusive holds.
func (w *world) judgeHolders(t complainer, said []note) {
	t.Helper()
	holders := map[string]string{} // by lane and epoch
	for _, n := range said {
		if n.kind != won {
			continue
		}
		key := n.lane + " " + n.text
		if holders[key] != "" {
			t.Errorf("epoch %s of %s was won twice, by %s and %s", n.text, n.lane, holders[key], n.process)
		}
		holders[key] = n.process
	}
	for _, lane := range laneNames {
		before := int64(0)
		for _, e := range w.streams["held-"+lane] {
			if e.text == "" {
				continue
			}
			word, by, _ := strings.Cut(e.text, " by ")
			epoch, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				t.Errorf("%s: %v", lane, err)
				continue
			}
			if epoch < before {
				t.Errorf("%s: epoch %d wrote behind epoch %d", lane, epoch, before)
			}
			before = epoch
			if holder, _, _ := strings.Cut(by, "-"); holders["held-"+lane+" "+word] != holder {
				t.Errorf("%s: %s wrote under the epoch %d of %s", lane, holder, epoch, holders["held-"+lane+" "+word])
			}
		}
	}
}

// judgeFences: once a new holder has acquired a hold, the earlier one is refused. That applies
// whatever the servers' clocks are.
func judgeFences(t complainer, said []note) {
	t.Helper()
	type win struct {
		epoch int64
		at    int64 // when it was known, or a moment after
	}
	wins := map[string][]win{}
	for _, n := range said {
		if n.kind == won && strings.HasPrefix(n.lane, "held-") {
			epoch, _ := strconv.ParseInt(n.text, 10, 64)
			at, _ := strconv.ParseInt(n.rest, 10, 64)
			wins[n.lane] = append(wins[n.lane], win{epoch, at})
		}
	}
	for _, list := range wins {
		slices.SortFunc(list, func(a, b win) int { return cmp.Compare(a.epoch, b.epoch) })
		for i := len(list) - 2; i >= 0; i-- { // the first moment at which it, or a later one, was had
			list[i].at = min(list[i].at, list[i+1].at)
		}
	}
	for _, n := range said {
		if n.kind != acked || !strings.HasPrefix(n.lane, "held-") {
			continue
		}
		word, _, _ := strings.Cut(n.text, " by ")
		epoch, _ := strconv.ParseInt(word, 10, 64)
		looked, _ := strconv.ParseInt(n.rest, 10, 64)
		list := wins[n.lane]
		next, _ := slices.BinarySearchFunc(list, epoch+1,
			func(one win, epoch int64) int { return cmp.Compare(one.epoch, epoch) })
		if next < len(list) && looked > list[next].at {
			t.Errorf("%s: %s was begun %v after a later epoch was had", n.lane, n.text,
				time.Duration(looked-list[next].at))
		}
	}
}

func (w *world) judgeClaims(t complainer, said []note) {
	t.Helper()
	done, told := map[string]int{}, map[string]bool{}
	for _, n := range said {
		if n.kind == acked && n.lane == "completed" {
			done[n.text]++
		}
		if n.kind == acked || n.kind == unknown || n.kind == unfinished {
			told[n.lane+" "+n.text] = true
		}
	}
	for id := range w.past {
		if !told["completed "+id] {
			t.Errorf("%s was completed, and nobody was told", id)
		}
	}
	for id := range w.saved {
		if id != shared && !told["saved "+id] {
			t.Errorf("%s was saved, and nobody was told", id)
		}
	}
	for id, n := range done {
		if n > 1 {
			t.Errorf("%d processes were told that they completed %s", n, id)
		}
	}
	for id, epochs := range w.past {
		if len(epochs) > 1 {
			t.Errorf("%s was completed under the epochs %v", id, epochs)
		}
	}
}

// unsure is by how much a process may take a server's time for earlier than it is: the time that an
// answer may take.
const unsure = 12 * time.Second

// judgeTimes examines holds that end with their time. A holder that could not renew its hold, or
// that was refused, writes nothing under it any more. If the servers' clocks differ, a hold may
// last longer by the difference. It may also end earlier by as much, which harms nothing
// (judgeFences).
func (w *world) judgeTimes(t complainer, said []note) {
	t.Helper()
	last, gone := map[string]time.Duration{}, map[string]bool{}
	for _, n := range said {
		epoch, _, _ := strings.Cut(n.text, " by ")
		lane := n.lane
		for _, what := range []string{"held-", "renew-", "release-"} {
			lane = strings.TrimPrefix(lane, what)
		}
		key := n.process + " " + lane + " " + epoch
		switch nanos, _ := strconv.ParseInt(n.rest, 10, 64); {
		case n.kind == lost:
			gone[key] = true
		case !strings.HasPrefix(n.lane, "held-"):
		case n.kind == won, n.kind == renewed:
			if gone[key] {
				t.Errorf("%s renewed what it was told to have lost", key)
			}
			last[key] = time.Duration(nanos)
		case n.kind == acked && gone[key]:
			t.Errorf("%s: %s wrote under what it was told to have lost", n.lane, n.text)
		case n.kind == acked && strings.HasPrefix(n.lane, "held-timed"):
			if late := time.Duration(nanos) - last[key]; late > shortly+unsure+w.apart {
				t.Errorf("%s: %s wrote %v after it was renewed, and it lasts %v", n.lane, n.text, late, shortly+w.apart)
			}
		}
	}
}

// Of the minute that a call waits for a primary, settled is the part that has certainly passed
// for a caller whose outcome is unknown: it was cut off a little later than the last commit, and
// the last attempt to ask takes its time.
const (
	settled = 55 * time.Second
	asking  = 15 * time.Second
)

// judgeDoubts: an outcome may be unknown only if no primary answered for a minute. A primary that
// acknowledged anything had answered. A process that knows only one server is judged by itself.
func judgeDoubts(t complainer, said []note) {
	t.Helper()
	knows := func(process string) string {
		if process == "pinned" {
			return process
		}
		return ""
	}
	for _, n := range said {
		if n.kind != unknown {
			continue
		}
		i := slices.IndexFunc(said, func(o note) bool {
			return o.kind == acked && knows(o.process) == knows(n.process) && o.at.After(n.at.Add(-settled)) &&
				o.at.Before(n.at.Add(-asking))
		})
		if i >= 0 {
			t.Errorf("%s of %s: the outcome is unknown, and %v before %s was told of one that is known: %s", n.lane,
				n.process, n.at.Sub(said[i].at), said[i].process, n.rest)
		}
	}
}

// judgeAgents looks at the last value of entries that are written again and again.
func (w *world) judgeAgents(t complainer, said []note) {
	t.Helper()
	for lane, last := range w.last {
		sure, could := "", []string{}
		for _, n := range said {
			if n.lane != lane {
				continue
			}
			switch n.kind {
			case acked:
				sure, could = n.text, []string{n.text}
			case unknown, unfinished:
				could = append(could, n.text)
			}
		}
		if !slices.Contains(could, last) && (sure != "" || last != "") {
			t.Errorf("%s is %q, and the last one that was acknowledged is %q", lane, last, sure)
		}
	}
}

func (w *world) judgeFollowers(t complainer, said []note) {
	t.Helper()
	followed := map[string][]note{}
	for _, n := range said {
		if n.kind == item {
			key := n.process + " " + n.lane
			followed[key] = append(followed[key], n)
		}
	}
	if len(followed) == 0 {
		t.Errorf("nothing was followed")
	}
	for key, items := range followed {
		all := w.streams[items[0].lane]
		for i, n := range items {
			if i >= len(all) || n.rest != fmt.Sprint(all[i].sequence) || n.text != all[i].text {
				t.Errorf("%s: its item %d is %q %s, of %d that are there", key, i+1, n.text, n.rest, len(all))
				break
			}
		}
	}
}

// report logs what is not judged: the longest time without an acknowledgement, and the number of
// notes of each kind.
func report(t *testing.T, said []note, fault time.Time) {
	t.Helper()
	kinds := map[string]int{}
	last, longest, from := map[string]time.Time{}, map[string]time.Duration{}, map[string]time.Duration{}
	first := map[string]time.Time{} // any report of a process
	for _, n := range said {
		kinds[n.kind]++
		if _, ok := first[n.process]; !ok {
			first[n.process] = n.at
		}
		if n.at.Before(fault) || n.kind != acked && n.kind != item {
			continue
		}
		for _, key := range []string{
			n.kind + " by anybody",
			n.kind + " in one lane of one process: " + n.process + " " + n.lane,
		} {
			before, ok := last[key]
			if !ok {
				before = fault
			}
			if began := first[n.process]; !ok && !strings.HasSuffix(key, "anybody") && began.After(fault) {
				before = began // it came in the place of one that was killed
			}
			short, _, _ := strings.Cut(key, ":")
			if stall := n.at.Sub(before); stall > longest[short] {
				longest[short], from[short] = stall, before.Sub(fault)
			}
			last[key] = n.at
		}
	}
	t.Logf("said: %v", kinds)
	doubts := map[string]bool{}
	for _, n := range said {
		if n.kind == unknown {
			doubts[n.process+" "+n.lane+" "+n.text] = true
		}
	}
	settledLater := 0
	for _, n := range said {
		if n.kind == acked && doubts[n.process+" "+n.lane+" "+n.text] {
			settledLater++
		}
	}
	t.Logf("unknown: %d calls; of them repeated until they were done: %d", len(doubts), settledLater)
	for _, key := range slices.Sorted(maps.Keys(longest)) {
		t.Logf("longest stall, %s: %.1f s, from %.1f s after the first fault on", key, longest[key].Seconds(),
			from[key].Seconds())
	}
	errors := map[string]int{}
	for _, n := range said {
		if n.kind == failed || n.kind == unknown || n.kind == lost || n.kind == broke {
			errors[n.kind+" "+n.rest[:min(200, len(n.rest))]]++
		}
	}
	for _, text := range slices.Sorted(maps.Keys(errors)) {
		t.Logf("%d times %s", errors[text], text)
	}
}
