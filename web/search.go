package web

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"selvedge/db"
	"selvedge/query"
	"selvedge/search"
)

// A finder keeps the index of the pages open. A search starts an update of the index, and waits for it only
// a moment: the first one may take minutes.
type finder struct {
	mu       sync.Mutex
	index    *search.Index
	updating bool
	failed   error // of the last update
}

type searchBody struct {
	listBody[search.Hit]
	Given    url.Values // the query, as it was given
	Updating bool       // the index does not have all yet
	None     bool       // there are no words to find
}

func (s *server) find(r *http.Request) (*page, error) {
	body := searchBody{Given: r.URL.Query()}
	p := &page{Title: "Search", Name: "search", Here: "search"}
	q := search.Query{
		Words: r.FormValue("words"), Scope: s.o.Scope, Store: r.FormValue("store"),
		Best: r.FormValue("best") != "",
	}
	if agent := r.FormValue("agent"); agent != "" {
		q.Owner = &agent
	}
	var err error
	if q.Since, err = query.ParseTime(r.FormValue("since"), time.Now()); err != nil {
		return nil, err
	}
	if body.None = strings.TrimSpace(q.Words) == ""; !body.None {
		index, updating, err := s.finder.ready(r.Context(), s.db)
		if err != nil {
			return nil, err
		}
		body.Updating = updating
		list, err := index.Search(r.Context(), q, at(r))
		if err != nil {
			return nil, err
		}
		body.listBody = bodyOf(r, list)
	}
	p.Body = body
	return p, nil
}

// ready opens the index, starts to update it, and waits for that a moment.
func (f *finder) ready(ctx context.Context, d *db.DB) (*search.Index, bool, error) {
	f.mu.Lock()
	if f.index == nil {
		index, err := search.Open(ctx, d, search.Options{})
		if err != nil {
			f.mu.Unlock()
			return nil, false, err
		}
		f.index = index
	}
	index, done := f.index, make(chan struct{})
	if f.updating {
		close(done)
	} else {
		f.updating = true
		go func() {
			defer close(done)
			err := index.Update(context.WithoutCancel(ctx))
			f.mu.Lock()
			defer f.mu.Unlock()
			f.updating, f.failed = false, err
			if errors.Is(err, db.ErrIO) { // it may have been removed: open it anew
				_ = index.Close()
				f.index = nil
			}
		}()
	}
	f.mu.Unlock()
	select {
	case <-done:
	case <-time.After(moment):
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return index, f.updating, f.failed
}

// snippet marks what was found.
func snippet(text string) template.HTML {
	escaped := template.HTMLEscapeString(firstLine(strings.NewReplacer(search.Mark, "\uE000",
		search.Unmark, "\uE001").Replace(text)))
	//nolint:gosec // it is escaped
	return template.HTML(strings.NewReplacer("\uE000", "<mark>", "\uE001", "</mark>").Replace(escaped))
}
