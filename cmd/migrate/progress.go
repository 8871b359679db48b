package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"selvedge/legacy"
)

// A progress shows how far a tree is, on stderr, where that is a terminal.
type progress struct {
	bar *progressbar.ProgressBar // nil: nobody looks
}

func (a *app) newProgress(what string) *progress {
	if a.quiet || !isTerminal(a.stderr) {
		return &progress{}
	}
	return newBar(a.stderr, what)
}

// newBar draws what is done, how fast, for how long and for how long still.
func newBar(to io.Writer, what string) *progress {
	return &progress{bar: progressbar.NewOptions64(-1,
		progressbar.OptionSetWriter(to),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionEnableColorCodes(false),
		// No goroutine that turns the spinner: in v3.19.1 it races with ChangeMax64.
		progressbar.OptionSetSpinnerChangeInterval(0),
	)}
}

// update and finish leave errors of the terminal alone: nobody is there to see the bar.
func (p *progress) update(at legacy.Progress) {
	if p.bar == nil {
		return
	}
	if at.TotalBytes > 0 && p.bar.GetMax64() != at.TotalBytes {
		p.bar.ChangeMax64(at.TotalBytes)
		p.bar.RenderBlank() //nolint:errcheck // see above
		return              // its clock begins here: a rate that was reckoned now would be that of an instant
	}
	p.bar.Set64(at.Bytes) //nolint:errcheck // see above
}

func (p *progress) finish() {
	if p.bar != nil {
		p.bar.Finish() //nolint:errcheck // see above
	}
}
