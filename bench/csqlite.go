package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"selvedge/db"
	"selvedge/runs"
)

// A helper is a program that answers a line on stdout for each line on stdin.
type helper struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

func startHelper(ctx context.Context, program string, args ...string) (*helper, error) {
	h := &helper{command: exec.CommandContext(ctx, program, args...)}
	h.command.Stderr = os.Stderr
	out, err := h.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if h.in, err = h.command.StdinPipe(); err != nil {
		return nil, err
	}
	h.out = bufio.NewReader(out)
	return h, h.command.Start()
}

func (h *helper) send(line string) error {
	_, err := io.WriteString(h.in, line+"\n")
	return err
}

func (h *helper) answer() (string, error) {
	line, err := h.out.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

func (h *helper) close() error {
	return errors.Join(h.in.Close(), h.command.Wait())
}

// batchDuel measures calls of 100 turns each: C SQLite on a file of its own, ours on the stage's.
func (s *stage) batchDuel(ctx context.Context, b *bench) (d duel, err error) {
	other, err := b.stage(ctx, "csqlite", db.SyncNormal)
	if err != nil {
		return d, err
	}
	err = other.begin(ctx, "run")
	var key int64
	if err == nil {
		err = other.file.Read(ctx, "find the run",
			func(rx *db.Rx) error { return rx.Get(&key, "SELECT max(key) FROM runs") })
	}
	if err := other.close(err); err != nil {
		return d, err
	}
	if err := s.begin(ctx, "run"); err != nil {
		return d, err
	}
	batch := make([]runs.Turn, atOnce)
	for i := range batch {
		batch[i] = turn(uint64(i), smallBytes)
	}
	c, err := startHelper(ctx, b.csqlite, other.file.Path(), strconv.FormatInt(key, 10),
		strconv.Itoa(len(batch[0].Output)))
	if err != nil {
		return d, fmt.Errorf("start C SQLite: %w", err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	n := b.n(300)
	return run(b.rounds,
		func(int) (round, error) { return c.measure(n, atOnce) },
		each(n, func(int, int) error { return s.store.AppendTurns(ctx, agent, "run", batch) }))
}

// measure has C SQLite make calls of so many turns.
func (h *helper) measure(n, turns int) (round, error) {
	if err := h.send(fmt.Sprintf("%d %d", n, turns)); err != nil {
		return round{}, err
	}
	line, err := h.answer()
	if err != nil {
		return round{}, fmt.Errorf("answer of C SQLite: %w", err)
	}
	var r round
	for field := range strings.FieldsSeq(line) {
		nanos, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return r, err
		}
		r.calls = append(r.calls, time.Duration(nanos))
		r.block += time.Duration(nanos)
	}
	return r, nil
}
