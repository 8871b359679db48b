package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"selvedge/db"
)

// longest is how long a process may take before it counts as hung. Each of its operations has patience.
const longest = 8 * patience

// A runner runs points, in folders of their own below its folder.
type runner struct {
	dir string
}

func (r *runner) template(sc *script) string { return filepath.Join(r.dir, "template-"+sc.name) }

// prepare makes what every process of the script begins with, in a process of its own, so that what
// that one owned is a dead process's.
func (r *runner) prepare(ctx context.Context, sc *script) error {
	folder := r.template(sc)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "prepare", sc.name, folder)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("prepare %s: %w: %s", sc.name, err, out)
	}
	return nil
}

// within runs f in a new folder with a copy of the script's template, or an empty one.
func (r *runner) within(sc *script, empty bool, f func(folder string) ([]string, error)) (problems []string,
	err error,
) {
	folder, err := os.MkdirTemp(r.dir, sc.name+"-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if !empty {
		if err := os.CopyFS(folder, os.DirFS(r.template(sc))); err != nil {
			return nil, err
		}
	}
	return f(folder)
}

// census runs the script without a fault, and returns its calls and its writes to the disk.
func (r *runner) census(p *point) (e episode, rec *record, problems []string, err error) {
	problems, err = r.within(p.script, false, func(folder string) ([]string, error) {
		if rec, err = newRecord(folder); err != nil {
			return nil, err
		}
		e, err = p.run(folder, rec)
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, e.notes)
		}
		return p.script.judge(folder, e.story, false), nil
	})
	return e, rec, problems, err
}

// try runs a point that needs a process of its own, and judges it.
func (r *runner) try(p *point) (e episode, problems []string, err error) {
	problems, err = r.within(p.script, false, func(folder string) ([]string, error) {
		beside, errOpen := p.neighbour(folder)
		if errOpen != nil {
			return nil, errOpen
		}
		e, err = p.run(folder, nil)
		return slices.Concat(p.wrong(e, err), p.ask(beside, e.story), p.script.judge(folder, e.story, false)), nil
	})
	return e, problems, err
}

// neighbour opens the file in this process before the traced one does, where the script wants that.
func (p *point) neighbour(folder string) (*session, error) {
	if !p.script.neighbour {
		return nil, nil
	}
	return openSession(context.Background(), folder, db.Options{})
}

// ask compares what a neighbour reads with the story, while the neighbour alone has the file
// open.
func (p *point) ask(beside *session, st *story) (problems []string) {
	if beside == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	for _, problem := range p.script.hold(ctx, beside, st, false) {
		problems = append(problems, "in another process: "+problem)
	}
	if err := errors.Join(goesOn(ctx, beside), beside.close()); err != nil {
		problems = append(problems, fmt.Sprintf("another process can't go on: %v", err))
	}
	return problems
}

// wrong is what can be said of the process itself, whose end err is.
func (p *point) wrong(e episode, err error) (problems []string) {
	switch {
	case errors.Is(err, errHung):
		problems = append(problems, fmt.Sprintf("the process hung for %v after %q", longest, e.story.answers))
	case err != nil:
		problems = append(problems, fmt.Sprintf("%v: %s", err, e.notes))
	}
	if p.fault != kill && p.killAt == 0 && e.spared == 0 {
		problems = append(problems, e.story.lingering(p.script, e.last, e.late)...)
	}
	if e.hit != nil && e.hit.class != names { // what can't be removed stays
		problems = append(problems, e.story.left...)
	}
	return problems
}

// faulty runs a point's process and returns its writes to the disk.
func (r *runner) faulty(p *point) (e episode, rec *record, problems []string, err error) {
	problems, err = r.within(p.script, false, func(folder string) ([]string, error) {
		if rec, err = newRecord(folder); err != nil {
			return nil, err
		}
		e, err = p.run(folder, rec)
		return p.wrong(e, err), nil
	})
	return e, rec, problems, err
}

// powerCut builds an image of the record and judges it.
func (r *runner) powerCut(p *point, rec *record) ([]string, error) {
	if p.cut.at > len(rec.events) {
		return nil, fmt.Errorf("-cut %d: the process has %d moments", p.cut.at, len(rec.events))
	}
	return r.within(p.script, true, func(folder string) ([]string, error) {
		im := rec.image(*p.cut)
		if err := im.build(folder); err != nil {
			return nil, err
		}
		return p.script.judge(folder, im.story(p.script), true), nil
	})
}
