package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/search"
)

type gcAnswer struct {
	Path    string    `json:"path"`    // the file, absolute
	Scope   string    `json:"scope"`   // the scope that was looked at; empty is the default one
	Applied bool      `json:"applied"` // it was removed; without --apply nothing is
	Removed int       `json:"removed"` // things that went, or would go
	Bytes   int64     `json:"bytes"`   // that they hold, about
	Stores  []gcStore `json:"stores"`  // store by store
	Before  fileSpace `json:"before"`  // the room that the file took before
	After   fileSpace `json:"after"`   // the room that it takes now
}

type gcStore struct {
	storeLimits
	Removed int   `json:"removed"` // things that went, or would go
	Bytes   int64 `json:"bytes"`   // that they hold, about
	// open runs that nobody holds, that wait for nobody and that were silent for longer than the age
	// limit: they are ended as incomplete, or would be
	Ended int `json:"ended"`
	// things that have ended and stay; null where nothing limits the store, which is not looked at then
	Remaining *int      `json:"remaining"`
	Owners    []gcOwner `json:"owners"` // whose they are, those with the most bytes first
}

type gcOwner struct {
	// agent of runs, session of live runs, thread of agents, run of claims, runtime of workers
	Owner   string `json:"owner"`
	Removed int    `json:"removed"` // things of theirs that went, or would go
	Bytes   int64  `json:"bytes"`   // that these hold, about
}

type fileSpace struct {
	FileBytes int64 `json:"file_bytes"` // size of the file
	WALBytes  int64 `json:"wal_bytes"`  // size of its -wal
	FreeBytes int64 `json:"free_bytes"` // of the file, what holds nothing
}

func (s fileSpace) String() string {
	return fmt.Sprintf("%s, and %s of WAL", size(s.FileBytes), size(s.WALBytes))
}

func spaceOf(ctx context.Context, d *db.DB) (fileSpace, error) {
	h, err := d.Health(ctx)
	return fileSpace{FileBytes: h.FileBytes, WALBytes: h.WALBytes, FreeBytes: h.FreePages * h.PageSize}, err
}

// limitFlags are the limits of retention as gc and retention set take them.
type limitFlags struct{ age, keep, bytes string }

func (f *limitFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.age, "max-age", "", "keep what ended no longer ago than this `AGE`: 24h, 30d")
	c.Flags().StringVar(&f.keep, "keep", "",
		"keep the last `N` of each agent (runs), session (live), thread (agents), run (checkpoints), "+
			"runtime (workers) or owner (state)")
	c.Flags().StringVar(&f.bytes, "max-bytes", "",
		"keep the last of them that hold this `SIZE` in all: 500000, 200MB, 4GiB")
}

// policy parses the limits; nil means that there are none. A limit of 0 keeps nothing.
func (f *limitFlags) policy(c *cobra.Command) (*db.Policy, error) {
	var p db.Policy
	given := false
	for name, read := range map[string]func(text string) error{
		"max-age": func(text string) error {
			age, err := parseAge(text)
			p.Age = cmp.Or(age, db.KeepNone)
			return err
		},
		"keep": func(text string) error {
			n, err := strconv.ParseUint(text, 10, 31)
			p.Count = cmp.Or(int(n), db.KeepNone)
			return err
		},
		"max-bytes": func(text string) error {
			n, err := humanize.ParseBytes(text)
			if err == nil && n > 1<<62 {
				err = strconv.ErrRange
			}
			p.Bytes = cmp.Or(int64(n), db.KeepNone)
			return err
		},
	} {
		if flag := c.Flags().Lookup(name); flag.Changed {
			given = true
			if err := read(flag.Value.String()); err != nil {
				return nil, usage("--%s %s: write an age as 24h or 30d, a number, or a size as 500MB", name, flag.Value)
			}
		}
	}
	if !given {
		return nil, nil
	}
	return &p, nil
}

// parseAge parses a duration, which may be in days.
func parseAge(text string) (age time.Duration, err error) {
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	if age, err = time.ParseDuration(text); err == nil && age < 0 {
		err = strconv.ErrRange
	}
	return age, err
}

type gcFlags struct {
	limitFlags
	apply bool
}

var _ = register("Care:", 80, func(a *app) *cobra.Command {
	var f gcFlags
	c := &cobra.Command{
		Use:   "gc [STORE]... [--max-age AGE] [--keep N] [--max-bytes SIZE] [--apply]",
		Short: "Show what has ended and is not to be kept any longer, and with --apply remove it",
		Long: `gc shows what of the scope would go: ended runs and live runs, ended workers, agents that left the
registry a week after their end, and claims that are over. What waits, lives, is held or is pinned never
goes. Values of state have no end: their age is that of the last write. It shows rows and bytes, by store and
by owner, and removes nothing until --apply, which is a yes. An open run that nobody holds, that waits for
nobody and to which nobody has written for longer than the age limit is ended as incomplete; from then on it
counts as ended.

The limits are those of the flags, for each store that is named (runs, live, agents, checkpoints, workers,
state; none means all but state). Without such a flag they are those of migrate retention: where nobody has
set any, 50 runs of each agent and 30 days, and nothing else goes. A limit of 0 keeps nothing.

--apply works in short transactions, beside programs that write, and gives the space back to the disk.
Stopped, it can be run again. It works on a full disk, too.`,
		ValidArgs: maintenance.Stores(),
		Args:      cobra.OnlyValidArgs,
		RunE: func(c *cobra.Command, stores []string) error {
			policy, err := f.policy(c)
			if err != nil {
				return err
			}
			return a.gc(c.Context(), f,
				maintenance.PruneOptions{Scope: a.scope, Stores: stores, Policy: policy, DryRun: !f.apply})
		},
	}
	f.add(c)
	c.Flags().BoolVar(&f.apply, "apply", false, "remove it, and give the space back")
	return a.answering(c, gcAnswer{})
})

func (a *app) gc(ctx context.Context, f gcFlags, o maintenance.PruneOptions) error {
	answer := gcAnswer{Scope: a.scope, Applied: f.apply, Stores: []gcStore{}}
	owners := map[string]map[string]gcOwner{}
	o.Each = func(store string, gone db.Gone) {
		if owners[store] == nil {
			owners[store] = map[string]gcOwner{}
		}
		one := owners[store][gone.Of]
		owners[store][gone.Of] = gcOwner{gone.Of, one.Removed + 1, one.Bytes + gone.Bytes}
	}
	how := toRead
	if f.apply {
		how = toWrite
	}
	err := a.with(ctx, how, func(d *db.DB) (err error) {
		answer.Path = d.Path()
		if answer.Before, err = spaceOf(ctx, d); err != nil {
			return err
		}
		err = a.withProgress(ctx, "", func(ctx context.Context) error {
			done, err := maintenance.Prune(ctx, d, o)
			for _, one := range done {
				answer.add(one, owners[one.Store], o.Policy != nil)
			}
			if f.apply {
				err = errors.Join(err, maintenance.GiveBack(ctx, d), search.UpdateAll(ctx, d))
			}
			return err
		})
		if err == nil {
			answer.After, err = spaceOf(ctx, d)
		}
		if err == nil && !a.json && !a.quiet {
			err = a.noteOtherScopes(ctx, d, f, o)
		}
		return err
	})
	if err != nil {
		return err
	}
	return a.answer(answer, func() { a.printGC(answer, f, o.Stores) })
}

// noteOtherScopes names the other scopes from which something would be removed. They are easily
// forgotten when the disk is full.
func (a *app) noteOtherScopes(ctx context.Context, d *db.DB, f gcFlags, o maintenance.PruneOptions) error {
	scopes, err := a.findScopes(ctx, d, "")
	if err != nil {
		return err
	}
	o.DryRun, o.Each = true, nil
	for _, scope := range append([]string{""}, scopes...) {
		if o.Scope = scope; scope == a.scope {
			continue
		}
		done, err := maintenance.Prune(ctx, d, o)
		if err != nil {
			return err
		}
		removed, bytes := 0, int64(0)
		for _, one := range done {
			removed, bytes = removed+one.Removed, bytes+one.Bytes
		}
		if removed > 0 {
			in := *a
			in.scope = scope
			words := f.words(o.Stores)
			a.noteBelow("note: in the scope %s %s more would go, of %s; see: %s", strconv.Quote(scope),
				comma(removed), size(bytes), in.commandLine(words[:len(words)-1]...))
		}
	}
	return nil
}

func (answer *gcAnswer) add(one maintenance.StorePruned, owners map[string]gcOwner, byFlags bool) {
	s := gcStore{
		storeLimits: limitsOf(one.StoreRetention), Removed: one.Removed, Bytes: one.Bytes, Ended: one.Ended,
		Owners: orEmpty(slices.Collect(maps.Values(owners))),
	}
	if byFlags {
		s.Origin, s.SetAt = "flags", nil
	}
	if one.Limited() {
		s.Remaining = &one.Remaining
	}
	slices.SortFunc(s.Owners, func(a, b gcOwner) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Owner, b.Owner))
	})
	answer.Removed += s.Removed
	answer.Bytes += s.Bytes
	answer.Stores = append(answer.Stores, s)
}

// shownOwners is how many owners of a store people see.
const shownOwners = 10

func (a *app) printGC(answer gcAnswer, f gcFlags, named []string) {
	what, were := "would go", "would be ended"
	if answer.Applied {
		what, were = "went", "were ended"
	}
	stores := &grid{header: []string{"store", what, "bytes", "stay", "limits"}, right: []int{1, 2, 3}}
	ended := 0
	owners := &grid{header: []string{"store", "of", what, "bytes"}, right: []int{2, 3}, texts: []int{}}
	for _, s := range answer.Stores {
		ended += s.Ended
		stay := "all"
		if s.Remaining != nil {
			stay = comma(*s.Remaining)
		}
		stores.add(s.Store, comma(s.Removed), size(s.Bytes), stay, s.words())
		for i, o := range s.Owners {
			if i == shownOwners {
				owners.add(s.Store, fmt.Sprintf("(%d more)", len(s.Owners)-shownOwners), "", "")
				break
			}
			owners.add(s.Store, o.Owner, comma(o.Removed), size(o.Bytes))
		}
	}
	a.printGrid(stores)
	if len(owners.rows) > 0 {
		a.print("\n")
		a.printGrid(owners)
	}
	if ended > 0 {
		a.print("\n%s that nobody has gone on with for longer than the age limit %s as incomplete\n",
			count(ended, "open run"), were)
	}
	switch {
	case answer.Applied:
		a.print("\nthe file takes %s; before it was %s\n", answer.After, answer.Before)
	case answer.Removed+ended > 0:
		a.note("nothing was changed; do it with: %s", a.commandLine(f.words(named)...))
	}
}

// words returns the words of the command with --apply.
func (f gcFlags) words(stores []string) []string {
	words := append([]string{"gc"}, stores...)
	for _, flag := range [][2]string{{"--max-age", f.age}, {"--keep", f.keep}, {"--max-bytes", f.bytes}} {
		if flag[1] != "" {
			words = append(words, flag[0], flag[1])
		}
	}
	return append(words, "--apply")
}
