package main

import (
	"bytes"
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/legacy"
	"selvedge/maintenance"
)

// agentAnswer is the shape of agents show --json.
type agentAnswer struct {
	Entry agents.Entry `json:"entry"` // as in agents list
	// alive, dead or unknown: by the lease where there is one, else by pid and boot id
	Liveness    agents.Liveness     `json:"liveness"`
	Reservation *agents.Reservation `json:"reservation"` // of its thread; null where it has not reserved it
	// what the old program did to it since it was imported, and nobody has decided about; null: nothing
	Contested *string `json:"contested"`
	// the entry as a TOML file of the original's, keys included that only later versions know
	Document string `json:"document"`
}

type reapAnswer struct {
	Reaped int `json:"reaped"` // agents that were active and dead, and are abandoned now
}

type releaseAnswer struct {
	SessionID string        `json:"session_id"` // the agent
	Thread    string        `json:"thread"`     // the thread that it was on
	Was       agents.Status `json:"was"`        // its status before
	Status    agents.Status `json:"status"`     // its status now
}

var _ = register("Look:", 40, func(a *app) *cobra.Command {
	return a.group(agentNoun, "Look at agents, and end what is dead or stuck",
		a.agentsListCommand(), a.agentsShowCommand(), a.agentsReapCommand(), a.agentsReleaseCommand())
})

var agentNoun = noun{
	store: maintenance.StoreAgents, entity: "agent", some: "an agent", written: "%[1]s",
	open: func(a *app, d *db.DB) verbs { return idVerbs(a.registry(d)) },
	recovers: &recovery{
		"agent", "Abandon agents that are certainly dead",
		`recover abandons the active agents whose lease is over, and those without one whose process is known to
be gone. Agents of which this machine can't tell stay, as those of an import: reap judges them by their pid.`,
	},
}

func (a *app) registry(d *db.DB) *agents.Registry {
	return agents.NewRegistry(d, agents.Options{Scope: a.scope})
}

var agentStatuses = []agents.Status{agents.Active, agents.Abandoned, agents.Complete, agents.Merged}

func (a *app) agentsListCommand() *cobra.Command {
	filter := agents.Filter{}
	c := &cobra.Command{
		Use:   "list [--thread NAME] [--status WORD] [--since TIME] [--limit N] [--after CURSOR] [--all]",
		Short: "List agents, newest first",
		Long: `list shows the agents of the scope, the newest start first. Filters add up. Agents that ended seven
days ago or earlier are left out, as the original does; it deletes them then, while list only looks. An
agent that the old program went on with, too, is contested until imports resolve.`,
	}
	a.textFlag(c, &filter.Thread, "thread", "only agents on the thread `NAME`")
	wordsFlag(a, c, &filter.Statuses, "status", "only agents in this `STATUS`: ", agentStatuses)
	a.sinceFlag(c, &filter.Since, "only agents that started")
	return list(a, c, listing[agentItem]{
		noun: &agentNoun,
		page: func(ctx context.Context, d *db.DB, _ string, at db.At) (db.Page[agentItem], error) {
			return a.agentsPage(ctx, d, filter, at)
		},
		grid: grid{
			header: []string{"agent", "thread", "status", "started", "ended", "pid", "for"},
			right:  []int{5},
			times:  []int{3, 4}, ids: []int{0, 1}, least: []int{5, 4, 1, 6},
		},
		row: func(e agentItem) []string {
			why := cut(value(e.AttachReason), 60)
			if e.contested != "" {
				a.noteContested()
				why = "contested: " + cut(e.contested, 60)
			}
			status := string(e.Status)
			if e.Status == agents.Active && agents.LivenessFor(e.Entry) == agents.Dead {
				status += ", dead"
			}
			return []string{
				e.SessionID, e.Thread, status, instant(e.StartedAt), endOf(e.Entry),
				value(e.PID), why,
			}
		},
	})
}

func (a *app) agentsPage(ctx context.Context, d *db.DB, filter agents.Filter, at db.At,
) (page db.Page[agentItem], err error) {
	entries, err := a.registry(d).Page(ctx, filter, at)
	if err != nil {
		return page, err
	}
	page.Next = entries.Next
	ids := each(entries.Items, func(e agents.Entry) string { return e.SessionID })
	contested, err := legacy.Contested(ctx, d, legacy.Agents, a.scope, ids...)
	page.Items = each(entries.Items, func(e agents.Entry) agentItem {
		return agentItem{e, contested[e.SessionID]}
	})
	return page, err
}

// An agentItem is an agent in a list.
type agentItem struct {
	agents.Entry
	contested string // what the old program did to it since it was imported; "": nothing that is to be decided
}

// MarshalJSON adds contested to the entry unless it is empty.
func (i agentItem) MarshalJSON() ([]byte, error) {
	text, err := i.Entry.MarshalJSON()
	if err != nil || i.contested == "" {
		return text, err
	}
	return append(appendJSON(append(bytes.TrimSuffix(text, []byte("}")), `,"contested":`...), i.contested),
		'}'), nil
}

func endOf(e agents.Entry) string {
	if e.CompletedAt == nil {
		return ""
	}
	return instant(*e.CompletedAt)
}

func (a *app) agentsShowCommand() *cobra.Command {
	return a.answering(a.one(agentNoun, toRead, &cobra.Command{
		Use:   "show ID",
		Short: "Show an agent",
		Long: `show takes the id of an agent, or the beginning of one where no other begins so. Whether the agent
lives is asked on this machine.`,
	}, func(ctx context.Context, d *db.DB, t thing) error {
		answer, err := a.describeAgent(ctx, d, t.id)
		if err != nil {
			return err
		}
		return a.answer(answer, func() { a.printAgent(answer) })
	}), agentAnswer{})
}

func (a *app) describeAgent(ctx context.Context, d *db.DB, id string) (agentAnswer, error) {
	registry := a.registry(d)
	e, err := registry.Get(ctx, id)
	if err != nil {
		return agentAnswer{}, err
	}
	answer := agentAnswer{Entry: e, Liveness: agents.LivenessFor(e), Document: string(e.TOML())}
	contested, err := legacy.Contested(ctx, d, legacy.Agents, a.scope, e.SessionID)
	if err != nil {
		return answer, err
	}
	answer.Contested = orNull(contested[e.SessionID])
	held, ok, err := registry.Reservation(ctx, e.Thread)
	if err == nil && ok && held.Holder.SessionID == e.SessionID {
		answer.Liveness, answer.Reservation = held.Live, &held
	}
	return answer, err
}

func (a *app) printAgent(answer agentAnswer) {
	e := answer.Entry
	state := string(e.Status)
	if e.Status == agents.Active {
		state += ", " + string(answer.Liveness)
	}
	held := "no"
	if r := answer.Reservation; r != nil {
		held = "since " + a.when(r.Since) + ", epoch " + strconv.FormatInt(r.Epoch, 10)
		if r.Leased {
			held += ", by a lease"
		}
	}
	a.printFacts(
		"agent", e.SessionID, "thread", e.Thread, "status", state, "reserved", held,
		"started", a.when(e.StartedAt), "ended", endOf(e),
		"context queries", strconv.Itoa(len(e.ContextQueries)), "contested", value(answer.Contested),
	)
	if answer.Contested != nil {
		a.noteContested()
	}
	a.print("\n")
	a.printLines(answer.Document, "\n")
}

func (a *app) agentsReapCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "reap [--thread NAME]",
		Short: "Abandon agents that are active and dead",
		Long: `reap sets the status of active agents to abandoned, and gives their threads back, where their lease
has ended or, without one, where no process has their pid or the machine was restarted since. Agents of
which nobody can tell stay.`,
	}
	c.Flags().String("thread", "", "only agents on the thread `NAME`")
	return a.counting(c, func(n int) any { return reapAnswer{n} }, "abandoned", "dead agent",
		func(ctx context.Context, d *db.DB) (int, error) {
			if thread := given(c, "thread"); thread != nil {
				return a.registry(d).ReapDeadForThread(ctx, *thread)
			}
			return a.registry(d).ReapDead(ctx)
		})
}

func (a *app) agentsReleaseCommand() *cobra.Command {
	status := string(agents.Abandoned)
	c := &cobra.Command{
		Use:   "release ID [--status WORD]",
		Short: "End an agent, and give its thread back",
		Long: `release takes the id of an active agent, or the beginning of one where no other begins so. The
agent itself is not asked: what it does under a lease is refused from then on.`,
	}
	wordFlag(a, c, &status, "status", "its `STATUS` from then on: ", agentStatuses[1:])
	a.one(agentNoun, toWrite, c, func(ctx context.Context, d *db.DB, t thing) error {
		s := a.registry(d)
		e, err := s.Get(ctx, t.id)
		if err != nil {
			return err
		}
		if e.Status != agents.Active {
			return fail(kindFailed, "", "agent %s is %s already", e.SessionID, e.Status)
		}
		if err := s.UpdateStatus(ctx, e.SessionID, agents.Status(status)); err != nil {
			return err
		}
		return a.answerLine(releaseAnswer{e.SessionID, e.Thread, e.Status, agents.Status(status)},
			"agent %s is %s; thread %s is free of it\n", e.SessionID, status, e.Thread)
	})
	return a.answering(c, releaseAnswer{})
}
