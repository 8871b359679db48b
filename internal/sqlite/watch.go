package sqlite

import (
	"context"
	"errors"
	"time"

	"selvedge/internal/engine"
	"selvedge/internal/machine"
)

// Watch returns a feed of the commits.
func (e *Engine) Watch(ctx context.Context, stream engine.Stream) (*engine.Feed, error) {
	feed, err := e.watch.Join(ctx, stream)
	if err != nil && ctx.Err() != nil {
		err = waitEnded(ctx, "the file")
	}
	return feed, failure(err)
}

// The observer polls PRAGMA data_version, which changes with every commit of another connection,
// and costs about 10 µs. It polls when the system reports a write to the WAL. That is before the
// commit can be seen, by the time that the disk takes, so it polls again after one, two and four
// milliseconds. It also polls without a report: once a second, for a process that was stopped
// between its write and its commit, and more often where the system reports nothing. Once a second it
// looks whether the file is still at its path: no commit comes to one that was removed or replaced.
const (
	lookAgain    = time.Millisecond
	lookTold     = time.Second
	lookUntold   = 50 * time.Millisecond
	lookPlace    = time.Second
	sqlDataState = "PRAGMA data_version"
)

type observer struct {
	watch   *engine.Watchers
	session *session
	writes  *machine.Writes // nil if the system reports none
	version int64
	reading reading
	stop    chan struct{}
	stopped chan struct{}
}

// observe begins to report commits elsewhere.
func (e *Engine) observe(ctx context.Context) (end func() error, err error) {
	o, err := e.newObserver(ctx)
	if err != nil {
		return nil, err
	}
	go o.run()
	return o.end, nil
}

func (e *Engine) newObserver(ctx context.Context) (o *observer, err error) {
	s, err := openSession(ctx, e.path, e.readRole(), e.config)
	if err != nil {
		return nil, err
	}
	o = &observer{
		watch: e.watch, session: s, reading: reading{engine: e},
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	o.reading.listen()
	// The first look opens the WAL, so that there is a file to watch. If it fails, the next one
	// does that.
	if _, err := o.look(); err == nil {
		o.reading.begin(s)
	}
	if o.writes, err = machine.WatchWrites(e.path + "-wal"); err != nil {
		o.writes = nil // too many watches, or no WAL: it only polls
	}
	return o, nil
}

func (o *observer) run() {
	defer close(o.stopped)
	longest := lookUntold
	var written <-chan struct{}
	if o.writes != nil {
		longest, written = lookTold, o.writes.Seen
	}
	pause := lookAgain
	clock := time.NewTimer(pause)
	defer clock.Stop()
	last := time.Now()
	placed := last
	for {
		select {
		case <-o.stop:
			return
		case <-written:
			pause = lookAgain
			// with many commits, one poll in a millisecond is enough
			if since := time.Since(last); since < lookAgain {
				clock.Reset(lookAgain - since)
				continue
			}
		case <-clock.C:
			pause = min(2*pause, longest)
		}
		last = time.Now()
		if last.Sub(placed) >= lookPlace {
			if placed = last; errors.Is(o.reading.engine.samePath(), errReplaced) {
				o.watch.Over(failure(replaced("removed, renamed or replaced")))
				return
			}
		}
		changed, err := o.look()
		told := changed
		switch {
		case err != nil: // a reader that wakes gets the error
			o.watch.Touched(engine.Touched{All: true})
			told = true
		case changed || o.reading.owes():
			told = o.reading.explain(o.session, o.watch) || changed
		}
		if told {
			o.watch.Tell()
		}
		if changed || o.reading.owes() {
			pause = lookAgain
		}
		clock.Reset(pause)
	}
}

func (o *observer) look() (changed bool, err error) {
	var version int64
	if err := o.session.Get(&version, sqlDataState); err != nil {
		if isBusy(err) {
			err = nil // another process is recovering the WAL
		}
		return false, err
	}
	changed = version != o.version
	o.version = version
	return changed, nil
}

func (o *observer) end() error {
	close(o.stop)
	<-o.stopped
	o.reading.unlisten()
	var err error
	if o.writes != nil {
		err = o.writes.Close()
	}
	return errors.Join(err, o.session.Close())
}
