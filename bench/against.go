package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// against measures groups with this program and with the benchmark of another commit, in turns, and
// prints what ours took in both.
func (b *bench) against(ctx context.Context, commit string, chosen []group) error {
	other, err := b.build(ctx, commit)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var rows [2][]measured // of the other commit, and of this program
	for round := range b.rounds {
		for _, g := range chosen {
			for i := range 2 {
				side := (i + round) % 2
				fmt.Fprintf(os.Stderr, "round %d of %d: %s of %s\n", round+1, b.rounds, g.name,
					[]string{commit, "this program"}[side])
				list, err := b.measureBy(ctx, []string{other, self}[side], g)
				if err != nil {
					return err
				}
				rows[side] = append(rows[side], list...)
			}
		}
	}
	return printAgainst(os.Stdout, commit, rows)
}

// build builds the benchmark of a commit.
func (b *bench) build(ctx context.Context, commit string) (program string, err error) {
	source := filepath.Join(b.dir, "source")
	if err := output(ctx, "", nil, "git", "worktree", "add", "--quiet", "--detach", source, commit); err != nil {
		return "", err
	}
	defer func() {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, output(ctx, "", nil, "git", "worktree", "remove", "--force", source))
	}()
	program, err = filepath.Abs(filepath.Join(b.dir, "bench-of-commit"))
	if err == nil {
		err = output(ctx, filepath.Join(source, "bench"), nil, "go", "build", "-buildvcs=false", "-o", program, ".")
	}
	return program, err
}

// measureBy has a program measure a group in one round.
func (b *bench) measureBy(ctx context.Context, program string, g group) ([]measured, error) {
	args := append([]string{"-rounds", "1", "-dir", b.dir, "-only", g.name}, b.passed...)
	var table bytes.Buffer
	if err := output(ctx, "", &table, program, args...); err != nil {
		return nil, err
	}
	var list []measured
	for line := range strings.Lines(table.String()) {
		if m, ok := readRow(line); ok {
			list = append(list, m)
		}
	}
	return list, nil
}

func output(ctx context.Context, dir string, to io.Writer, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	var said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, to, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, said.Bytes())
	}
	return nil
}

// measured is a row of a table: what ours took.
type measured struct {
	row   string
	value float64 // in the unit
	unit  string
}

var (
	gap          = regexp.MustCompile(`\s{2,}`)
	figure       = regexp.MustCompile(`^([\d.]+) ?(µs|ms|s|MB|/s)$`)
	microseconds = map[string]float64{"µs": 1, "ms": 1e3, "s": 1e6}
)

// readRow reads a line of a table. Ours is the second figure, or the only one. What a row is measured
// against has changed in some commits, and is left out of its name.
func readRow(line string) (m measured, ok bool) {
	cells := gap.Split(strings.TrimSpace(line), -1)
	for _, cell := range cells[1:] {
		if at := figure.FindStringSubmatch(cell); at != nil {
			m.value, _ = strconv.ParseFloat(at[1], 64)
			m.unit, ok = at[2], true
			if scale := microseconds[at[2]]; scale > 0 {
				m.value, m.unit = m.value*scale, "µs"
			}
		}
	}
	m.row, _, _ = strings.Cut(cells[0], ", against ")
	return m, ok
}

func printAgainst(w io.Writer, commit string, rows [2][]measured) error {
	var lines strings.Builder
	fmt.Fprintf(&lines, "work\t%s\tthis\tratio\n", commit)
	var seen []string
	for _, m := range rows[1] {
		if slices.Contains(seen, m.row) {
			continue
		}
		seen = append(seen, m.row)
		var medians [2]float64
		for side := range rows {
			var values []float64
			for _, one := range rows[side] {
				if one.row == m.row && one.unit == m.unit {
					values = append(values, one.value)
				}
			}
			if len(values) > 0 {
				medians[side] = median(values)
			}
		}
		there, here := medians[0], medians[1]
		if there == 0 {
			fmt.Fprintf(&lines, "%s\t-\t%.1f %s\n", m.row, here, m.unit)
			continue
		}
		fmt.Fprintf(&lines, "%s\t%.1f %s\t%.1f %s\t%.2fx\n", m.row, there, m.unit, here, m.unit, here/there)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(t, lines.String()); err != nil {
		return err
	}
	return t.Flush()
}
