package storetest

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

// A fault breaks one thing. The law that is named must fail, and with these words.
type fault struct {
	name, store, law, words string
	engine                  func(e *engine) // the fault of the file; nil: none
	laws                    func() []law    // of the store with the fault in its adapter; nil: the store's own
}

// faults are what the suite must notice. docs/grammar.md's sentences name them, in
// grammar_test.go.
var faults = slices.Concat(engineFaults, listFaults, streamFaults, holdFaults)

func anotherFile(e *engine) {
	e.shared.Again = func(t *testing.T, _ *db.DB) *db.DB { return e.open(t) }
}

var engineFaults = []fault{
	{
		name: "another handle has another file", store: "checkpoints", law: "a read is one snapshot",
		words: "the list afterwards", engine: anotherFile,
	},
	{
		name: "another handle has another file, where one follows", store: "live",
		law: "a follower gets what is there and what comes", words: "not found", engine: anotherFile,
	},
	{
		name: "another handle has another file, where one claims", store: "agents",
		law: "of those who take one wins", words: "was won 2 times", engine: anotherFile,
	},
	{
		name: "every handle has one file", store: "workers", law: "a transaction of another file is ErrInvalid",
		words: "delete gave <nil>",
		engine: func(e *engine) {
			open, path := e.open, ""
			e.open = func(t *testing.T) *db.DB {
				if path == "" {
					path = open(t).Path()
				}
				return openAt(t, path)
			}
		},
	},
	{
		name: "an event in five is lost", store: "live", law: "sequences are dense, whoever writes",
		words: "behind 3 comes 5",
		engine: spoiled(`CREATE TRIGGER broken AFTER INSERT ON live_events WHEN new.id % 5 = 0 BEGIN DELETE
			FROM live_events WHERE id = new.id; END`),
	},
	{
		name: "a record in five is lost", store: "runs", law: "a follower gets what is there and what comes",
		words: "it never came",
		engine: spoiled(`CREATE TRIGGER broken AFTER INSERT ON run_records WHEN new.id % 5 = 0 BEGIN DELETE
			FROM run_records WHERE id = new.id; END`),
	},
	{
		name: "a text loses what is behind a NUL", store: "workers",
		law: "a value comes back byte for byte or is refused", words: "NUL came back as",
		engine: spoiled(`CREATE TRIGGER broken AFTER INSERT ON worker_entries WHEN instr(new.content, char(0)) > 0
BEGIN UPDATE worker_entries SET content = substr(content, 1, instr(content, char(0)) - 1)
	WHERE id = new.id; END`),
	},
	{
		name: "JSON is written anew", store: "checkpoints", law: "a value comes back byte for byte or is refused",
		words: "blanks in JSON came back as",
		engine: spoiled(`CREATE TRIGGER broken AFTER INSERT ON checkpoint_documents
BEGIN UPDATE checkpoint_documents SET document = CAST(json(CAST(document AS TEXT)) AS BLOB)
	WHERE checkpoint = new.checkpoint; END`),
	},
	{
		name: "reservations are lost", store: "reservations", law: "of those who take one wins",
		words: "was won 6 times",
		engine: spoiled(`CREATE TRIGGER broken AFTER INSERT ON leases BEGIN DELETE FROM leases
			WHERE epoch = new.epoch; END`),
	},
	{
		name: "a claim has the epoch of the one before", store: "checkpoints",
		law: "epochs grow, and who was replaced is refused", words: "a write of who was replaced gave <nil>",
		engine: spoiled(`CREATE TRIGGER broken AFTER UPDATE OF state ON checkpoints WHEN new.state = 'claimed'
BEGIN UPDATE checkpoints SET epoch = (id << 24) + 1 WHERE id = new.id; END`),
	},
	{
		name: "what was released is not given up", store: "reservations",
		law: "epochs grow, and who was replaced is refused", words: "with epoch 1 is no longer held",
		engine: spoiled(`CREATE TRIGGER broken BEFORE DELETE ON leases BEGIN SELECT raise(IGNORE); END`),
	},
	{
		name: "a removal leaves the thing", store: "agents", law: "scopes are apart",
		words:  "what is left of",
		engine: spoiled(`CREATE TRIGGER broken BEFORE DELETE ON agents BEGIN SELECT raise(IGNORE); END`),
	},
}

type (
	runThings    = things[runs.RunRef, runs.Filter, runs.RunSummary, runs.RunSummary]
	runWrapped   = wrapped[runs.RunRef, runs.Filter, runs.RunSummary, runs.RunSummary]
	runPage      = db.Page[runs.RunSummary]
	agentThings  = things[string, agents.Filter, agents.Entry, agents.Entry]
	agentWrapped = wrapped[string, agents.Filter, agents.Entry, agents.Entry]
)

// A wrapped lister has one of its calls replaced.
type wrapped[R, F, G, T any] struct {
	lister[R, F, G, T]
	d        *db.DB
	get      func(ctx context.Context, ref R) (G, error)
	page     func(ctx context.Context, filter F, at db.At) (db.Page[T], error)
	pageTx   func(rx *db.Rx, filter F, at db.At) (db.Page[T], error)
	all      func(ctx context.Context, filter F) iter.Seq2[T, error]
	find     func(ctx context.Context, prefix string, limit int) ([]R, error)
	delete   func(ctx context.Context, ref R) error
	deleteTx func(tx *db.Tx, ref R) error
}

func (w *wrapped[R, F, G, T]) Get(ctx context.Context, ref R) (G, error) { return w.get(ctx, ref) }

func (w *wrapped[R, F, G, T]) Page(ctx context.Context, filter F, at db.At) (db.Page[T], error) {
	return w.page(ctx, filter, at)
}

func (w *wrapped[R, F, G, T]) PageTx(rx *db.Rx, filter F, at db.At) (db.Page[T], error) {
	return w.pageTx(rx, filter, at)
}

func (w *wrapped[R, F, G, T]) All(ctx context.Context, filter F) iter.Seq2[T, error] {
	return w.all(ctx, filter)
}

func (w *wrapped[R, F, G, T]) Find(ctx context.Context, prefix string, limit int) ([]R, error) {
	return w.find(ctx, prefix, limit)
}

func (w *wrapped[R, F, G, T]) Delete(ctx context.Context, ref R) error { return w.delete(ctx, ref) }

func (w *wrapped[R, F, G, T]) DeleteTx(tx *db.Tx, ref R) error { return w.deleteTx(tx, ref) }

// inList breaks the adapter of a list.
func inList[R, F, G, T any](open lists[R, F, G, T],
	spoil func(s *things[R, F, G, T], w *wrapped[R, F, G, T]),
) func() []law {
	return lists[R, F, G, T](func(t *testing.T, d *db.DB, scope string) things[R, F, G, T] {
		s := open(t, d, scope)
		l := s.lister
		w := &wrapped[R, F, G, T]{l, d, l.Get, l.Page, l.PageTx, l.All, l.Find, l.Delete, l.DeleteTx}
		spoil(&s, w)
		s.lister = w
		return s
	}).laws
}

// inRuns breaks the list of runs.
func inRuns(spoil func(s *runThings, w *runWrapped)) func() []law { return inList(listedRuns, spoil) }

func inAgents(spoil func(s *agentThings, w *agentWrapped)) func() []law {
	return inList(listedAgents, spoil)
}

// inPages breaks the pages of runs.
func inPages(page func(w *runWrapped, page runPage, at db.At) (runPage, error)) func() []law {
	return inRuns(func(s *runThings, w *runWrapped) {
		w.page = func(ctx context.Context, f runs.Filter, at db.At) (runPage, error) {
			got, err := w.lister.Page(ctx, f, at)
			if err != nil {
				return got, err
			}
			return page(w, got, at)
		}
	})
}

var listFaults = []fault{
	{
		name: "a missing run is no error", store: "runs", law: "a thing that is missing is ErrNotFound",
		words: "get gave <nil>",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			w.get = func(ctx context.Context, ref runs.RunRef) (runs.RunSummary, error) {
				run, _ := w.lister.Get(ctx, ref)
				return run, nil
			}
		}),
	},
	{
		name: "a missing run is another error", store: "runs", law: "a thing that is missing is ErrNotFound",
		words: "get gave no rows",
		laws: inRuns(func(_ *runThings, w *runWrapped) {
			w.get = func(context.Context, runs.RunRef) (runs.RunSummary, error) {
				return runs.RunSummary{}, errors.New("no rows")
			}
		}),
	},
	{
		name: "an error names another call", store: "runs", law: "a thing that is missing is ErrNotFound",
		words: "get calls itself otherwise",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			w.get = func(ctx context.Context, ref runs.RunRef) (runs.RunSummary, error) {
				run, err := w.lister.Get(ctx, ref)
				return run, renamed(err, "list runs")
			}
		}),
	},
	{
		name: "an error helps nobody", store: "runs", law: "limits are 50, and 1 to 1000",
		words: "find has no hint",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			w.find = func(ctx context.Context, prefix string, limit int) ([]runs.RunRef, error) {
				found, err := w.lister.Find(ctx, prefix, limit)
				return found, unhinted(err)
			}
		}),
	},
	{
		name: "a missing run can be deleted", store: "runs", law: "a thing that is missing is ErrNotFound",
		words: "delete gave <nil>",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			w.delete = func(ctx context.Context, ref runs.RunRef) error {
				return forgiven(w.lister.Delete(ctx, ref))
			}
		}),
	},
	{
		name: "a missing agent can't be deleted", store: "agents", law: "a thing that is missing is ErrNotFound",
		words: "there is no such agent",
		laws: inAgents(func(s *agentThings, w *agentWrapped) {
			w.delete = func(ctx context.Context, id string) error {
				if _, err := w.lister.Get(ctx, id); err != nil {
					return errors.New("there is no such agent")
				}
				return w.lister.Delete(ctx, id)
			}
		}),
	},
	{
		name: "an empty list is an error", store: "runs", law: "a scope where nothing was written has empty lists",
		words: "there is nothing",
		laws: inPages(func(_ *runWrapped, page runPage, _ db.At) (runPage, error) {
			if len(page.Items) == 0 {
				return page, errors.New("there is nothing")
			}
			return page, nil
		}),
	},
	{
		name: "a limit is taken as it comes", store: "runs", law: "limits are 50, and 1 to 1000",
		words: "list with the limit 1001 gave <nil>",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			w.page = func(ctx context.Context, f runs.Filter, at db.At) (runPage, error) {
				at.Limit = min(max(at.Limit, 0), db.MaxLimit)
				return w.lister.Page(ctx, f, at)
			}
		}),
	},
	{
		name: "the limit 0 is that of a loop", store: "runs", law: "limits are 50, and 1 to 1000",
		words: "the limit 0 gives 200 items",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			w.page = func(ctx context.Context, f runs.Filter, at db.At) (runPage, error) {
				at.Limit = cmp.Or(at.Limit, 200)
				return w.lister.Page(ctx, f, at)
			}
		}),
	},
	{
		name: "a page never ends at its bytes", store: "runs", law: "a page ends at a MiB",
		words: "how many items the pages of large items have",
		laws: inPages(func(w *runWrapped, page runPage, at db.At) (runPage, error) {
			for page.Next != "" && len(page.Items) < cmp.Or(at.Limit, paging.DefaultLimit) {
				next, err := w.lister.Page(context.Background(), runs.Filter{},
					db.At{After: page.Next, Limit: cmp.Or(at.Limit, paging.DefaultLimit) - len(page.Items)})
				if err != nil {
					return page, err
				}
				page = runPage{Items: append(page.Items, next.Items...), Next: next.Next}
			}
			return page, nil
		}),
	},
	{
		name: "what is too large for a page is left out", store: "runs", law: "a page ends at a MiB",
		words: `["0" `,
		laws: inPages(func(_ *runWrapped, page runPage, _ db.At) (runPage, error) {
			page.Items = slices.DeleteFunc(page.Items,
				func(r runs.RunSummary) bool { return len(r.Intent) > paging.MaxBytes })
			return page, nil
		}),
	},
	{
		name: "the last page has a next one", store: "runs", law: "pages of any size give the list",
		words: "and a next one",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			last := ""
			w.page = func(ctx context.Context, f runs.Filter, at db.At) (runPage, error) {
				if at.After == "the end" {
					return runPage{}, nil
				}
				page, err := w.lister.Page(ctx, f, at)
				if page.Next == "" && last != "the end" {
					page.Next = "the end"
				}
				last = page.Next
				return page, err
			}
		}),
	},
	{
		name: "the oldest come first", store: "runs", law: "pages of any size give the list",
		words: "the list in pages of 1",
		laws:  inRuns(func(s *runThings, _ *runWrapped) { s.newest = false }),
	},
	{
		name: "all is one page", store: "runs", law: "limits are 50, and 1 to 1000", words: "all of many",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			w.all = func(ctx context.Context, f runs.Filter) iter.Seq2[runs.RunSummary, error] {
				return paging.All(func(at db.At) (runPage, error) {
					page, err := w.lister.Page(ctx, f, at)
					page.Next = ""
					return page, err
				})
			}
		}),
	},
	{
		name: "a page is read in parts", store: "runs", law: "a page is one snapshot",
		words: "of 4 things that come and go together",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			w.page = func(ctx context.Context, f runs.Filter, at db.At) (page runPage, err error) {
				for next := (db.At{Limit: 1}); err == nil; {
					var part runPage
					part, err = w.lister.Page(ctx, f, next)
					page.Items = append(page.Items, part.Items...)
					if next.After = part.Next; next.After == "" {
						break
					}
					<-time.After(time.Millisecond) // others write meanwhile
				}
				return page, err
			}
		}),
	},
	{
		name: "a loop is one transaction", store: "runs", law: "no transaction is open in the caller's loop",
		words: "a delete in the caller's loop",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			w.all = func(ctx context.Context, f runs.Filter) iter.Seq2[runs.RunSummary, error] {
				return func(yield func(runs.RunSummary, error) bool) {
					_ = w.d.Read(ctx, "storetest", func(rx *db.Rx) error {
						page, err := w.lister.PageTx(rx, f, db.At{})
						for _, run := range page.Items {
							if !yield(run, err) {
								break
							}
						}
						return err
					})
				}
			}
		}),
	},
	{
		name: "a cursor counts items", store: "runs", law: "a page goes on where its last thing was removed",
		words: "what comes behind the removed one",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			w.page = func(ctx context.Context, f runs.Filter, at db.At) (runPage, error) {
				skip, _ := strconv.Atoi(at.After)
				page, err := w.lister.Page(ctx, f, db.At{Limit: db.MaxLimit})
				end := min(skip+cmp.Or(at.Limit, paging.DefaultLimit), len(page.Items))
				next := ""
				if end < len(page.Items) {
					next = strconv.Itoa(end)
				}
				return runPage{Items: page.Items[min(skip, end):end], Next: next}, err
			}
		}),
	},
	{
		name: "an item at the edge of pages comes twice", store: "runs", law: "pages of any size give the list",
		words: "the list in pages of 1",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			var edge []runs.RunSummary
			w.page = func(ctx context.Context, f runs.Filter, at db.At) (runPage, error) {
				page, err := w.lister.Page(ctx, f, at)
				if at.After != "" {
					page.Items = slices.Concat(edge, page.Items)[:len(page.Items)]
				}
				if len(page.Items) > 0 {
					edge = page.Items[len(page.Items)-1:]
				}
				return page, err
			}
		}),
	},
	{
		name: "any cursor is a cursor", store: "runs", law: "a cursor belongs to its list",
		words: "the cursor of another list gave <nil>",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			w.page = func(ctx context.Context, f runs.Filter, at db.At) (runPage, error) {
				page, err := w.lister.Page(ctx, f, at)
				if errors.Is(err, db.ErrInvalid) {
					at.After = ""
					return w.lister.Page(ctx, f, at)
				}
				return page, err
			}
		}),
	},
	{
		name: "a cursor is no text", store: "runs", law: "a cursor belongs to its list",
		words: "the cursor is no plain text",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			w.page = func(ctx context.Context, f runs.Filter, at db.At) (runPage, error) {
				at.After = strings.TrimPrefix(at.After, "\x00")
				page, err := w.lister.Page(ctx, f, at)
				if page.Next != "" {
					page.Next = "\x00" + page.Next
				}
				return page, err
			}
		}),
	},
	{
		name: "find gives the newest first", store: "runs", law: "what begins with a prefix is found",
		words: `what "" finds, at most 0`,
		laws: inRuns(func(s *runThings, w *runWrapped) {
			w.find = func(ctx context.Context, prefix string, limit int) ([]runs.RunRef, error) {
				found, err := w.lister.Find(ctx, prefix, limit)
				slices.Reverse(found)
				return found, err
			}
		}),
	},
	{
		name: "find takes a prefix for the beginning of a range", store: "runs",
		law: "what begins with a prefix is found", words: `what "thing-000011" finds`,
		laws: inRuns(func(s *runThings, w *runWrapped) {
			w.find = func(ctx context.Context, prefix string, limit int) ([]runs.RunRef, error) {
				if prefix != "" && prefix < "u" {
					prefix = prefix[:len(prefix)-1]
				}
				return w.lister.Find(ctx, prefix, limit)
			}
		}),
	},
	{
		name: "the transaction given is not the one that is used", store: "runs",
		law: "a function that fails leaves nothing", words: "what is there after a",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			var later []runs.RunRef // to be deleted in a transaction of its own
			w.deleteTx = func(_ *db.Tx, ref runs.RunRef) error {
				later = append(later, ref)
				return nil
			}
			w.page = func(ctx context.Context, f runs.Filter, at db.At) (runPage, error) {
				for _, ref := range later {
					if err := w.lister.Delete(ctx, ref); err != nil {
						return runPage{}, err
					}
				}
				later = nil
				return w.lister.Page(ctx, f, at)
			}
		}),
	},
	{
		name: "a form with Tx answers otherwise", store: "runs", law: "a call and its form with Tx agree",
		words: "page:",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			w.pageTx = func(rx *db.Rx, f runs.Filter, at db.At) (runPage, error) {
				page, err := w.lister.PageTx(rx, f, at)
				slices.Reverse(page.Items)
				return page, err
			}
		}),
	},
	{
		name: "a list in a transaction is short", store: "runs", law: "a transaction sees what it did",
		words: "what the transaction lists",
		laws: inRuns(func(_ *runThings, w *runWrapped) {
			w.pageTx = func(rx *db.Rx, f runs.Filter, at db.At) (runPage, error) {
				page, err := w.lister.PageTx(rx, f, at)
				page.Items = page.Items[1:]
				return page, err
			}
		}),
	},
	{
		name: "the end of the context is not its cause", store: "runs", law: "the end of the context is its cause",
		words: "get gave context canceled",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			w.get = func(ctx context.Context, ref runs.RunRef) (runs.RunSummary, error) {
				if ctx.Err() != nil {
					return runs.RunSummary{}, ctx.Err()
				}
				return w.lister.Get(ctx, ref)
			}
		}),
	},
	{
		name: "pruning takes what runs", store: "runs", law: "what has ended is pruned by the policy",
		words: "is to stay",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			prune := s.prune
			s.prune = func(ctx context.Context, policy db.Policy) (db.Pruned, error) {
				done, err := prune(ctx, policy)
				if done.Removed > 0 && !policy.DryRun {
					err = w.Delete(ctx, nthRun(3))
				}
				return done, err
			}
		}),
	},
	{
		name: "pruning keeps one more", store: "runs", law: "what has ended is pruned by the policy",
		words: "one, only counted:",
		laws: inRuns(func(s *runThings, _ *runWrapped) {
			prune := s.prune
			s.prune = func(ctx context.Context, policy db.Policy) (db.Pruned, error) {
				if policy.Count > 0 {
					policy.Count++
				}
				return prune(ctx, policy)
			}
		}),
	},
	{
		name: "a pin does nothing", store: "runs", law: "what is pinned no limit removes", words: "pinned is []",
		laws: inRuns(func(s *runThings, _ *runWrapped) {
			s.pins = spoiledPins{s.pins, func(error) error { return nil }, true}
		}),
	},
	{
		name: "a pin saves from age alone", store: "runs", law: "what is pinned no limit removes",
		words: "beside a pin {Age:0s Count:-1",
		laws: inRuns(func(s *runThings, _ *runWrapped) {
			prune, pins := s.prune, s.pins
			s.prune = func(ctx context.Context, policy db.Policy) (db.Pruned, error) {
				if policy.Age == 0 {
					if err := pins.Unpin(ctx, nthRun(0)); err != nil {
						return db.Pruned{}, err
					}
				}
				return prune(ctx, policy)
			}
		}),
	},
	{
		name: "a pin goes with its run", store: "runs", law: "what is pinned no limit removes",
		words: "what took a pinned name was removed",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			pins := s.pins
			w.delete = func(ctx context.Context, ref runs.RunRef) error {
				return errors.Join(pins.Unpin(ctx, ref), w.lister.Delete(ctx, ref))
			}
		}),
	},
	{
		name: "a missing run can be pinned", store: "runs", law: "what is pinned no limit removes",
		words: "a pin of what is missing gave <nil>",
		laws: inRuns(func(s *runThings, _ *runWrapped) {
			s.pins = spoiledPins{s.pins, forgiven, false}
		}),
	},
	{
		name: "a failed pin calls itself a get", store: "runs", law: "what is pinned no limit removes",
		words: "a pin calls itself otherwise",
		laws: inRuns(func(s *runThings, _ *runWrapped) {
			s.pins = spoiledPins{s.pins, func(err error) error { return renamed(err, "get run") }, false}
		}),
	},
	{
		name: "a missing run can't be unpinned", store: "runs", law: "what is pinned no limit removes",
		words: "to unpin what is missing",
		laws: inRuns(func(s *runThings, w *runWrapped) {
			s.pins = strictPins{s.pins, func(ctx context.Context, ref runs.RunRef) error {
				return second(w.Get(ctx, ref))
			}}
		}),
	},
	{
		name: "a zero time is the zero time", store: "runs", law: "a zero time is that of the transaction",
		words: "it began at 0001-01-01",
		laws: inRuns(func(s *runThings, _ *runWrapped) {
			s.began = func(runs.RunSummary) time.Time { return time.Time{} }
		}),
	},
}

// renamed is an error of another operation.
func renamed(err error, op string) error {
	var e *db.Error
	if !errors.As(err, &e) {
		return err
	}
	other := *e
	other.Op = op
	return &other
}

func unhinted(err error) error {
	var e *db.Error
	if !errors.As(err, &e) {
		return err
	}
	other := *e
	other.Hint = ""
	other.Err = errors.New(e.Err.Error())
	if errors.Is(err, db.ErrInvalid) {
		other.Err = db.ErrInvalid
	}
	return &other
}

func forgiven(err error) error {
	if errors.Is(err, db.ErrNotFound) {
		return nil
	}
	return err
}

// spoiledPins change the errors of a Pin, or do nothing.
type spoiledPins struct {
	pinner[runs.RunRef]
	changed func(error) error
	idle    bool
}

func (p spoiledPins) Pin(ctx context.Context, ref runs.RunRef) error {
	if p.idle {
		return nil
	}
	return p.changed(p.pinner.Pin(ctx, ref))
}

func (p spoiledPins) PinTx(tx *db.Tx, ref runs.RunRef) error {
	if p.idle {
		return nil
	}
	return p.changed(p.pinner.PinTx(tx, ref))
}

// strictPins unpin only items that exist.
type strictPins struct {
	pinner[runs.RunRef]
	look func(ctx context.Context, ref runs.RunRef) error
}

func (p strictPins) Unpin(ctx context.Context, ref runs.RunRef) error {
	return errors.Join(p.look(ctx, ref), p.pinner.Unpin(ctx, ref))
}

type (
	liveStream  = followed[string, live.RunEventRecord]
	agentStream = followed[string, agents.Change]
)

// inStream breaks the adapter of streams.
func inStream[R comparable, X any](open streams[R, X], spoil func(s *followed[R, X])) func() []law {
	return streams[R, X](func(t *testing.T, d *db.DB, scope string) followed[R, X] {
		s := open(t, d, scope)
		spoil(&s)
		return s
	}).laws
}

func inLive(spoil func(s *liveStream)) func() []law { return inStream(followedLive, spoil) }

// A teller passes the items that a follower gets on to yield, changed; false ends the loop.
type teller func(f live.Followed, err error, yield func(live.Followed, error) bool) bool

// inNews breaks what followers of live runs get; each has a teller of its own.
func inNews(tell func() teller) func() []law {
	return inLive(func(s *liveStream) {
		follow, followAll := s.follow, s.followAll
		through := func(items iter.Seq2[live.Followed, error]) iter.Seq2[live.Followed, error] {
			return func(yield func(live.Followed, error) bool) {
				tell := tell()
				for f, err := range items {
					if !tell(f, err, yield) {
						return
					}
				}
			}
		}
		s.follow = func(ctx context.Context, ref, cursor string) iter.Seq2[live.Followed, error] {
			return through(follow(ctx, ref, cursor))
		}
		s.followAll = func(ctx context.Context, status string) iter.Seq2[live.Followed, error] {
			return through(followAll(ctx, status))
		}
	})
}

// changed is inNews for faults that concern each item alone.
func changed(change func(f live.Followed, err error) (_ live.Followed, left bool, _ error)) func() []law {
	return inNews(func() teller {
		return func(f live.Followed, err error, yield func(live.Followed, error) bool) bool {
			f, left, err := change(f, err)
			return left || yield(f, err)
		}
	})
}

var streamFaults = []fault{
	{
		name: "a follower begins at the end", store: "live", law: "a follower goes on from any cursor",
		words: "it never came",
		laws: inLive(func(s *liveStream) {
			follow, before := s.follow, s.before
			s.follow = func(ctx context.Context, ref, cursor string) iter.Seq2[live.Followed, error] {
				if cursor == "" {
					cursor, _ = before(ctx, ref, 0)
				}
				return follow(ctx, ref, cursor)
			}
		}),
	},
	{
		name: "who follows all begins at the beginning", store: "live",
		law: "who follows all gets what comes from then on", words: `["before"`,
		laws: inLive(func(s *liveStream) {
			follow, followAll := s.follow, s.followAll
			s.followAll = func(ctx context.Context, status string) iter.Seq2[live.Followed, error] {
				rest := followAll(ctx, status)
				return func(yield func(live.Followed, error) bool) {
					for f, err := range follow(ctx, nth(0), "") {
						if !yield(f, err) {
							return
						}
						break
					}
					rest(yield)
				}
			}
		}),
	},
	{
		name: "the last n are one fewer", store: "live", law: "a follower goes on from any cursor",
		words: "it never came",
		laws: inLive(func(s *liveStream) {
			before := s.before
			s.before = func(ctx context.Context, ref string, n int64) (string, error) {
				return before(ctx, ref, n/2)
			}
		}),
	},
	{
		name: "the cursor at the end is one before", store: "live",
		law: "the cursor at the end is that of the last that was told", words: "the cursor at the end",
		laws: inLive(func(s *liveStream) {
			before := s.before
			s.before = func(ctx context.Context, ref string, n int64) (string, error) { return before(ctx, ref, n+1) }
		}),
	},
	{
		name: "items come in another order", store: "live", law: "a follower gets what is there and what comes",
		words: "what it was told",
		laws: inNews(func() teller {
			var held *live.Followed
			return func(f live.Followed, err error, yield func(live.Followed, error) bool) bool {
				if held == nil && err == nil && f.What == db.Written {
					held = &f
					return true
				}
				if !yield(f, err) {
					return false
				}
				if held != nil && held.Of != "" {
					first := *held
					held = &live.Followed{}
					return yield(first, nil)
				}
				return true
			}
		}),
	},
	{
		name: "items come twice", store: "live", law: "a follower gets what is there and what comes",
		words: "what it was told",
		laws: inNews(func() teller {
			return func(f live.Followed, err error, yield func(live.Followed, error) bool) bool {
				return yield(f, err) && (err != nil || f.What != db.Written || yield(f, nil))
			}
		}),
	},
	{
		name: "a new status is not told", store: "live", law: "who follows all gets what comes from then on",
		words: "it never came",
		laws: changed(func(f live.Followed, err error) (live.Followed, bool, error) {
			return f, f.What == db.StatusChanged, err
		}),
	},
	{
		name: "a gap is not told", store: "live", law: "what went unread is a gap", words: "it never came",
		laws: changed(func(f live.Followed, err error) (live.Followed, bool, error) {
			return f, f.What == db.Gap, err
		}),
	},
	{
		name: "a removal is not told", store: "live", law: "who follows all gets what comes from then on",
		words: "it never came",
		laws:  changed(func(f live.Followed, err error) (live.Followed, bool, error) { return f, f.Gone, err }),
	},
	{
		name: "a removal ends who follows all", store: "live", law: "who follows all gets what comes from then on",
		words: "the end of the loop gave cursor expired",
		laws: changed(func(f live.Followed, err error) (live.Followed, bool, error) {
			if f.Gone {
				return f, false, db.ErrCursorExpired
			}
			return f, false, err
		}),
	},
	{
		name: "all have one cursor", store: "live", law: "who follows all gets what comes from then on",
		words: "this list or stream",
		laws: inLive(func(s *liveStream) {
			followAll := s.followAll
			s.followAll = func(ctx context.Context, status string) iter.Seq2[live.Followed, error] {
				all := followAll(ctx, status)
				return func(yield func(live.Followed, error) bool) {
					first := ""
					for f, err := range all {
						first = cmp.Or(first, f.Cursor)
						f.Cursor = first
						if !yield(f, err) {
							return
						}
					}
				}
			}
		}),
	},
	{
		name: "a follower of what is removed waits", store: "live",
		law:   "a follower ends with its thing, its context and its handle",
		words: "the thing is removed gave it never came",
		laws: inLive(func(s *liveStream) {
			follow := s.follow
			s.follow = func(ctx context.Context, ref, cursor string) iter.Seq2[live.Followed, error] {
				return func(yield func(live.Followed, error) bool) {
					for f, err := range follow(ctx, ref, cursor) {
						if errors.Is(err, db.ErrCursorExpired) {
							<-ctx.Done()
							err = context.Cause(ctx)
						}
						if !yield(f, err) {
							return
						}
					}
				}
			}
		}),
	},
	{
		name: "the end of a follower's context is not its cause", store: "live",
		law: "a follower ends with its thing, its context and its handle", words: "the context ends gave over",
		laws: changed(func(f live.Followed, err error) (live.Followed, bool, error) {
			if err != nil && !errors.Is(err, db.ErrClosed) && !errors.Is(err, db.ErrCursorExpired) {
				err = errors.New("over")
			}
			return f, false, err
		}),
	},
	{
		name: "the end of a handle ends a follower without an error", store: "live",
		law: "a follower ends with its thing, its context and its handle", words: "the handle is closed gave <nil>",
		laws: changed(func(f live.Followed, err error) (live.Followed, bool, error) {
			return f, errors.Is(err, db.ErrClosed), err
		}),
	},
	{
		name: "a filter is no filter", store: "live", law: "a filter takes a thing from when it passes",
		words: "of another was told",
		laws: inLive(func(s *liveStream) {
			followAll := s.followAll
			s.followAll = func(ctx context.Context, _ string) iter.Seq2[live.Followed, error] {
				return followAll(ctx, "")
			}
		}),
	},
	{
		name: "what passes no more is forgotten", store: "live", law: "a filter takes a thing from when it passes",
		words: "it never came",
		laws: inNews(func() teller {
			forgotten := map[string]bool{}
			return func(f live.Followed, err error, yield func(live.Followed, error) bool) bool {
				left := forgotten[f.Of] && err == nil
				if f.What == db.StatusChanged {
					forgotten[f.Of] = true
				}
				return left || yield(f, err)
			}
		}),
	},
	{
		name: "a name keeps what it had", store: "live", law: "what takes a removed thing's name has nothing of it",
		words: "it has what the removed one had",
		laws: inLive(func(s *liveStream) {
			follow := s.follow
			s.follow = func(ctx context.Context, ref, cursor string) iter.Seq2[live.Followed, error] {
				return func(yield func(live.Followed, error) bool) {
					if yield(live.Followed{Of: ref, Item: live.RunEventRecord{Event: eventsOf("a")[0]}}, nil) {
						follow(ctx, ref, cursor)(yield)
					}
				}
			}
		}),
	},
	{
		name: "any cursor is a stream's", store: "live", law: "a cursor belongs to its stream",
		words: "the cursor of a list gave",
		laws: inLive(func(s *liveStream) {
			follow := s.follow
			s.follow = func(ctx context.Context, ref, cursor string) iter.Seq2[live.Followed, error] {
				return func(yield func(live.Followed, error) bool) {
					for f, err := range follow(ctx, ref, cursor) {
						if errors.Is(err, db.ErrInvalid) {
							follow(ctx, ref, "")(yield)
							return
						}
						if !yield(f, err) {
							return
						}
					}
				}
			}
		}),
	},
	{
		name: "the cursor of what is gone begins again", store: "live", law: "a cursor belongs to its stream",
		words: "the cursor of a thing that was replaced gave",
		laws: inLive(func(s *liveStream) {
			follow := s.follow
			s.follow = func(ctx context.Context, ref, cursor string) iter.Seq2[live.Followed, error] {
				return func(yield func(live.Followed, error) bool) {
					for f, err := range follow(ctx, ref, cursor) {
						if errors.Is(err, db.ErrCursorExpired) {
							err = nil
						}
						if !yield(f, err) {
							return
						}
					}
				}
			}
		}),
	},
	{
		name: "a page of a stream never ends at its bytes", store: "live", law: "a page of a stream ends at a MiB",
		words: "how many items the pages of large items have",
		laws: inLive(func(s *liveStream) {
			page := s.page
			s.page = func(ctx context.Context, ref string, at db.At) (db.Page[live.Followed], error) {
				whole, err := page(ctx, ref, at)
				for whole.Next != "" && err == nil {
					var next db.Page[live.Followed]
					next, err = page(ctx, ref, db.At{After: whole.Next})
					whole = db.Page[live.Followed]{Items: append(whole.Items, next.Items...), Next: next.Next}
				}
				return whole, err
			}
		}),
	},
	{
		name: "of many the first thousand are followed", store: "live",
		law: "who follows more than a thousand is told of each once", words: "it never came",
		laws: changed(func(f live.Followed, err error) (live.Followed, bool, error) {
			return f, err == nil && f.Of > nth(999), err
		}),
	},
	{
		name: "any transaction appends", store: "live", law: "a transaction of another file appends nothing",
		words: "append gave <nil>",
		laws: inLive(func(s *liveStream) {
			add := s.append
			s.append = func(tx *db.Tx, ref string, texts ...string) error {
				if err := add(tx, ref, texts...); !errors.Is(err, db.ErrInvalid) {
					return err
				}
				return nil
			}
		}),
	},
	{
		name: "the page of a stream is short", store: "live", law: "the pages of a stream are what a follower gets",
		words: "what the page has",
		laws: inLive(func(s *liveStream) {
			page := s.page
			s.page = func(ctx context.Context, ref string, at db.At) (db.Page[live.Followed], error) {
				short, err := page(ctx, ref, at)
				if len(short.Items) > 4 {
					short.Items = short.Items[1:]
				}
				return short, err
			}
		}),
	},
	{
		name: "a batch is kept in part", store: "live", law: "a batch is kept whole or not at all",
		words: "a batch that can't be kept, alone gave <nil>",
		laws: inLive(func(s *liveStream) {
			spoil, add := s.spoil, s.append
			s.spoil = func(tx *db.Tx, ref string) error {
				if spoil(tx, ref) == nil {
					return nil
				}
				return add(tx, ref, "part")
			}
		}),
	},
	{
		name: "a repeat is kept again", store: "live", law: "a repeat does nothing", words: "what is there",
		laws: inLive(func(s *liveStream) {
			add := s.append
			s.repeat = func(tx *db.Tx, ref string, _ int64, texts ...string) error { return add(tx, ref, texts...) }
		}),
	},
	{
		name: "an older state comes behind a newer one", store: "agents",
		law: "a follower is told how a thing stands, the newest last", words: `it was told "a" behind`,
		laws: inStream(followedAgents, func(s *agentStream) {
			follow := s.follow
			s.follow = func(ctx context.Context, ref, cursor string) iter.Seq2[agents.Followed, error] {
				return func(yield func(agents.Followed, error) bool) {
					var first *agents.Followed
					for f, err := range follow(ctx, ref, cursor) {
						if first != nil && err == nil && f.Item.Entry.BaseState == "b" {
							f.Item = first.Item
						}
						if first == nil && err == nil {
							first = &f
						}
						if !yield(f, err) {
							return
						}
					}
				}
			}
		}),
	},
	{
		name: "the last state is not told", store: "agents",
		law: "a follower is told how a thing stands, the newest last", words: "behind 2 states",
		laws: inStream(followedAgents, func(s *agentStream) {
			follow := s.follow
			s.follow = func(ctx context.Context, ref, cursor string) iter.Seq2[agents.Followed, error] {
				return func(yield func(agents.Followed, error) bool) {
					for f, err := range follow(ctx, ref, cursor) {
						if err == nil && f.Item.Entry.BaseState == "c" {
							f.What, f.Status = db.StatusChanged, s.ended
						}
						if !yield(f, err) {
							return
						}
					}
				}
			}
		}),
	},
}

// inHolds breaks how things of a store are held.
func inHolds(open func(d *db.DB, scope string) holds, store string,
	spoil func(d *db.DB, s *holds),
) func() []law {
	return func() []law {
		return holdLaws(func(d *db.DB, scope string) holds {
			s := open(d, scope)
			spoil(d, &s)
			return s
		}, store)
	}
}

var holdFaults = []fault{
	{
		name: "what is held can be deleted", store: "live", law: "epochs grow, and who was replaced is refused",
		words: "to remove what is held gave <nil>",
		laws: inHolds(heldLive, "live", func(d *db.DB, s *holds) {
			s.remove = func(ctx context.Context, name string) error {
				return forgiven(d.Write(ctx, "storetest", func(tx *db.Tx) error {
					return second(tx.Exec(`DELETE FROM live_runs WHERE run_id = ?`, name))
				}))
			}
		}),
	},
	{
		name: "what is held takes writes", store: "runs", law: "what is held takes no writes of others",
		words: "a write of an outsider gave <nil>",
		laws: inHolds(heldRuns, "runs", func(_ *db.DB, s *holds) {
			s.outside = func(context.Context, string) error { return nil }
		}),
	},
	{
		name: "who held what was deleted holds on", store: "checkpoints",
		law: "epochs grow, and who was replaced is refused", words: "a write behind the removal gave <nil>",
		laws: inHolds(ofCheckpoints.holds, "checkpoints", func(_ *db.DB, s *holds) {
			s.remove = func(context.Context, string) error { return nil }
		}),
	},
	{
		name: "what was begun can be begun again", store: "runs", law: "what was begun is held",
		words: "and begun again true",
		laws: inHolds(heldRuns, "runs", func(_ *db.DB, s *holds) {
			begin := s.begin
			s.begin = func(ctx context.Context, name string) (holding, bool, error) {
				h, _, err := begin(ctx, name)
				return h, true, err
			}
		}),
	},
	{
		name: "what was begun is not held", store: "live", law: "what was begun is held", words: "was taken true",
		laws: inHolds(heldLive, "live", func(_ *db.DB, s *holds) {
			take := s.take
			s.take = func(ctx context.Context, name string) (holding, bool, error) {
				h, _, err := take(ctx, name)
				return h, true, err
			}
		}),
	},
	{
		name: "any epoch takes up a holding", store: "reservations",
		law: "a holding is taken up again by its epoch", words: "another epoch gave <nil>",
		laws: inHolds(reservations, "reservations", func(_ *db.DB, s *holds) {
			reattach := s.reattach
			s.reattach = func(ctx context.Context, name string, epoch int64) (holding, error) {
				h, err := reattach(ctx, name, epoch)
				if errors.Is(err, db.ErrLeaseLost) {
					err = nil
				}
				return h, err
			}
		}),
	},
	{
		name: "recovery takes what the living hold", store: "runs", law: "recovery spares the living",
		words: "things of the living",
		laws: inHolds(heldRuns, "runs", func(_ *db.DB, s *holds) {
			s.recover = func(context.Context) (int, error) { return 1, nil }
		}),
	},
	{
		name: "recovery leaves what the dead held", store: "runs",
		law: "who closes its handle gives up what it held", words: "0 were recovered, not 1",
		laws: inHolds(heldRuns, "runs", func(_ *db.DB, s *holds) {
			s.recover = func(context.Context) (int, error) { return 0, nil }
		}),
	},
	{
		name: "recovery leaves what a killed process held", store: "runs", law: "recovery takes what the dead held",
		words: "was recovered 0 times",
		laws: inHolds(heldRuns, "runs", func(_ *db.DB, s *holds) {
			s.recover = func(context.Context) (int, error) { return 0, nil }
		}),
	},
	{
		name: "recovery ends what the dead held", store: "live", law: "who closes its handle gives up what it held",
		words: "the status behind a recovery",
		laws: inHolds(heldLive, "live", func(d *db.DB, s *holds) {
			recovered := s.recover
			s.recover = func(ctx context.Context) (int, error) {
				n, err := recovered(ctx)
				return n, errors.Join(err, d.Write(ctx, "storetest", func(tx *db.Tx) error {
					return second(tx.Exec(`UPDATE live_runs SET status = 'failed'`))
				}))
			}
		}),
	},
	{
		name: "what was undone can be written under", store: "live", law: "a function that fails takes nothing",
		words: "a write under what was undone gave <nil>",
		laws: inHolds(heldLive, "live", func(_ *db.DB, s *holds) {
			takeTx := s.takeTx
			s.takeTx = func(tx *db.Tx, name string) (holding, bool, error) {
				h, won, err := takeTx(tx, name)
				h.write = func(*db.Tx) error { return nil }
				return h, won, err
			}
		}),
	},
	{
		name: "any transaction takes a thing", store: "runs", law: "a function that fails takes nothing",
		words: "to take it in a transaction of another file gave <nil>",
		laws: inHolds(heldRuns, "runs", func(_ *db.DB, s *holds) {
			takeTx := s.takeTx
			s.takeTx = func(tx *db.Tx, name string) (holding, bool, error) {
				h, won, err := takeTx(tx, name)
				if errors.Is(err, db.ErrInvalid) {
					err = nil
				}
				return h, won, err
			}
		}),
	},
}

// spoiled returns a file that alters what is written to it.
func spoiled(trigger string) func(e *engine) {
	return func(e *engine) {
		open := e.open
		e.open = func(t *testing.T) *db.DB {
			d := open(t)
			must(t, d.Write(t.Context(), "break it", func(tx *db.Tx) error { return second(tx.Exec(trigger)) }))
			return d
		}
	}
}

func openAt(t *testing.T, path string) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), path, db.Options{Synchronous: db.SyncNormal})
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// brokenVariable makes the tests apply the faults in the list.
const brokenVariable = "SELVEDGE_STORETEST_BROKEN"

// switched matches a line of the go command that names the test whose lines follow.
var switched = regexp.MustCompile(`^=== (?:RUN|NAME|CONT|PAUSE) +(\S+)\n$`)

// What fails here fails in a run of its own, which is read.
func TestEveryFaultIsNoticed(t *testing.T) {
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWithFaults$", "-test.v",
		"-test.parallel=8")
	command.Env = append(os.Environ(), brokenVariable+"=1")
	out, err := command.CombinedOutput()
	if err == nil || strings.Contains(string(out), "\ngoroutine ") {
		t.Fatalf("the run with faults should fail, and go on to its end: %v\n%s", err, out)
	}
	said, name := map[string]string{}, "" // by test
	for line := range strings.Lines(string(out)) {
		if now := switched.FindStringSubmatch(line); now != nil {
			name = now[1]
			continue
		}
		said[name] += line
	}
	for _, f := range faults {
		name := testName(f.name, f.store, f.law)
		switch words := said[name]; {
		case !strings.Contains(string(out), "--- FAIL: "+name+" ("):
			t.Errorf("%s: nobody noticed", name)
		case !strings.Contains(words, f.words):
			t.Errorf("%s: it was noticed without the words %q:\n%s", name, f.words, words)
		}
	}
}

func testName(words ...string) string {
	return strings.ReplaceAll("TestWithFaults/"+strings.Join(words, "/"), " ", "_")
}

func TestWithFaults(t *testing.T) {
	t.Parallel()
	if os.Getenv(brokenVariable) == "" {
		return // TestEveryFaultIsNoticed runs it
	}
	waits := map[string]bool{} // those that are noticed by what never comes
	for _, f := range faults {
		waits[testName(f.name)] = strings.Contains(f.words, "never came") || strings.Contains(f.words, "0 times")
	}
	long := patience
	patience = func(t *testing.T) time.Duration {
		if name := strings.SplitN(t.Name(), "/", 3); waits[strings.Join(name[:2], "/")] {
			return 5 * time.Second
		}
		return long(t)
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			e := &engine{
				open:   func(t *testing.T) *db.DB { return openAt(t, filepath.Join(t.TempDir(), "selvedge.db")) },
				shared: Shared{Again: func(t *testing.T, d *db.DB) *db.DB { return openAt(t, d.Path()) }},
			}
			if f.law == "recovery takes what the dead held" {
				e.shared.Process = func(t *testing.T, d *db.DB) Process { return dbtest.Start(t, "serve", d.Path()) }
			}
			if f.engine != nil {
				f.engine(e)
			}
			for _, s := range stores {
				if s.name != f.store {
					continue
				}
				laws := s.laws
				if f.laws != nil {
					laws = f.laws()
				}
				laws = slices.DeleteFunc(slices.Clone(laws), func(l law) bool { return l.name != f.law })
				run(t, []store{{s.name, laws, s.holds}}, e)
			}
		})
	}
}
