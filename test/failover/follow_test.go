//go:build postgres

package failover_test

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"os"
	"sync"
	"time"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/workers"
)

// A follower starts again from its last cursor after so many items, even without a fault.
const restartEvery = 100

// What a follower reports, beside errors.
const (
	item  = "item"
	gap   = "gap"
	broke = "broke" // with an error, after which it goes on from its cursor
)

// follow follows what all processes write to, until it reads a line. Its argument is an address.
func follow(args []string) error {
	ctx, cancel := context.WithCancel(context.Background())
	d, err := db.Open(ctx, args[0], db.Options{})
	if err != nil {
		cancel()
		return err
	}
	w := &teller{out: os.Stdout}
	rs, ls := runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{})
	runtime, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: shared, MustExist: true})
	if err != nil {
		cancel()
		return err
	}
	w.say("ready")
	var running sync.WaitGroup
	running.Go(func() {
		following(ctx, w, "runs/"+shared, func(cursor string) iter.Seq2[runs.Followed,
			error] {
			return rs.Follow(ctx, sharedRun(shared), cursor)
		},
			func(r runs.TraceRecord) (int64, string) { return r.Sequence, textOf(r.Record) })
	})
	for _, lane := range laneNames {
		running.Go(func() {
			following(ctx, w, "held-"+lane, func(cursor string) iter.Seq2[runs.Followed,
				error] {
				return rs.Follow(ctx, logOf(lane), cursor)
			},
				func(r runs.TraceRecord) (int64, string) { return r.Sequence, textOf(r.Record) })
		})
	}
	running.Go(func() {
		following(ctx, w, "live/"+shared, func(cursor string) iter.Seq2[live.Followed,
			error] {
			return ls.Follow(ctx, shared, cursor)
		},
			func(r live.RunEventRecord) (int64, string) { return int64(r.Sequence), textOfEvent(r.Event) })
	})
	running.Go(func() {
		following(ctx, w, "workers", func(cursor string) iter.Seq2[workers.Followed,
			error] {
			return runtime.Follow(ctx, cursor)
		},
			func(e workers.RuntimeEvent) (int64, string) { return int64(e.ID), string(e.Kind) })
	})
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	cancel()
	running.Wait()
	if err == nil {
		err = d.Close()
	}
	return err
}

func following[R, T any](ctx context.Context, w *teller, lane string,
	from func(cursor string) iter.Seq2[db.Followed[R, T], error], says func(T) (int64, string),
) {
	cursor := ""
	for ctx.Err() == nil {
		left := restartEvery
		for f, err := range from(cursor) {
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				w.say(broke, lane, "", err.Error())
				select {
				case <-ctx.Done():
				case <-time.After(between):
				}
				break
			}
			cursor = f.Cursor
			switch f.What {
			case db.Gap:
				w.say(gap, lane, "", f.Reason)
			case db.Written:
				n, text := says(f.Item)
				w.say(item, lane, text, fmt.Sprint(n))
			}
			if left--; left == 0 {
				break
			}
		}
	}
}
