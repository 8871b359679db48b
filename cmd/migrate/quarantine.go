package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/legacy"
)

// quarantineAnswer is the shape of quarantine show --json. The bytes are written piece by piece.
type quarantineAnswer struct {
	legacy.Quarantined
	// of a conflict, what is here under the id, as a file of the old program, base64, at most its first 64
	// KiB; null where nothing is
	Ours *[]byte `json:"ours"`
	Raw  []byte  `json:"raw"` // the bytes that are kept, base64
}

var _ = register("Trees:", 50, func(a *app) *cobra.Command {
	return group("quarantine", "See what an import could not take, try it again, or drop it",
		a.quarantineListCommand(), a.quarantineShowCommand(), a.quarantineRetryCommand(), a.quarantineDropCommand())
})

func (a *app) quarantineListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "list [--limit N] [--after CURSOR] [--all]",
		Short: "List what lies in the scope's quarantine, oldest first",
	}
	return list(a, c, listing[legacy.Quarantined]{
		page: legacy.Quarantine,
		grid: grid{
			header: []string{"id", "kind", "file", "byte", "what", "bytes", "reason"},
			right:  []int{0, 3, 5},
			texts:  []int{2, 6}, least: []int{1, 5, 4, 3},
		},
		row: func(q legacy.Quarantined) []string {
			return []string{
				strconv.FormatInt(q.ID, 10), q.Kind, q.File, strconv.FormatInt(q.ByteOffset, 10), q.What,
				strconv.FormatInt(q.Bytes, 10), q.Reason,
			}
		},
	})
}

func (a *app) quarantineShowCommand() *cobra.Command {
	var raw bool
	c := &cobra.Command{
		Use:   "show ID [--raw]",
		Short: "Show one piece in quarantine: where it was, why it was not taken, its bytes",
		Long: `show tells where a piece was, why it was not taken, and its bytes. Of a conflict, a file whose id
is here from elsewhere with other contents, it shows what is here and what is in quarantine side by side;
lines that differ are marked with !.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := quarantineID(args[0])
			if err != nil {
				return err
			}
			if raw && a.json {
				return usage("choose one of --raw and --json")
			}
			return a.with(c.Context(), toRead, func(d *db.DB) error {
				return a.quarantineShow(c.Context(), d, id, raw)
			})
		},
	}
	c.Flags().BoolVar(&raw, "raw", false, "only the bytes, as they were")
	return a.answering(c, quarantineAnswer{})
}

func quarantineID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		err = usage("%q is no id of quarantine; they are numbers", text)
	}
	return id, err
}

// shownBytes is how many bytes of a piece people see; --raw and --json have all of it.
const shownBytes = 2000

// shownOurs is how many bytes of what is here --json has.
const shownOurs = 64 << 10

func (a *app) quarantineShow(ctx context.Context, d *db.DB, id int64, raw bool) error {
	q, err := legacy.ShowQuarantine(ctx, d, id)
	if err != nil {
		return err
	}
	if raw {
		return legacy.QuarantineRaw(ctx, d, id, a.stdout)
	}
	ours, theirs := limitedBuffer{room: shownOurs}, limitedBuffer{room: shownBytes}
	conflict := q.What == "conflict"
	if conflict {
		if conflict, err = legacy.QuarantineOurs(ctx, d, q, &ours); err != nil {
			return err
		}
	}
	if a.json {
		return a.quarantineJSON(ctx, d, q, ours.Bytes())
	}
	if err := legacy.QuarantineRaw(ctx, d, id, &theirs); err != nil {
		return err
	}
	facts := []string{
		"id", strconv.FormatInt(q.ID, 10), "scope", q.Scope, "kind", q.Kind, "folder", q.Source, "file", q.File,
		"at byte", strconv.FormatInt(q.ByteOffset, 10), "what", q.What, "reason", q.Reason,
		"found", a.when(q.FoundAt), "size", size(q.Bytes),
	}
	if q.Entity != nil {
		facts = append(facts, "of", *q.Entity)
	}
	if q.Group != nil {
		facts = append(facts, "of agent", *q.Group)
	}
	a.printFacts(facts...)
	switch {
	case conflict:
		a.sideBySide(string(ours.Bytes()[:min(ours.Len(), shownBytes)]), theirs.String())
	case q.Bytes > shownBytes:
		a.print("\n%s… (--raw gives all)\n", theirs.String())
	default:
		a.print("\n%s\n", theirs.String())
	}
	return a.failed
}

// quarantineJSON writes the row with its bytes as one object, without holding the bytes.
func (a *app) quarantineJSON(ctx context.Context, d *db.DB, q legacy.Quarantined, ours []byte) error {
	answer := quarantineAnswer{Quarantined: q}
	if ours != nil {
		answer.Ours = &ours
	}
	text, err := encodeJSON(answer)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(a.stdout, 64<<10)
	out.Write(append(bytes.TrimSuffix(text, []byte("null}")), '"')) //nolint:errcheck // Flush returns the error
	encoder := base64.NewEncoder(base64.StdEncoding, out)
	if err := legacy.QuarantineRaw(ctx, d, q.ID, encoder); err != nil {
		return err
	}
	if err := encoder.Close(); err != nil {
		return err
	}
	out.WriteString("\"}\n") //nolint:errcheck // Flush returns the error
	return out.Flush()
}

// A limitedBuffer keeps the beginning of what is written to it.
type limitedBuffer struct {
	bytes.Buffer
	room int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), b.room-b.Len())])
	return len(p), nil
}

// retryAnswer is the shape of quarantine retry --json.
type retryAnswer struct {
	Taken int              `json:"taken"` // pieces that were taken and left the quarantine
	Items []legacy.Retried `json:"items"` // what came of each piece
}

// dropAnswer is the shape of quarantine drop --json.
type dropAnswer struct {
	Dropped int     `json:"dropped"` // pieces that were removed
	IDs     []int64 `json:"ids"`     // their numbers
}

// A pick selects the pieces of the quarantine that a command works on.
type pick struct {
	all        bool
	kind, what string
	file       string
}

func (p *pick) add(a *app, c *cobra.Command) {
	c.Flags().BoolVar(&p.all, "all", false,
		"all pieces of the scope, or with the flags below all that they leave")
	c.Flags().StringVar(&p.kind, "kind", "", "pieces of trees of this `KIND`")
	c.Flags().StringVar(&p.what, "what", "", "pieces of this sort: line, tail, file, conflict or name, a `WORD`")
	c.Flags().StringVar(&p.file, "file", "", "pieces of this `FILE`, as quarantine list shows it")
	completeWords(c, "kind", legacy.Kinds())
	completeWords(c, "what", whats)
	c.Args = cobra.ArbitraryArgs
	a.checkFlags(c, p.check)
}

var whats = []string{"line", "tail", "file", "conflict", "name"}

func (p *pick) check() error {
	if p.kind != "" {
		if _, err := kindByName(p.kind); err != nil {
			return err
		}
	}
	if p.what == "" {
		return nil
	}
	return oneOf("what", p.what, whats)
}

// ids returns the pieces that the arguments and flags select.
func (p *pick) ids(ctx context.Context, a *app, d *db.DB, args []string) (ids []int64, err error) {
	picked := p.all || p.kind != "" || p.what != "" || p.file != ""
	if picked == (len(args) > 0) {
		return nil, usage("give ids, or say which with --all, --kind, --what or --file")
	}
	for _, arg := range args {
		id, err := quarantineID(arg)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	if picked {
		for q, err := range everyItem(ctx, a, d, legacy.Quarantine) {
			if err != nil {
				return nil, err
			}
			if (p.kind == "" || q.Kind == p.kind) && (p.what == "" || q.What == p.what) &&
				(p.file == "" || q.File == p.file) {
				ids = append(ids, q.ID)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

func (a *app) quarantineRetryCommand() *cobra.Command {
	var p pick
	c := &cobra.Command{
		Use:   "retry [ID...] [--all] [--kind KIND] [--what WORD] [--file FILE]",
		Short: "Try to take pieces again whose cause is gone",
		Long: `retry imports what is in quarantine once more, for a newer program may read it, or what had its id
is gone: whole files of runs, agents, checkpoints and live runs, and single records of live runs, from the
bytes that are kept, whatever became of the folder; and runtimes of workers as a whole, from their folder.
What is taken leaves the quarantine; what isn't stays as it is, is named with the reason, and the exit code
is 3. A line of a run, or the end of a file that was cut, can't be tried by itself: import the folder again.`,
		RunE: a.on(toWrite, func(ctx context.Context, d *db.DB, args []string) error {
			ids, err := p.ids(ctx, a, d, args)
			if err != nil {
				return err
			}
			return a.quarantineRetry(ctx, d, ids, len(args) == 0)
		}),
	}
	p.add(a, c)
	return a.answering(c, retryAnswer{})
}

// quarantineRetry tries the pieces. picked means that they were in the quarantine when the command
// began.
func (a *app) quarantineRetry(ctx context.Context, d *db.DB, ids []int64, picked bool) error {
	answer := retryAnswer{Items: []legacy.Retried{}}
	var failed error
	for _, id := range ids {
		r, err := legacy.RetryQuarantine(ctx, d, id, legacy.Options{})
		if picked && errors.Is(err, db.ErrNotFound) {
			continue // it left with another piece of the same runtime
		}
		if failed = err; err != nil {
			break
		}
		if r.Taken {
			answer.Taken++
		}
		answer.Items = append(answer.Items, r)
	}
	err := a.answer(answer, func() {
		for _, r := range answer.Items {
			what := "taken"
			if !r.Taken {
				what = r.Reason
			}
			a.print("%d: %s: %s\n", r.ID, r.File, what)
		}
		a.print("took %s\n", count(answer.Taken, "piece"))
	})
	if err != nil || failed != nil {
		return errors.Join(failed, err)
	}
	if left := len(answer.Items) - answer.Taken; left > 0 {
		return fail(kindPartial, "see why: migrate quarantine list",
			"%s still in quarantine", count(left, "piece"))
	}
	return nil
}

func (a *app) quarantineDropCommand() *cobra.Command {
	var p pick
	var yes bool
	c := &cobra.Command{
		Use:   "drop [ID...] [--all] [--kind KIND] [--what WORD] [--file FILE] [--yes]",
		Short: "Remove pieces from quarantine, with their bytes",
		Long: `drop removes pieces for good. A file that was put aside whole (file, conflict) is met by the next
import of its folder as if for the first time: it is taken, or comes into quarantine again. What was found
in a file that was taken (line, tail, name, and a conflict over one record of several) does not come back as
long as the file stays as it is.

It asks first on a terminal, and needs --yes elsewhere.`,
		RunE: a.on(toWrite, func(ctx context.Context, d *db.DB, args []string) error {
			ids, err := p.ids(ctx, a, d, args)
			pieces := count(len(ids), "piece")
			if err == nil && len(ids) > 0 {
				if err = a.confirm(yes, "remove %s from quarantine, with the bytes", pieces); err == nil {
					err = legacy.DropQuarantine(ctx, d, ids...)
				}
			}
			if err != nil {
				return err
			}
			return a.answerLine(dropAnswer{Dropped: len(ids), IDs: orEmpty(ids)}, "removed %s\n", pieces)
		}),
	}
	p.add(a, c)
	yesFlag(c, &yes)
	return a.answering(c, dropAnswer{})
}

// sideBySide shows two texts in two columns, line by line, and marks the lines that differ.
func (a *app) sideBySide(ours, theirs string) {
	const width, most = 60, 40
	left, right := strings.Split(strings.TrimSuffix(ours, "\n"), "\n"),
		strings.Split(strings.TrimSuffix(theirs, "\n"), "\n")
	line := func(of []string, i int) string {
		if i >= len(of) {
			return ""
		}
		return cut(printable(of[i]), width)
	}
	a.print("\n  %-*s %s\n", width, "here", "in quarantine")
	for i := range min(most, max(len(left), len(right))) {
		mark := " "
		if i >= len(left) || i >= len(right) || left[i] != right[i] {
			mark = "!"
		}
		text := fmt.Sprintf("%s %-*s %s", mark, width, line(left, i), line(right, i))
		a.print("%s\n", strings.TrimRight(text, " "))
	}
	if more := max(len(left), len(right)) - most; more > 0 {
		a.print("  … and %s\n", count(more, "line"))
	}
}
