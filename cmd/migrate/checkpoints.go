package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/maintenance"
)

// checkpointAnswer is the shape of checkpoints show --json. It has one of the last two fields.
type checkpointAnswer struct {
	Summary checkpoints.Summary `json:"summary"` // as in checkpoints list
	// paused: waits and can be claimed; claimed: a process resumes the run
	State   checkpoints.State `json:"state"`
	SavedAt time.Time         `json:"saved_at"` // when the document was saved or imported, RFC 3339, UTC
	Bytes   int64             `json:"bytes"`    // of the document
	// why the original can't read the document; null if it can
	Problem *string `json:"problem"`
	// what the old program did to the run since it was imported: it can't be claimed before somebody
	// decides; null: nothing
	Contest *string `json:"contested"`
	// on the run; null where there is none. A run that paused again can wait and be claimed
	Claim *checkpoints.Holder `json:"claim"`
	// instead of document, where that is no JSON: its bytes
	Base64 string `json:"document_base64,omitempty"`
	// only where it is JSON: as it was saved or imported, without the blanks between its parts
	Document any `json:"document,omitempty"`
}

var _ = register("Look:", 50, func(a *app) *cobra.Command {
	return a.group(checkpointNoun, "Look at paused runs, and recover claims that nobody works on",
		a.checkpointsListCommand(), a.checkpointsShowCommand(), a.checkpointsRecoverCommand())
})

var checkpointNoun = noun{
	store: maintenance.StoreCheckpoints, entity: "checkpoint", some: "a checkpoint", written: runWritten,
	owner: "agent", ownerUsage: "the checkpoint of the agent `ID`",
	open: func(a *app, d *db.DB) verbs {
		s := a.checkpointStore(d)
		of := func(t thing) *checkpoints.Store {
			return checkpoints.NewStore(d, checkpoints.Options{Scope: a.scope, Agent: t.owner})
		}
		return verbs{
			find:  findCheckpoints(s, ""),
			pin:   func(ctx context.Context, t thing) error { return of(t).Pin(ctx, t.id) },
			unpin: func(ctx context.Context, t thing) error { return of(t).Unpin(ctx, t.id) },
			remove: by(func(t thing) checkpoints.Ref {
				return checkpoints.Ref{AgentID: t.owner, RunID: t.id}
			}, s.Delete),
		}
	},
}

func (a *app) checkpointStore(d *db.DB) *checkpoints.Store {
	return checkpoints.NewStore(d, checkpoints.Options{Scope: a.scope})
}

// findCheckpoints finds runs that wait, are claimed, or both, each once. The state "" matches any.
func findCheckpoints(s *checkpoints.Store, state checkpoints.State) findThings {
	return func(ctx context.Context, prefix string, agent *string, _ int) (list []thing, err error) {
		found, err := s.Find(ctx, prefix, db.MaxLimit)
		for _, ref := range found {
			t := thing{ref.RunID, ref.AgentID}
			if (state == "" || ref.State == state) && (agent == nil || *agent == t.owner) &&
				(len(list) == 0 || list[len(list)-1] != t) {
				list = append(list, t)
			}
		}
		return list, err
	}
}

var checkpointStates = []checkpoints.State{checkpoints.Paused, checkpoints.Claimed}

func (a *app) checkpointsListCommand() *cobra.Command {
	status := string(checkpoints.Paused)
	c := &cobra.Command{
		Use:   "list [--status WORD] [--limit N] [--after CURSOR] [--all]",
		Short: "List paused runs, by id",
		Long: `list shows the runs of the scope that wait to be claimed, those whose document can't be read among
them; with --status claimed, those that a process has claimed and not completed. A run that the old program
went on with, too, is contested: it can't be claimed until imports resolve.`,
	}
	wordFlag(a, c, &status, "status", "runs in this `STATUS`: ", checkpointStates)
	return list(a, c, listing[checkpoints.Summary]{
		noun: &checkpointNoun,
		page: func(ctx context.Context, d *db.DB, _ string, at db.At) (db.Page[checkpoints.Summary], error) {
			return a.checkpointStore(d).Page(ctx, checkpoints.Filter{State: checkpoints.State(status)}, at)
		},
		grid: grid{
			header: []string{"run", "agent", "status", "stage", "paused", "bytes", "claimed", "asks"},
			right:  []int{5},
			times:  []int{4}, ids: []int{0, 1}, texts: []int{6, 7}, least: []int{5, 2, 1, 3, 6},
		},
		row: func(s checkpoints.Summary) []string {
			asks := cut(s.Prompt, 60)
			switch {
			case s.Contested != "":
				a.noteContested()
				asks = "contested: " + cut(s.Contested, 60)
			case s.Problem != "":
				asks = "can't be read: " + cut(s.Problem, 60)
			}
			return []string{
				s.RunID, s.AgentID, string(s.State), s.PausedStageID, pausedAt(s), fmt.Sprint(s.Size),
				claimedBy(s.Claim), asks,
			}
		},
	})
}

func pausedAt(s checkpoints.Summary) string {
	if s.Problem != "" {
		return ""
	}
	return instant(s.CreatedAt)
}

func claimedBy(h *checkpoints.Holder) string {
	switch {
	case h == nil:
		return ""
	case h.Pid == 0:
		return "imported " + instant(h.ClaimedAt)
	case !h.Alive:
		return fmt.Sprintf("%s by %s (%d), which is gone", instant(h.ClaimedAt), h.Program, h.Pid)
	}
	return fmt.Sprintf("%s by %s (%d)", instant(h.ClaimedAt), h.Program, h.Pid)
}

func (a *app) checkpointsShowCommand() *cobra.Command {
	var status string
	c := &cobra.Command{
		Use:   "show ID [--agent ID] [--status WORD]",
		Short: "Show a paused run with its document",
		Long: `show takes the id of a run, or the beginning of one where no other begins so. Of a run that waits
and is claimed, too, it shows the document that waits; --status claimed shows the other.`,
		Args: cobra.ExactArgs(1),
		RunE: a.on(toRead, func(ctx context.Context, d *db.DB, args []string) error {
			store := a.checkpointStore(d)
			answer, document, err := describeCheckpoint(ctx, d, store, args[0], given(a.running, "agent"),
				checkpoints.State(status))
			if err != nil {
				return err
			}
			if a.json {
				if utf8.Valid(document) && json.Valid(document) {
					answer.Document = json.RawMessage(document) // which keeps its escapes
				} else {
					answer.Base64 = base64.StdEncoding.EncodeToString(document)
				}
				return a.printJSON(answer)
			}
			a.printCheckpoint(answer, document)
			return a.failed
		}),
	}
	c.Flags().String(checkpointNoun.owner, "", checkpointNoun.ownerUsage)
	wordFlag(a, c, &status, "status", "the document in this `STATUS`: ", checkpointStates)
	return a.answering(c, checkpointAnswer{})
}

func describeCheckpoint(ctx context.Context, d *db.DB, store *checkpoints.Store, id string,
	agent *string, state checkpoints.State,
) (checkpointAnswer, []byte, error) {
	var answer checkpointAnswer
	t, err := checkpointNoun.find(ctx, verbs{find: findCheckpoints(store, state)}, id, agent)
	if err != nil {
		return answer, nil, err
	}
	for _, either := range []checkpoints.State{checkpoints.Claimed, checkpoints.Paused} {
		s, err := store.Get(ctx, checkpoints.Ref{AgentID: t.owner, RunID: t.id, State: either})
		if errors.Is(err, db.ErrNotFound) {
			continue
		}
		if err != nil {
			return answer, nil, err
		}
		answer.Claim = cmp.Or(s.Claim, answer.Claim)
		if state != "" && s.State != state {
			continue
		}
		answer.Summary, answer.State, answer.SavedAt, answer.Bytes = s, s.State, s.SavedAt, s.Size
		answer.Problem, answer.Contest = orNull(s.Problem), orNull(s.Contested)
	}
	var document []byte
	err = d.Read(ctx, "show checkpoint", func(rx *db.Rx) error {
		document, err = store.DocumentTx(rx, checkpoints.Ref{AgentID: t.owner, RunID: t.id, State: answer.State})
		if errors.Is(err, db.ErrNotFound) {
			err = &db.Error{
				Op: "show", Entity: "checkpoint", ID: t.id, Err: db.ErrNotFound,
				Hint: "it was claimed or removed meanwhile; try again",
			}
		}
		return err
	})
	return answer, document, err
}

func (a *app) printCheckpoint(answer checkpointAnswer, document []byte) {
	claimed := "no"
	if c := answer.Claim; c != nil {
		claimed = claimedBy(c)
		if c.Expired {
			claimed += ", expired"
		}
	}
	a.printFacts(
		"run", answer.Summary.RunID, "agent", answer.Summary.AgentID, "status", string(answer.State),
		"stage", answer.Summary.PausedStageID, "asks", answer.Summary.Prompt, "paused", pausedAt(answer.Summary),
		"saved", a.when(answer.SavedAt), "claimed", claimed, "problem", value(answer.Problem),
		"contested", value(answer.Contest),
	)
	if answer.Contest != nil {
		a.noteContested()
	}
	a.print("\n")
	a.printLines(string(document), "\r\n")
}

func (a *app) checkpointsRecoverCommand() *cobra.Command {
	var imported bool
	c := a.recoverCommand(recovery{
		"claim", "Make claims that nobody works on claimable again",
		`recover frees the claims of processes that are gone, and those whose time is over. Claims of processes
that still run, stopped ones too, stay with them. So do claims that an import brought, of which nobody knows
whether the old program still works on them; once it is stopped, --imported frees these too.`,
	},
		func(ctx context.Context, d *db.DB) (int, error) {
			if imported {
				return a.checkpointStore(d).RecoverOrphaned(ctx) // this process has no claims of its own
			}
			return a.checkpointStore(d).Recover(ctx)
		})
	c.Use += " [--imported]"
	c.Flags().BoolVar(&imported, "imported", false, "free the claims that an import brought, too")
	return c
}
