package checkpoints

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"selvedge/db"
	documents "selvedge/internal/checkpoints"
	"selvedge/internal/chrono"
	"selvedge/internal/serdejson"
)

// A State is where a checkpoint stands.
type State string

// The states. A run may have a checkpoint in each at a time.
const (
	Paused  State = documents.Paused  // waits, and can be claimed
	Claimed State = documents.Claimed // a process resumes the run
)

// A Summary is a checkpoint without its document.
type Summary struct {
	RunID string
	State State
	// PausedStageID, Prompt and CreatedAt are out of the document: the stage that the run waits at, what the person is
	// asked, and since when. Empty where Problem is set.
	PausedStageID string
	Prompt        string
	CreatedAt     time.Time
	SavedAt       time.Time // when the document was saved or imported
	Size          int64     // bytes of the document
	Problem       string    // why the document can't be read; "" if it can
	Claim         *Holder   // who resumes the run; nil while it waits

	createdAtText string // as it was written, where CreatedAt can't hold it (second 60)
}

// MarshalJSON gives the fields that the original's own lists have: run_id, paused_stage_id, prompt, created_at. The last
// three are null where the document can't be read.
func (s Summary) MarshalJSON() ([]byte, error) {
	out := serdejson.AppendQuoted([]byte(`{"run_id":`), s.RunID)
	if s.Problem != "" {
		return append(out, `,"paused_stage_id":null,"prompt":null,"created_at":null}`...), nil
	}
	out = serdejson.AppendQuoted(append(out, `,"paused_stage_id":`...), s.PausedStageID)
	out = serdejson.AppendQuoted(append(out, `,"prompt":`...), s.Prompt)
	out = serdejson.AppendQuoted(append(out, `,"created_at":`...), chrono.Text(s.CreatedAt, s.createdAtText))
	return append(out, '}'), nil
}

// A Holder is who has a claim.
type Holder struct {
	ClaimedAt time.Time
	Epoch     int64         // 0: the claim was imported
	Owner     int64         // the process, in the table owners; 0: nobody's, the claim was imported
	Pid       int           // of the process; 0: nobody's
	Program   string        // of the process
	Alive     bool          // the process still runs
	TTL       time.Duration // how long the claim lasts without a renewal; 0: as long as the process
	Expired   bool          // that has passed: RecoverOrphaned may take it
}

// A Filter narrows a list. The zero value takes everything.
type Filter struct {
	State State // "" means both
}

// A Page is a part of a list.
type Page struct {
	Items []Summary
	Next  string // cursor of the page behind this one; "" at the end
}

// A PageQuery says which page. The zero value is the first one.
type PageQuery struct {
	Filter
	After string // Page.Next of the page before; "" for the first
	Limit int    // most items; 0 means 50
}

const defaultLimit = 50

// Page gives checkpoints in the order of run ids; a run's claimed one comes before its waiting one. A cursor stays good
// whatever happens to the checkpoints: a page begins behind where the one before ended.
func (s *Store) Page(ctx context.Context, q PageQuery) (Page, error) {
	const op = "list checkpoints"
	after, err := parseCursor(q.After)
	switch {
	case err != nil:
	case q.Limit < 0:
		err = fmt.Errorf("%w: the limit is %d", db.ErrInvalid, q.Limit)
	case q.State != "" && q.State != Paused && q.State != Claimed:
		err = fmt.Errorf("%w: %q is no state of a checkpoint", db.ErrInvalid, q.State)
	}
	if err != nil {
		return Page{}, failed(op, "", err)
	}
	if q.Limit == 0 {
		q.Limit = defaultLimit
	}
	var page Page
	err = s.db.Read(ctx, op, func(rx *db.Rx) error {
		page = Page{}
		scope, there, err := rx.Scope(s.scope)
		if err != nil || !there {
			return err
		}
		page, err = s.page(rx, scope, q, after)
		return err
	})
	return page, failed(op, "", err)
}

// All gives every checkpoint that the filter takes, read page by page: what changes meanwhile may or may not be seen.
func (s *Store) All(ctx context.Context, f Filter) iter.Seq2[Summary, error] {
	return func(yield func(Summary, error) bool) {
		for q := (PageQuery{Filter: f, Limit: 200}); ; {
			page, err := s.Page(ctx, q)
			if err != nil {
				yield(Summary{}, err)
				return
			}
			for _, one := range page.Items {
				if !yield(one, nil) {
					return
				}
			}
			if q.After = page.Next; q.After == "" {
				return
			}
		}
	}
}

// Get gives what the store has of a run: none, one, or the claimed checkpoint and the one that waits.
func (s *Store) Get(ctx context.Context, runID string) (list []Summary, err error) {
	const op = "get checkpoint"
	if err := checkID(runID); err != nil {
		return nil, failed(op, runID, err)
	}
	err = s.db.Read(ctx, op, func(rx *db.Rx) error {
		scope, there, err := rx.Scope(s.scope)
		if err != nil || !there {
			return err
		}
		var rows []summaryRow
		if err := rx.Select(&rows, sqlSummaries+` AND c.run_id = ? ORDER BY c.run_id, c.state`, scope, runID); err != nil {
			return err
		}
		list, err = s.summaries(rx, rows)
		return err
	})
	return list, failed(op, runID, err)
}

const (
	sqlSummaries = `SELECT c.run_id, c.state, c.paused_stage_id, c.prompt, c.created_at, c.created_at_text, c.saved_at, c.size, c.problem,
    c.claimed_at, c.epoch, c.owner_id, c.lease_ttl, c.lease_until, c.lease_boot_id, o.pid, o.program
FROM checkpoints AS c LEFT JOIN owners AS o ON o.id = c.owner_id
WHERE c.scope = ?`
	sqlPageOrder = ` ORDER BY c.run_id, c.state LIMIT ?`
)

// sqlInState spells the state out: only so is the index of the claims taken.
var sqlInState = map[State]string{"": "", Paused: ` AND c.state = 'paused'`, Claimed: ` AND c.state = 'claimed'`}

type summaryRow struct {
	documents.Row
	ClaimedAt   *int64  `db:"claimed_at"`
	Epoch       *int64  `db:"epoch"`
	OwnerID     *int64  `db:"owner_id"`
	LeaseTTL    *int64  `db:"lease_ttl"`
	LeaseUntil  *int64  `db:"lease_until"`
	LeaseBootID *string `db:"lease_boot_id"`
	Pid         *int    `db:"pid"`
	Program     *string `db:"program"`
}

func (s *Store) page(rx *db.Rx, scope int64, q PageQuery, after *cursor) (Page, error) {
	query, args := sqlSummaries, []any{scope}
	if after != nil {
		query += ` AND (c.run_id, c.state) > (?, ?)`
		args = append(args, after.RunID, after.State)
	}
	query += sqlInState[q.State]
	var rows []summaryRow
	if err := rx.Select(&rows, query+sqlPageOrder, append(args, q.Limit+1)...); err != nil {
		return Page{}, err
	}
	next := ""
	if len(rows) > q.Limit {
		rows = rows[:q.Limit]
		last := rows[q.Limit-1]
		next = cursor{last.RunID, last.State}.String()
	}
	items, err := s.summaries(rx, rows)
	return Page{Items: items, Next: next}, err
}

func (s *Store) summaries(rx *db.Rx, rows []summaryRow) ([]Summary, error) {
	list := make([]Summary, len(rows))
	for i, r := range rows {
		list[i] = Summary{
			RunID: r.RunID, State: State(r.State), PausedStageID: deref(r.PausedStageID), Prompt: deref(r.Prompt),
			CreatedAt: r.Created(), createdAtText: deref(r.CreatedAtText), SavedAt: db.Time(r.SavedAt), Size: r.Size, Problem: deref(r.Problem),
		}
		if r.ClaimedAt == nil {
			continue
		}
		h := &Holder{ClaimedAt: db.Time(*r.ClaimedAt)}
		list[i].Claim = h
		if r.OwnerID == nil {
			continue
		}
		h.Epoch, h.Owner, h.Pid, h.Program, h.TTL = deref(r.Epoch), *r.OwnerID, deref(r.Pid), deref(r.Program), time.Duration(deref(r.LeaseTTL))
		h.Expired = claimed{LeaseUntil: r.LeaseUntil, LeaseBootID: r.LeaseBootID}.expired(s.bootTime)
		var err error
		if h.Alive, err = rx.OwnerAlive(*r.OwnerID); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

// A cursor is the last item of a page.
type cursor struct {
	RunID string `json:"r"`
	State string `json:"s"`
}

func (c cursor) String() string {
	text, _ := json.Marshal(c) // two strings
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseCursor(text string) (*cursor, error) {
	if text == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	c := new(cursor)
	if err == nil {
		err = json.Unmarshal(raw, c)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %q is no cursor of this list", db.ErrInvalid, text)
	}
	return c, nil
}
