package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/maintenance"
)

// A noun describes one store to the commands that are the same for every store.
type noun struct {
	store  string // runs
	entity string // run
	some   string // a run
	// owner is the flag that tells things with the same id apart, and ownerUsage its help; "" if ids
	// are unique.
	owner, ownerUsage string
	// written is the format of an id and an owner on a command line.
	written string
	open    func(a *app, d *db.DB) verbs
	// recovers is the help of recover, and the noun of its count; nil if the store has a command of its
	// own for it, or none.
	recovers *recovery
}

type recovery struct{ what, short, long string }

// nouns are in the order in which messages name them.
var nouns = []noun{runNoun, liveNoun, agentNoun, checkpointNoun, workerNoun, stateNoun}

// A thing is identified by an id and, for runs, checkpoints, workers and values, an owner: the agent, the
// runtime, or the owner of the value.
type thing struct{ id, owner string }

// verbs are what a store does in an open file.
type verbs struct {
	find findThings
	// listed returns the things that lists show under other ids; nil if there are none.
	listed             func(ctx context.Context, prefix string, owner *string) ([]candidate, error)
	pin, unpin, remove func(context.Context, thing) error
	recover            func(context.Context) (int, error)
}

// A findThings returns the things whose ids begin with a prefix, by id. It may stop after limit of
// them. A nil owner matches any.
type findThings = func(ctx context.Context, prefix string, owner *string, limit int) ([]thing, error)

// findOwned makes a findThings of a store's method.
func findOwned[R any](find func(ctx context.Context, prefix string, limit int) ([]R, error), as func(R) thing,
) findThings {
	return func(ctx context.Context, prefix string, owner *string, limit int) (list []thing, err error) {
		if owner != nil {
			limit = db.MaxLimit
		}
		found, err := find(ctx, prefix, limit)
		for _, ref := range found {
			if t := as(ref); owner == nil || t.owner == *owner {
				list = append(list, t)
			}
		}
		return list, err
	}
}

// by makes a verb of a store's method.
func by[R any](ref func(thing) R, do func(context.Context, R) error) func(context.Context, thing) error {
	return func(ctx context.Context, t thing) error { return do(ctx, ref(t)) }
}

func idOf(t thing) string { return t.id }

// An idStore is a store whose ids are unique.
type idStore interface {
	Find(ctx context.Context, prefix string, limit int) ([]string, error)
	Pin(ctx context.Context, id string) error
	Unpin(ctx context.Context, id string) error
	Delete(ctx context.Context, id string) error
	Recover(ctx context.Context) (int, error)
}

func idVerbs(s idStore) verbs {
	return verbs{
		find: findOwned(s.Find, func(id string) thing { return thing{id: id} }),
		pin:  by(idOf, s.Pin), unpin: by(idOf, s.Unpin), remove: by(idOf, s.Delete), recover: s.Recover,
	}
}

// find returns the thing that an id or the beginning of one means. It tries the id that calls use,
// then the one that lists show.
func (n noun) find(ctx context.Context, v verbs, id string, owner *string) (thing, error) {
	found, err := v.find(ctx, id, owner, namedCandidates+1)
	candidates := each(found, func(t thing) candidate { return newCandidate(n.written, t.id, t.owner, t) })
	if err == nil && len(found) == 0 && v.listed != nil {
		candidates, err = v.listed(ctx, id, owner)
	}
	if err != nil {
		return thing{}, err
	}
	return unique(n, id, candidates)
}

func newCandidate(written, id, owner string, t thing) candidate {
	return candidate{id: id, name: fmt.Sprintf(written, shellWord(id), shellWord(owner)), item: t}
}

// namedCandidates is how many candidates an ambiguous prefix names.
const namedCandidates = 10

// A candidate is something that an id on the command line may mean.
type candidate struct {
	id   string
	name string // what to write to mean this one
	item thing
}

// unique returns the item that given means: the one with that id, else the only one whose id begins
// with it. candidates are all whose ids begin with it, or namedCandidates+1 of them.
func unique(n noun, given string, candidates []candidate) (thing, error) {
	exact := slices.DeleteFunc(slices.Clone(candidates), func(c candidate) bool { return c.id != given })
	if len(exact) > 0 {
		candidates = exact
	}
	switch len(candidates) {
	case 0:
		return thing{}, &db.Error{
			Op: "find", Entity: n.entity, ID: given, Err: db.ErrNotFound,
			Hint: "see what there is: migrate " + n.store + " list",
		}
	case 1:
		return candidates[0].item, nil
	}
	named := candidates[:min(len(candidates), namedCandidates)]
	return thing{}, &fault{
		kind: kindUsage, given: given, meant: each(named, func(c candidate) string { return c.name }),
		err: fmt.Errorf("%q is not one %s: several begin so", given, n.entity),
	}
}

// meantHint returns the hint for an ambiguous word: the command line of each meaning.
func (a *app) meantHint(word string, meant []string) string {
	lines := []string{"one of these:"}
	for _, words := range meant {
		line := []string{"migrate"}
		found := false
		for _, arg := range a.args {
			if arg == word && !found {
				line, found = append(line, words), true
			} else {
				line = append(line, shellWord(a.withoutSecrets(arg)))
			}
		}
		lines = append(lines, strings.Join(line, " "))
	}
	return strings.Join(lines, "\n")
}

// complete returns the ids that begin with a prefix, within --agent or --runtime if given.
func (n noun) complete(a *app) finder {
	return func(ctx context.Context, d *db.DB, prefix string) ([]string, error) {
		found, err := n.open(a, d).find(ctx, prefix, given(a.running, n.owner), completedIDs)
		return each(found[:min(len(found), completedIDs)], idOf), err
	}
}

// given returns the value of a flag that is set on the command line, or nil.
func given(c *cobra.Command, flag string) *string {
	f := c.Flags().Lookup(flag)
	if f == nil || !f.Changed {
		return nil
	}
	value := f.Value.String()
	return &value
}

// addOwner adds the flag that tells things with the same id apart.
func (n noun) addOwner(c *cobra.Command) {
	if n.owner != "" {
		c.Use += " [--" + n.owner + " ID]"
		c.Flags().String(n.owner, "", n.ownerUsage)
	}
}

// name describes a thing for people.
func (n noun) name(t thing) string {
	if t.owner == "" {
		return n.entity + " " + printable(t.id)
	}
	return n.entity + " " + printable(t.id) + " of " + printable(t.owner)
}

// one makes a command that takes an id, or the beginning of one, and works on that thing.
func (a *app) one(n noun, how db.Options, c *cobra.Command,
	do func(ctx context.Context, d *db.DB, t thing) error,
) *cobra.Command {
	n.addOwner(c)
	c.Args = cobra.ExactArgs(1)
	c.RunE = a.on(how, func(ctx context.Context, d *db.DB, args []string) error {
		t, err := n.find(ctx, n.open(a, d), args[0], given(c, n.owner))
		if err != nil {
			return err
		}
		return do(ctx, d, t)
	})
	return c
}

// pinned is the answer of pin and unpin with --json.
func (n noun) pinned(t thing, pinned bool) any {
	if n.store == maintenance.StoreRuns {
		return pinAnswer{t.id, t.owner, pinned}
	}
	return pinnedAnswer{n.store, t.id, t.owner, pinned}
}

// pinnedAnswer is the shape of pin and unpin --json, but for runs.
type pinnedAnswer struct {
	Store string `json:"store"` // live, agents, checkpoints, workers or state
	ID    string `json:"id"`    // what is pinned, or was
	// the agent of a checkpoint, the runtime of a worker, the owner of a value; empty for others
	Owner  string `json:"owner"`
	Pinned bool   `json:"pinned"` // whether it is pinned now
}

// group makes the command that holds the commands of a store, recover, pin and unpin among them.
func (a *app) group(n noun, short string, commands ...*cobra.Command) *cobra.Command {
	if n.recovers != nil {
		commands = append(commands, a.recoverCommand(*n.recovers, func(ctx context.Context, d *db.DB) (int, error) {
			return n.open(a, d).recover(ctx)
		}))
	}
	return group(n.store, short, append(commands,
		a.pinning(n, true, "pin", fmt.Sprintf("Keep %s whatever the limits of retention say", n.some),
			fmt.Sprintf("pin keeps %[1]s from gc, until it is unpinned. It takes the id of %[1]s, or the beginning "+
				"of one where no other begins so. migrate\nretention show lists what is pinned.", n.some)),
		a.pinning(n, false, "unpin", fmt.Sprintf("Let gc take %s again", n.some),
			fmt.Sprintf("unpin takes the pin of %[1]s away; %[1]s without one is fine. It takes the id of %[1]s, "+
				"or the beginning of one where no other\nbegins so.", n.some)),
	)...)
}

func (a *app) pinning(n noun, pinned bool, name, short, long string) *cobra.Command {
	c := &cobra.Command{Use: name + " ID", Short: short, Long: long, Args: cobra.ExactArgs(1)}
	n.addOwner(c)
	c.RunE = a.on(toWrite, func(ctx context.Context, d *db.DB, args []string) error {
		v, owner := n.open(a, d), given(c, n.owner)
		t, err := n.find(ctx, v, args[0], owner)
		do := v.pin
		if !pinned {
			do = v.unpin
			if errors.Is(err, db.ErrNotFound) { // a pin belongs to an id and outlives its thing
				t, err = a.pinnedAs(ctx, d, n, args[0], owner, err)
			}
		}
		if err == nil {
			err = do(ctx, t)
		}
		if err != nil {
			return err
		}
		return a.answerLine(n.pinned(t, pinned), "%sned the %s\n", name, n.name(t))
	})
	return a.answering(c, n.pinned(thing{}, pinned))
}

// pinnedAs finds the pin of an id that the store no longer has. It returns missing if there is
// none.
func (a *app) pinnedAs(
	ctx context.Context, d *db.DB, n noun, id string, owner *string, missing error,
) (thing, error) {
	for p, err := range everyItem(ctx, a, d, maintenance.Pins) {
		if err != nil {
			return thing{}, err
		}
		if p.Store == n.store && p.ID == id && (owner == nil || *owner == p.Owner) {
			return thing{p.ID, p.Owner}, nil
		}
	}
	return thing{}, missing
}

// recoverAnswer is the shape of recover --json.
type recoverAnswer struct {
	Recovered int `json:"recovered"` // how many were given back
}

// recoverCommand makes a store's recover.
func (a *app) recoverCommand(r recovery, do func(ctx context.Context, d *db.DB) (int, error)) *cobra.Command {
	return a.counting(&cobra.Command{Use: "recover", Short: r.short, Long: r.long},
		func(n int) any { return recoverAnswer{n} }, "recovered", r.what, do)
}

// counting makes c a command that writes and answers with the number of things that it changed.
func (a *app) counting(c *cobra.Command, answer func(n int) any, did, what string,
	do func(ctx context.Context, d *db.DB) (int, error),
) *cobra.Command {
	c.RunE = a.on(toWrite, func(ctx context.Context, d *db.DB, _ []string) error {
		n, err := do(ctx, d)
		if err != nil {
			return err
		}
		return a.answerLine(answer(n), did+" %s\n", count(n, what))
	})
	return a.answering(c, answer(0))
}
