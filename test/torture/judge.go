package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"selvedge/db"
)

// judge opens the folder and compares it with the story. It returns all problems.
func (sc *script) judge(folder string, st *story, powerCut bool) (problems []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	if sc.first != nil {
		if err := sc.first(ctx, folder); err != nil {
			problems = append(problems, err.Error())
		}
	}
	s, err := openSession(ctx, folder, db.Options{})
	if err != nil {
		return append(problems, fmt.Sprintf("open: %v", err))
	}
	problems = append(problems, sc.hold(ctx, s, st, powerCut && sc.sync == db.SyncNormal)...)
	if sc.whole != nil {
		if err := sc.whole(ctx, s); err != nil {
			problems = append(problems, err.Error())
		}
	}
	if err := goesOn(ctx, s); err != nil {
		problems = append(problems, fmt.Sprintf("the file does not go on working: %v", err))
	}
	for _, p := range s.check(ctx) {
		problems = append(problems, "after more writing: "+p)
	}
	if err := s.close(); err != nil {
		problems = append(problems, fmt.Sprintf("close: %v", err))
	}
	return problems
}

// hold compares the file with the story. If that is loose, the last acknowledged operations may
// be lost.
func (sc *script) hold(ctx context.Context, s *session, st *story, loose bool) (problems []string) {
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, p := range s.check(ctx) {
		wrong("%s", p)
	}
	found := make([]trace, len(sc.ops))
	for i, o := range sc.ops {
		if o.look == nil {
			continue
		}
		var err error
		if found[i], err = o.look(ctx, s); err != nil {
			wrong("%s: look: %v", o.name, err)
		} else if !o.allows(st.answers[i], found[i]) && !(loose && found[i] == absent) {
			wrong("%s: answered %q and it is %s", o.name, st.answers[i], found[i])
		}
	}
	if loose {
		if i := st.gap(found); i > 0 {
			wrong("%s is there, and %s, which came before, is lost", sc.ops[i].name, sc.ops[i-1].name)
		}
	}
	for _, saw := range st.seen {
		now := found[saw.op]
		if now != saw.what && now != "" && !(loose && now == absent) {
			wrong("%s: the handle read %s and it is %s", sc.ops[saw.op].name, saw.what, now)
		}
	}
	return problems
}

// gap returns the first operation that is there although the one before it, which was done, is
// lost.
func (s *story) gap(found []trace) int {
	for i := 1; i < len(found); i++ {
		if found[i] == done && found[i-1] == absent && s.answers[i-1] == finished {
			return i
		}
	}
	return 0
}

// check runs db.Check, and SQLite's own checks.
func (s *session) check(ctx context.Context) (problems []string) {
	list, err := s.db.Check(ctx)
	if err != nil {
		return []string{fmt.Sprintf("check: %v", err)}
	}
	for _, p := range list {
		problems = append(problems, fmt.Sprintf("check: %s: %s", p.Check, p.Detail))
	}
	var lines []string
	err = s.db.Read(ctx, "judge", func(rx *db.Rx) error {
		var broken []string
		err := rx.Select(&lines, "PRAGMA integrity_check")
		return errors.Join(err, rx.Select(&broken, `SELECT "table" FROM pragma_foreign_key_check`), problem(broken))
	})
	if err != nil {
		problems = append(problems, err.Error())
	}
	if strings.Join(lines, "") != "ok" {
		problems = append(problems, fmt.Sprintf("integrity_check: %q", lines))
	}
	return problems
}

func problem(rows []string) error {
	if len(rows) == 0 {
		return nil
	}
	return fmt.Errorf("foreign_key_check: %q", rows)
}

// goesOn writes, as the next user of the file would.
func goesOn(ctx context.Context, s *session) error {
	run := fmt.Sprintf("after-the-fault-%p", s)
	if err := start(ctx, s, run); err != nil {
		return err
	}
	o := turnsOp(run, "next", 1, 100)
	if err := o.do(ctx, s); err != nil {
		return err
	}
	what, err := o.look(ctx, s)
	if err == nil && what != done {
		err = fmt.Errorf("what was written is %s", what)
	}
	return err
}
