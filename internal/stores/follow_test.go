package stores_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/test/dbtest"
)

// A bell is followed in these tests: it has a name and a status, and it rings.
const bells = `
CREATE TABLE bells (key INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL,
	status TEXT NOT NULL DEFAULT 'new', rings INTEGER NOT NULL DEFAULT 0,
	kept INTEGER NOT NULL DEFAULT 1) STRICT`

type told = db.Followed[string, int64]

var ringing = stores.Stream[string, int64]{
	Op: "listen", Name: "bell", Born: "new",
	Table: "bells", Key: "key",
	End: `SELECT key, rings AS seen, status FROM bells WHERE key = ?`,
	Read: func(rx *db.Rx, at stores.Place, room paging.Room) (got stores.Stretch[string, int64], err error) {
		var b bell
		found, err := rx.Find(&b, `SELECT key, name, status, rings, kept FROM bells WHERE key = ?`, at.Key)
		if err == nil && !found {
			err = txn.CursorExpired("the bell was taken down")
		}
		got.Of, got.Status, got.Seen = b.Name, b.Status, at.Seen
		if at.Seen+1 < b.Kept {
			got.Lost, got.Seen = "old rings", b.Kept-1
		}
		for got.Seen < b.Rings {
			if got.More = !room.Take(1); got.More {
				break
			}
			got.Seen++
			got.Items = append(got.Items, stores.Placed[int64]{Position: got.Seen, Item: got.Seen})
		}
		return got, err
	},
}

type bell struct {
	Key    int64  `db:"key"`
	Name   string `db:"name"`
	Status string `db:"status"`
	Rings  int64  `db:"rings"`
	Kept   int64  `db:"kept"`
}

func listen(ctx context.Context, d *db.DB, key int64, cursor string) iter.Seq2[told, error] {
	return stores.Follow(ctx, d, ringing, func(rx *db.Rx) (stores.Place, error) {
		if cursor != "" {
			return ringing.ReadCursor(rx, cursor)
		}
		return stores.Place{Key: key}, nil
	})
}

func listenAll(ctx context.Context, d *db.DB) iter.Seq2[told, error] {
	return stores.FollowAll(ctx, d, ringing, nil, bellsBetween)
}

func bellsBetween(rx *db.Rx, behind, last int64) (heads []stores.Head[string], err error) {
	var rows []bell
	err = rx.Select(&rows, `SELECT key, name, status, rings, kept FROM bells WHERE key > ? AND key <= ?
		ORDER BY key`, behind, last)
	for _, b := range rows {
		heads = append(heads, stores.Head[string]{
			Of:    b.Name,
			Place: stores.Place{Key: b.Key, Seen: b.Rings, Status: b.Status},
		})
	}
	return heads, err
}

// hear gives what the loop is told first, in short, and the cursor behind it.
func hear(t *testing.T, items iter.Seq2[told, error], n int) (list []string, cursor string) {
	t.Helper()
	for item, err := range items {
		switch {
		case err != nil:
			return append(list, "error: "+err.Error()), cursor
		case item.Gone:
			list = append(list, item.Of+" gone")
		case item.What == db.Gap:
			list = append(list, item.Of+" lost "+item.Reason)
		case item.What == db.StatusChanged:
			list = append(list, item.Of+" is "+item.Status)
		default:
			list = append(list, fmt.Sprint(item.Of, " ", item.Item))
		}
		if cursor = item.Cursor; len(list) == n {
			break
		}
	}
	return list, cursor
}

// meanwhile changes bells while somebody listens.
func meanwhile(t *testing.T, d *db.DB, changes ...string) {
	for _, change := range changes {
		err := d.Write(t.Context(), "change", func(tx *db.Tx) error {
			_, err := tx.Exec(change)
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", change, err)
		}
	}
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, not %q", what, got, want)
	}
}

func TestFollowersOfIdleStreamsReadNothing(t *testing.T) {
	var reads atomic.Int64
	d := dbtest.Open(t, db.Options{Observe: func(o db.Observation) {
		if !o.Write {
			reads.Add(1)
		}
	}})
	write(t, d, bells)
	const idle, commits = 200, 100
	for range idle + 1 {
		write(t, d, `INSERT INTO bells (name, rings) VALUES ('bell', 1)`)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var begun, over sync.WaitGroup
	begun.Add(idle)
	for key := range int64(idle) {
		over.Go(func() {
			first := true
			for item, err := range listen(ctx, d, key+1, "") {
				if first {
					begun.Done()
				} else if err == nil {
					t.Errorf("a bell that did not ring was heard: %+v", item)
				}
				first = false
			}
		})
	}
	begun.Wait()
	first := reads.Load()
	for range commits {
		write(t, d, `UPDATE bells SET rings = rings + 1 WHERE key = ?`, idle+1)
	}
	// One who comes now is told of the last commit by a later look than the others.
	hear(t, listen(t.Context(), d, idle+1, ""), commits+1)
	cancel()
	over.Wait()
	t.Logf("%d reads to begin with, %d in all, for %d idle followers and %d commits elsewhere", first,
		reads.Load(), idle, commits)
	if reads.Load()-first >= 300 {
		t.Errorf("%d idle followers read %d times", idle, reads.Load()-first)
	}
}

func TestWorkSaysHowFarFollowersLag(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	write(t, d, bells)
	write(t, d, `INSERT INTO bells (name, rings) VALUES ('b', 1)`)
	many := listenAll(t.Context(), d)
	write(t, d, `UPDATE bells SET rings = 2`)
	if w := d.Work(); w.Followers != 1 || w.CatchingUp != 0 || w.LongestBehind != 0 {
		t.Errorf("before a loop begins: %+v", w)
	}
	for _, err := range many { // has an item, and is not done with it
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range listen(t.Context(), d, 1, "") {
			if err != nil {
				t.Fatal(err)
			}
			if w := d.Work(); w.Followers != 2 || w.CatchingUp != 2 || w.LongestBehind <= 0 {
				t.Errorf("of two in their loops: %+v", w)
			}
			break
		}
		break
	}
	if w := d.Work(); w.Followers != 0 || w.CatchingUp != 0 || w.LongestBehind != 0 {
		t.Errorf("of those that left: %+v", w)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var over sync.WaitGroup
	over.Go(func() {
		for _, err := range listen(ctx, d, 1, "") {
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	for w := d.Work(); w.Followers == 0 || w.CatchingUp > 0; w = d.Work() { // until it has had everything
		runtime.Gosched()
	}
	cancel()
	over.Wait()
}

func TestAFollowerHearsItemsGapsAndStatuses(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	write(t, d, bells)
	write(t, d, `INSERT INTO bells (name, rings) VALUES ('b', 2)`)
	got, cursor := hear(t, listen(t.Context(), d, 1, ""), 2)
	same(t, "at first", got, []string{"b 1", "b 2"})
	go meanwhile(t, d, `UPDATE bells SET rings = 6, kept = 5, status = 'cracked'`)
	got, cursor = hear(t, listen(t.Context(), d, 1, cursor), 4)
	same(t, "then", got, []string{"b lost old rings", "b 5", "b 6", "b is cracked"})
	go meanwhile(t, d, `UPDATE bells SET rings = 9, kept = 10`)
	got, cursor = hear(t, listen(t.Context(), d, 1, cursor), 1)
	same(t, "where nothing is left", got, []string{"b lost old rings"})
	go meanwhile(t, d, `DELETE FROM bells`)
	got, _ = hear(t, listen(t.Context(), d, 1, cursor), 0)
	if len(got) != 1 || !strings.Contains(got[0], db.ErrCursorExpired.Error()) {
		t.Errorf("once it is gone: %q", got)
	}
}

func TestBehindAGapComesWhatIsLeft(t *testing.T) {
	_, d := openTable(t, bells, `INSERT INTO bells (key, name, rings, kept)
		VALUES (1, 'a', 7, 5), (2, 'b', 7, 8)`)
	gap, cursor := hear(t, listen(t.Context(), d, 1, ""), 1)
	same(t, "first", gap, []string{"a lost old rings"})
	rest, _ := hear(t, listen(t.Context(), d, 1, cursor), 3)
	same(t, "behind the gap", rest, []string{"a 5", "a 6", "a 7"})
	gap, cursor = hear(t, listen(t.Context(), d, 2, ""), 1)
	same(t, "where nothing is left", gap, []string{"b lost old rings"})
	meanwhile(t, d, `UPDATE bells SET rings = 8 WHERE key = 2`)
	rest, _ = hear(t, listen(t.Context(), d, 2, cursor), 1)
	same(t, "behind that", rest, []string{"b 8"})
}

func TestAStatusComesBehindAllThatWasWrittenBefore(t *testing.T) {
	_, d := openTable(t, bells, `INSERT INTO bells (key, name, rings, status) VALUES (1, 'a', 300, 'old')`)
	got, cursor := hear(t, listen(t.Context(), d, 1, ""), 301)
	if len(got) != 301 || got[299] != "a 300" || got[300] != "a is old" {
		t.Errorf("the last of %d are %q", len(got), got[max(0, len(got)-3):])
	}
	meanwhile(t, d, `UPDATE bells SET rings = 301 WHERE key = 1`)
	got, _ = hear(t, listen(t.Context(), d, 1, cursor), 1)
	same(t, "behind it", got, []string{"a 301"})
}

func TestAFollowerOfManyHearsWhatComesToEach(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	write(t, d, bells)
	write(t, d, `INSERT INTO bells (name, rings) VALUES ('a', 2), ('b', 0)`)
	all, again := listenAll(t.Context(), d), listenAll(t.Context(), d)
	write(t, d, `UPDATE bells SET rings = rings + 1`)
	want := []string{"a 3", "b 1"}
	got, cursor := hear(t, all, 2)
	same(t, "one follower", got, want)
	got, _ = hear(t, again, 2)
	same(t, "another", got, want)
	write(t, d, `UPDATE bells SET rings = 3 WHERE name = 'b'`)
	got, _ = hear(t, listen(t.Context(), d, 2, cursor), 2)
	same(t, "by the cursor of one", got, []string{"b 2", "b 3"})

	all = listenAll(t.Context(), d)
	go meanwhile(t, d, `DELETE FROM bells WHERE name = 'a'`,
		`INSERT INTO bells (name, rings, status) VALUES ('c', 1, 'cracked')`)
	got, _ = hear(t, all, 3)
	same(t, "of one that goes and one that comes", got, []string{"a gone", "c 1", "c is cracked"})

	all = listenAll(t.Context(), d)
	go meanwhile(t, d, `DELETE FROM bells`)
	got, _ = hear(t, all, 1) // the loop is left at the first that is gone
	same(t, "of all that go", got, []string{"b gone"})
}

func TestFollowAll_EndsWithContextAndFile(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Path(t), db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, d, bells)
	write(t, d, `INSERT INTO bells (name) VALUES ('a')`)
	why := errors.New("enough")
	for name, follow := range map[string]func(context.Context) iter.Seq2[told, error]{
		"one":  func(ctx context.Context) iter.Seq2[told, error] { return listen(ctx, d, 1, "") },
		"many": func(ctx context.Context) iter.Seq2[told, error] { return listenAll(ctx, d) },
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		items := follow(ctx)
		time.AfterFunc(time.Millisecond, func() { cancel(why) })
		for _, err := range items {
			if !errors.Is(err, why) {
				t.Errorf("%s: its context ended, and it said %v", name, err)
			}
		}
	}
	one, many := listen(t.Context(), d, 1, ""), listenAll(t.Context(), d)
	time.AfterFunc(time.Millisecond, func() { _ = d.Close() })
	for name, items := range map[string]iter.Seq2[told, error]{"one": one, "many": many} {
		for _, err := range items {
			if !errors.Is(err, db.ErrClosed) {
				t.Errorf("%s: its file was closed, and it said %v", name, err)
			}
		}
	}
}

func TestCursorsBelongToOneList(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	err := d.Read(t.Context(), "cursors", func(rx *db.Rx) error {
		cursor := rx.Store().Cursor("list", []int64{-1, 1 << 62}, "", "text")
		var numbers [2]int64
		var a, b string
		if err := rx.Store().ReadCursor("list", cursor, numbers[:], &a, &b); err != nil ||
			numbers != [2]int64{-1, 1 << 62} || a != "" || b != "text" {
			t.Errorf("it came back as %v, %q, %q: %v", numbers, a, b, err)
		}
		for name, read := range map[string]func() error{
			"another list": func() error { return rx.Store().ReadCursor("other", cursor, numbers[:], &a, &b) },
			"fewer values": func() error { return rx.Store().ReadCursor("list", cursor, numbers[:1], &a) },
			"more values":  func() error { return rx.Store().ReadCursor("list", cursor, numbers[:], &a, &b, &a) },
			"half a cursor": func() error {
				return rx.Store().ReadCursor("list", cursor[:len(cursor)/2], numbers[:], &a,
					&b)
			},
			"no base64":       func() error { return rx.Store().ReadCursor("list", "?", numbers[:], &a, &b) },
			"nothing":         func() error { return rx.Store().ReadCursor("list", "", numbers[:], &a, &b) },
			"a huge length":   func() error { return rx.Store().ReadCursor("list", "AP____8P", numbers[:], &a, &b) },
			"another's bytes": func() error { return rx.Store().ReadCursor("list", "AAAA", numbers[:], &a, &b) },
		} {
			if err := read(); !errors.Is(err, db.ErrInvalid) || db.Hint(err) == "" {
				t.Errorf("%s: %v", name, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestACursorOfNoPlaceIsNone(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
		for _, at := range []stores.Place{{Key: 0, Seen: 1}, {Key: -1, Seen: 1}, {Key: 1, Seen: -1}} {
			if _, err := ringing.ReadCursor(rx, ringing.Cursor(rx, at)); !errors.Is(err, db.ErrInvalid) {
				t.Errorf("%+v gave %v", at, err)
			}
		}
		begin := stores.Place{Key: 1, Status: "new"}
		if at, err := ringing.ReadCursor(rx, ringing.Cursor(rx, begin)); at != begin || err != nil {
			t.Errorf("%+v became %+v, %v", begin, at, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAPageIsBoundedByItemsAndByBytes(t *testing.T) {
	weights := []int{1, 1, paging.MaxBytes * 3, 1, 1}
	read := 0
	items := func(yield func(int, error) bool) {
		for i := range weights {
			read++
			if !yield(i, nil) {
				return
			}
		}
	}
	for _, c := range []struct {
		limit int
		from  int
		want  []int
		next  string
	}{{2, 0, []int{0, 1}, "1"}, {0, 0, []int{0, 1}, "1"}, {1000, 0, []int{0, 1}, "1"}} {
		read = 0
		room, err := paging.RoomFor(c.limit)
		if err != nil {
			t.Fatal(err)
		}
		page, err := stores.FillPage(room, items, func(i *int) int { return weights[*i] },
			func(i *int) string { return fmt.Sprint(*i) })
		if err != nil || !slices.Equal(page.Items, c.want) || page.Next != c.next || read != len(c.want)+1 {
			t.Errorf("a page of %d is %+v after %d items: %v", c.limit, page, read, err)
		}
	}
	weights[1] = paging.MaxBytes - 1 // with the first they fill it
	room, _ := paging.RoomFor(0)
	page, err := stores.FillPage(room, items, func(i *int) int { return weights[*i] },
		func(i *int) string { return fmt.Sprint(*i) })
	if err != nil || !slices.Equal(page.Items, []int{0, 1}) || page.Next != "1" {
		t.Errorf("two that fill a page gave %+v: %v", page, err)
	}
	weights = weights[2:]
	room, _ = paging.RoomFor(0)
	page, err = stores.FillPage(room, items, func(i *int) int { return weights[*i] },
		func(i *int) string { return fmt.Sprint(*i) })
	if err != nil || !slices.Equal(page.Items, []int{0}) || page.Next != "0" {
		t.Errorf("an item that fills a page alone gave %+v: %v", page, err)
	}
	for _, limit := range []int{-1, db.MaxLimit + 1} {
		if _, err := paging.RoomFor(limit); !errors.Is(err, db.ErrInvalid) || db.Hint(err) == "" {
			t.Errorf("a limit of %d gave %v", limit, err)
		}
	}
}

func TestWhatComesBehindAPrefix(t *testing.T) {
	for prefix, want := range map[string]string{
		"a": "b", "az": "a{", "a\U0010ffff": "b", "\ud7ff": "\ue000",
		"é": "ê",
	} {
		if got := paging.AfterPrefix(prefix); got != want {
			t.Errorf("behind %q comes %q, not %q", prefix, got, want)
		}
	}
	last := strings.Repeat("\U0010ffff", txn.MaxID/len("\U0010ffff"))
	if err := txn.CheckID("last", last); err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"", "\U0010ffff", last} {
		if end := paging.AfterPrefix(prefix); end <= last {
			t.Errorf("behind %q comes %q, before an id", prefix, end)
		}
	}
}

// However many there are, a read looks at a thousand of them.
func TestALookAtManyIsShortReads(t *testing.T) {
	d, ctx := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal}), t.Context()
	write(t, d, bells)
	write(t, d, `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n
		WHERE i < 2500) INSERT INTO bells (name) SELECT 'bell ' || i FROM n`)
	var reads, most atomic.Int64
	items := stores.FollowAll(ctx, d, ringing, t.Name(),
		func(rx *db.Rx, behind, last int64) (heads []stores.Head[string], err error) {
			heads, err = bellsBetween(rx, behind, last)
			reads.Add(1)
			most.Store(max(most.Load(), int64(len(heads))))
			return heads, err
		})
	if reads.Load() < 3 || most.Load() != 1000 {
		t.Errorf("the first look took %d reads, of at most %d", reads.Load(), most.Load())
	}
	meanwhile(t, d, `DELETE FROM bells WHERE name = 'bell 1000'`,
		`UPDATE bells SET rings = rings + 1 WHERE name = 'bell 2500'`,
		`INSERT INTO bells (name, rings) VALUES ('new', 1)`)
	got, _ := hear(t, items, 3)
	slices.Sort(got)
	if want := []string{"bell 1000 gone", "bell 2500 1", "new 1"}; !slices.Equal(got, want) {
		t.Errorf("it was told %q, not %q", got, want)
	}
}

// Where a look at all takes long, and only that finds what changed, all of it is told.
func TestFollow_LongPollsMissNothing(t *testing.T) {
	stores.WithLongPolls(t)
	d, ctx := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal}), t.Context()
	write(t, d, bells)
	write(t, d, `INSERT INTO bells (name, status)
		VALUES ('open', 'new'), ('closed', 'done'), ('doomed', 'done'), ('ending', 'new'), ('removed', 'new')`)
	items := listenAll(ctx, d)
	next, stop := iter.Pull2(items)
	defer stop()
	for _, step := range []struct{ change, told string }{
		{`UPDATE bells SET rings = rings + 1 WHERE name = 'open'`, "open 1"},
		{`UPDATE bells SET rings = rings + 1 WHERE name = 'closed'`, "closed 1"},
		{`DELETE FROM bells WHERE name = 'doomed'`, "doomed gone"},
		{`DELETE FROM bells WHERE name = 'removed'`, "removed gone"},
		{`UPDATE bells SET status = 'done' WHERE name = 'ending'`, "ending is done"},
		{`INSERT INTO bells (name, rings) VALUES ('fresh', 1)`, "fresh 1"},
		{`UPDATE bells SET rings = rings + 1 WHERE name = 'fresh'`, "fresh 2"},
		{`INSERT INTO bells (name, rings, status) VALUES ('short', 0, 'done')`, "short is done"},
		{`UPDATE bells SET rings = rings + 1 WHERE name = 'open'`, "open 2"},
	} {
		write(t, d, step.change)
		item, err, _ := next()
		told := fmt.Sprint(item.Of, " ", item.Item)
		switch {
		case item.Gone:
			told = item.Of + " gone"
		case item.What == db.StatusChanged:
			told = item.Of + " is " + item.Status
		}
		if err != nil || told != step.told {
			t.Fatalf("behind %s it was told %q, %v", step.change, told, err)
		}
	}
}

// One goes before it was read, while the last poll still shows it.
func TestFollow_RemovalIsReportedOnce(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	write(t, d, bells)
	write(t, d, `INSERT INTO bells (name) VALUES ('first')`)
	items := listenAll(t.Context(), d)
	must(t, d.Write(t.Context(), "ring", func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE bells SET rings = 1`)
		if err == nil {
			_, err = tx.Exec(`INSERT INTO bells (name, rings, status) VALUES ('doomed', 1, 'done')`)
		}
		return err
	}))
	next, stop := iter.Pull2(items)
	defer stop()
	hears := func(want string) {
		t.Helper()
		item, err, _ := next()
		if got := fmt.Sprint(item.Of, " ", item.Item, " ", item.Gone); err != nil || got != want {
			t.Fatalf("it was told %q, %v; not %q", got, err, want)
		}
	}
	hears("first 1 false")
	write(t, d, `DELETE FROM bells WHERE name = 'doomed'`)
	hears("doomed 0 true")
	for ring := range 3 {
		write(t, d, `UPDATE bells SET rings = rings + 1`)
		hears(fmt.Sprint("first ", ring+2, " false"))
	}
	write(t, d, `INSERT INTO bells (name, rings) VALUES ('fresh', 1)`)
	hears("fresh 1 false")
}

// A longContext counts what waits for its end, which does not come.
type longContext struct {
	context.Context
	waiting atomic.Int64
}

func (*longContext) Done() <-chan struct{} { return make(chan struct{}) }

func (c *longContext) AfterFunc(func()) (stop func() bool) {
	c.waiting.Add(1)
	return sync.OnceValue(func() bool {
		c.waiting.Add(-1)
		return true
	})
}

func TestWhoStopsFollowingLeavesNothingWithItsContext(t *testing.T) {
	d, ctx := dbtest.Open(t, db.Options{}), &longContext{Context: t.Context()}
	write(t, d, bells)
	write(t, d, `INSERT INTO bells (name) VALUES ('one')`)
	items := listenAll(ctx, d)
	meanwhile(t, d, `UPDATE bells SET rings = 1`)
	if told, _ := hear(t, items, 1); len(told) != 1 || told[0] != "one 1" {
		t.Errorf("it was told %q", told)
	}
	if n := ctx.waiting.Load(); n > 0 {
		t.Errorf("%d calls wait for the end of the context", n)
	}
}

func TestWhoNeverBeginsToFollowLeavesNothing(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	write(t, d, bells)
	ctx, cancel := context.WithCancel(t.Context())
	_ = listenAll(ctx, d) // its loop is never run
	if n := d.Work().Followers; n != 1 {
		t.Errorf("%d follow", n)
	}
	cancel()
	for began := time.Now(); d.Work().Followers > 0; runtime.Gosched() {
		if time.Since(began) > time.Minute {
			t.Fatal("its list is looked at for ever")
		}
	}
}

// A look rests several times as long as it worked: one that waited for a server would have its
// followers wait for minutes.
func TestALookDoesNotRestFromWaiting(t *testing.T) {
	d := dbtest.Open(t, db.Options{Readers: 1})
	held, release := make(chan struct{}), make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		if err := d.Read(t.Context(), "test",
			func(*db.Rx) error { close(held); <-release; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-held
	began, free := time.Now(), time.Time{}
	reading.Go(func() {
		<-time.After(20 * time.Millisecond)
		free = time.Now()
		close(release)
	})
	worked, err := stores.WorkOfAPoll(t.Context(), d, func(*db.Rx) error { return nil })
	whole := time.Since(began)
	reading.Wait()
	if most := whole - free.Sub(began); err != nil || worked > most {
		t.Errorf("of %v, %v at most were no wait, and %v counted as work: %v", whole, most, worked, err)
	}
}

// What was committed between its read and its wait has had its look, which did not know of it.
func TestAFollowerAsksForTheLookThatItMissed(t *testing.T) {
	if !stores.AskedAfter(3, 4) {
		t.Error("it waits for the next commit")
	}
	if stores.AskedAfter(4, 4) {
		t.Error("it asks for a look although nothing was committed since it read")
	}
}

// A look that panics ends those who wait for it, and nobody who comes later, though somebody uses
// what it looked for still.
func TestFollow_ObserverPanicEndsIt(t *testing.T) {
	var panics atomic.Bool
	d := dbtest.Open(t, db.Options{Observe: func(o db.Observation) {
		if panics.Load() && o.Why == "poll for followers" {
			panic("observer")
		}
	}})
	write(t, d, bells)
	write(t, d, `INSERT INTO bells (name, rings) VALUES ('b', 1)`)
	first := func(*db.Rx) (stores.Place, error) { return stores.Place{Key: 1}, nil }
	follow := func(told func() bool) error {
		for _, err := range stores.Follow(t.Context(), d, ringing, first) {
			if err != nil || !told() {
				return err
			}
		}
		return nil
	}
	if err := follow(func() bool {
		panics.Store(true)
		ended := make(chan error)
		go func() { ended <- follow(func() bool { return true }) }()
		for waits := true; waits; {
			write(t, d, `UPDATE bells SET rings = rings + 1`)
			select {
			case err := <-ended:
				wantsPanic(t, "who waits", err, "observer")
				waits = false
			default:
			}
		}
		panics.Store(false)
		items := 0
		if err := follow(func() bool {
			items++
			write(t, d, `UPDATE bells SET rings = rings + 1`)
			return items < 1000
		}); err != nil {
			t.Errorf("who came later: %v", err)
		}
		return false
	}); err != nil {
		t.Error(err)
	}
}
