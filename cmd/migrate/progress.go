package main

import (
	"context"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"selvedge/db"
	"selvedge/legacy"
)

// A progress shows how far something is, on stderr, if that is a terminal.
type progress struct {
	to   io.Writer // nil: no terminal
	what string
	of   string                   // what it counts; "" is bytes
	bar  *progressbar.ProgressBar // nil: not begun
}

// watched reports whether progress is shown.
func (a *app) watched() bool { return !a.quiet && isTerminal(a.stderr) }

func (a *app) newProgress(what, of string) *progress {
	if !a.watched() {
		return &progress{}
	}
	return &progress{to: a.stderr, what: what, of: of}
}

// withProgress runs work and shows the progress of the calls of db and maintenance in it. of is
// what they count; "" is bytes.
func (a *app) withProgress(ctx context.Context, of string, work func(context.Context) error) error {
	p := a.newProgress("", of)
	if p.to == nil {
		return work(ctx)
	}
	defer p.finish()
	return work(db.WithProgress(ctx, func(at db.Progress) {
		if at.Step != p.what { // the next step begins
			p.finish()
			p.bar, p.what = nil, at.Step
		}
		p.show(at.Done, at.Total)
	}))
}

// exclusively runs do, which needs exclusive use of the file. It waits as patiently does, and shows
// progress.
func exclusively[T any](
	ctx context.Context, a *app, o db.Options, do func(context.Context, string, db.Options) (T, error),
) (done T, err error) {
	err = a.withProgress(ctx, "", func(ctx context.Context) error {
		return a.patiently(ctx, o, func(o db.Options) error {
			done, err = do(ctx, a.path, o)
			return err
		})
	})
	return done, err
}

// begin draws how much is done, the rate, the time passed and the time left.
func (p *progress) begin() {
	unit := []progressbar.Option{progressbar.OptionShowBytes(true)}
	if p.of != "" {
		unit = []progressbar.Option{
			progressbar.OptionShowCount(), progressbar.OptionShowIts(),
			progressbar.OptionSetItsString(p.of),
		}
	}
	p.bar = progressbar.NewOptions64(-1, append(unit,
		progressbar.OptionSetWriter(p.to),
		progressbar.OptionSetDescription(p.what),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionEnableColorCodes(false),
		// No goroutine that turns the spinner: in v3.19.1 it races with ChangeMax64.
		progressbar.OptionSetSpinnerChangeInterval(0))...)
}

func (p *progress) update(at legacy.Progress) { p.show(at.Bytes, at.TotalBytes) }

// show and finish ignore errors of the terminal.
func (p *progress) show(done, total int64) {
	if p.to == nil {
		return
	}
	if p.bar == nil {
		p.begin()
	}
	if total > 0 && p.bar.GetMax64() != total {
		p.bar.ChangeMax64(total)
		p.bar.RenderBlank() //nolint:errcheck // a progress bar may fail
		return              // its clock begins here: a rate computed now would be that of an instant
	}
	p.bar.Set64(done) //nolint:errcheck // a progress bar may fail
}

func (p *progress) finish() {
	if p.bar != nil {
		p.bar.Finish() //nolint:errcheck // a progress bar may fail
	}
}
