package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A point is one run of a script, and what happens in it. Calls are counted from the moment when
// the script is set up, over the whole process.
type point struct {
	script *script
	at     int    // the call to which it happens, from 1; 0 lets the process run
	fault  fault  // what happens
	times  int    // to how many calls of the class, one after another
	killAt int    // how many calls later the process is killed; 0 is not
	end    ending // how the process ends if it comes to its end
	cut    *cut   // where the power fails
}

// mode is the kind of point, as flags and reports name it.
func (p *point) mode() string {
	switch {
	case p.cut != nil && p.at > 0:
		return "fault+power"
	case p.cut != nil:
		return "power"
	case p.fault == kill:
		return "kill"
	case p.killAt > 0:
		return "fault+kill"
	case p.at == 0:
		return "whole"
	}
	return "fault"
}

// String is the flags that repeat the point.
func (p *point) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "-script %s", p.script.name)
	if p.at > 0 {
		fmt.Fprintf(&b, " -at %d -fault %s", p.at, p.fault.name)
	}
	if p.times > 1 {
		fmt.Fprintf(&b, " -times %d", p.times)
	}
	if p.killAt > 0 {
		fmt.Fprintf(&b, " -kill-at %d", p.killAt)
	}
	if p.end == dying {
		fmt.Fprintf(&b, " -end %s", p.end)
	}
	if p.cut != nil {
		fmt.Fprintf(&b, " -cut %d -draw %d", p.cut.at, p.cut.draw)
	}
	return b.String()
}

// pointFlags defines the flags of one point. The result is called when they have been parsed;
// without a point it returns nil.
func pointFlags(flags *flag.FlagSet) func(script string) (*point, error) {
	p := &point{fault: none}
	flags.IntVar(&p.at, "at", 0, "repeat one point: the call to which it happens, counted from 1")
	flags.IntVar(&p.times, "times", 1, "to how many calls of that class it happens")
	flags.IntVar(&p.killAt, "kill-at", 0, "how many calls later the process is killed")
	flags.StringVar(&p.fault.name, "fault", "", "what happens: kill, short, or an errno such as EIO")
	end := flags.String("end", string(closing), "how the process ends: close or die")
	at := flags.Int("cut", 0, "at which event of the record the power fails")
	draw := flags.Uint64("draw", 0, "what is kept of what was not synced; 0 keeps nothing")
	return func(script string) (_ *point, err error) {
		if p.at == 0 && *at == 0 {
			return nil, nil
		}
		if p.script, err = find(script); err != nil {
			return nil, err
		}
		p.end = ending(*end)
		if *at > 0 {
			p.cut = &cut{at: *at, draw: *draw}
		}
		if p.at > 0 {
			p.fault, err = faultNamed(p.fault.name)
		}
		return p, err
	}
}

// An episode is what became of a process.
type episode struct {
	story  *story
	calls  []call // those that counted, in the order in which they began
	hit    *call  // the first to which something happened
	spared int    // faults of the point that found no call
	last   int    // the operation during which the last fault happened
	late   bool   // the last fault happened when all operations had been answered
	notes  string // the process's stderr
}

// run runs the process of a point in folder and, if rec isn't nil, records its writes to the
// disk.
func (p *point) run(folder string, rec *record) (episode, error) {
	e := episode{story: newStory(p.script), spared: p.times}
	hitAt := 0
	t := &tracer{folder: folder}
	t.line = func(line string) {
		e.story.record(line)
		if rec != nil {
			rec.say(line)
		}
		if e.story.ended && p.end == dying {
			_ = unix.Kill(t.pid, unix.SIGKILL) // it waits for that
		}
	}
	t.leave = func(c *call) { rec.take(c) }
	t.enter = func(c *call) (fault, bool) {
		watch := rec != nil && rec.begin(c)
		if !e.story.armed {
			return none, watch
		}
		e.calls = append(e.calls, *c)
		n := len(e.calls)
		switch {
		case p.at == 0 || n < p.at:
			return none, watch
		case p.killAt > 0 && e.hit != nil && n >= hitAt+p.killAt:
			return kill, watch
		case e.spared == 0 || e.hit != nil && e.hit.class != c.class:
			return none, watch
		}
		f := p.fault.fit(c.class)
		if f == none {
			return none, watch
		}
		e.spared--
		e.last, e.late = e.story.current, e.story.looking
		if e.hit == nil {
			e.hit, hitAt = c, n
			if rec != nil {
				rec.hit = len(rec.events)
			}
		}
		return f, watch
	}
	notes, err := t.run(longest, "script", p.script.name, folder, string(p.end))
	e.notes = notes
	if rec != nil {
		err = errors.Join(err, rec.failed)
	}
	return e, err
}

// fit returns the fault itself where calls of the class can have it, and else one that they can.
func (f fault) fit(c class) fault {
	if f == kill || f == lost {
		return f
	}
	if slices.Contains(c.faults(), f) {
		return f
	}
	if list := c.faults(); len(list) > 0 {
		return list[0]
	}
	return none
}
