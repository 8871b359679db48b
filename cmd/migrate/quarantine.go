package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"strconv"

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
	return list(a, c, &listFlags{}, listing[legacy.Quarantined]{
		page: func(ctx context.Context, d *db.DB, at db.At) (db.Page[legacy.Quarantined], error) {
			return legacy.Quarantine(ctx, d, a.scope, at)
		},
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

// shownBytes is how much of a piece people see; --raw and --json give all of it.
const shownBytes = 2000

// shownOurs is how much of what is here scripts see.
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
	facts := []fact{
		{"id", strconv.FormatInt(q.ID, 10)},
		{"scope", q.Scope},
		{"kind", q.Kind},
		{"folder", q.Source},
		{"file", q.File},
		{"at byte", strconv.FormatInt(q.ByteOffset, 10)},
		{"what", q.What},
		{"reason", q.Reason},
		{"found", a.when(q.FoundAt)},
		{"size", size(q.Bytes)},
	}
	if q.Entity != nil {
		facts = append(facts, fact{"of", *q.Entity})
	}
	if q.Group != nil {
		facts = append(facts, fact{"of agent", *q.Group})
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
	out.Write(append(bytes.TrimSuffix(text, []byte("null}")), '"')) //nolint:errcheck // Flush tells
	encoder := base64.NewEncoder(base64.StdEncoding, out)
	if err := legacy.QuarantineRaw(ctx, d, q.ID, encoder); err != nil {
		return err
	}
	if err := encoder.Close(); err != nil {
		return err
	}
	out.WriteString("\"}\n") //nolint:errcheck // as above
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

var _ io.Writer = (*limitedBuffer)(nil)
