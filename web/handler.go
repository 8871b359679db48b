package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"selvedge"
	"selvedge/agents"
	"selvedge/db"
	"selvedge/query"
	"selvedge/runs/live"
	"selvedge/workers"
)

// Options configure Handler.
type Options struct {
	// Scope is the name of the scope that is shown. "" is the default scope.
	Scope string
	// Token is what a client must know. "" admits every client that reaches a known host: for a server
	// behind one that asks who comes.
	Token string
	// Hosts are the names, without a port, under which the server may be reached besides localhost and
	// the addresses of the loopback.
	Hosts []string
	// Answer has the pages answer questions and settle effects. The database must be open for writing.
	Answer bool
}

// NewToken returns a random token of 128 bits.
func NewToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

const (
	patience   = 10 * time.Second // for what a page reads
	maxForm    = 1 << 20          // bytes of an answer
	maxStreams = 200              // open at once
)

// A server holds what the pages read.
type server struct {
	o       Options
	db      *db.DB
	query   *query.Store
	front   *selvedge.Store
	live    *live.Store
	agents  *agents.Registry
	workers *workers.Runtimes
	streams chan struct{} // has an item for each open stream
	secret  string        // of the forms
	cookie  string        // name of the cookie: a browser keeps those of all ports of a host together
	finder  finder
	weeks   kept[[2]db.Usage]
	month   kept[costBody]
}

// Handler returns the pages over an open database. They work below any path, with http.StripPrefix("/path",
// pages) under the pattern "/path/", and behind a proxy that adds one.
func Handler(d *db.DB, o Options) http.Handler {
	s := &server{
		o: o, db: d, query: query.On(d, o.Scope), front: selvedge.On(d, selvedge.Options{Scope: o.Scope}),
		live:   live.NewStore(d, live.Options{Scope: o.Scope}),
		agents: agents.NewRegistry(d, agents.Options{Scope: o.Scope}), workers: workers.NewRuntimes(d, o.Scope),
		streams: make(chan struct{}, maxStreams), secret: NewToken(),
		cookie: fmt.Sprintf("selvedge-%.4x", sha256.Sum256([]byte(o.Token))),
	}
	mux := http.NewServeMux()
	for name, show := range map[string]func(*http.Request) (*page, error){
		"{$}": s.overview, "runs": s.runs, "run": s.run, "live": s.liveRuns, "liverun": s.liveRun, "cost": s.cost,
		"agents": s.registry, "search": s.find, "workers": s.runtimes, "quarantine": s.quarantine,
		"health": s.health,
	} {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), patience)
			defer cancel()
			p, err := show(r.WithContext(ctx))
			s.write(w, r, p, err)
		})
	}
	mux.HandleFunc("GET /run.json", s.export(JSON))
	mux.HandleFunc("GET /run.md", s.export(Markdown))
	mux.HandleFunc("GET /run.html", s.export(HTML))
	mux.HandleFunc("GET /stream", s.stream)
	if o.Answer {
		mux.HandleFunc("POST /answer", s.answer)
	}
	return s.guard(mux)
}

// guard lets nobody through who came by another name, or without the token.
func (s *server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy())
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !s.known(r.Host) {
			http.Error(w, "This host name is not known here. Name it in Options.Hosts, or with --public-url.",
				http.StatusForbidden)
			return
		}
		if s.o.Token == "" {
			next.ServeHTTP(w, r)
			return
		}
		if given := r.URL.Query().Get("token"); given != "" && r.Method == http.MethodGet {
			if !same(given, s.o.Token) {
				http.Error(w, "The token is not that of this server. migrate serve prints it when it starts.",
					http.StatusUnauthorized)
				return
			}
			// Without a path, the cookie goes to this folder, as a browser behind a proxy sees it.
			http.SetCookie(w, &http.Cookie{
				Name: s.cookie, Value: s.o.Token, HttpOnly: true, SameSite: http.SameSiteStrictMode,
			})
			left := r.URL.Query()
			left.Del("token")
			h.Set("Location", withQuery(relativeName(r), left))
			w.WriteHeader(http.StatusSeeOther)
			return
		}
		if c, err := r.Cookie(s.cookie); err != nil || !same(c.Value, s.o.Token) {
			http.Error(w, "Open the address with ?token=… once. migrate serve prints it when it starts.",
				http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// known reports whether the server may be reached by this name.
func (s *server) known(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() || strings.EqualFold(name, "localhost") {
		return true
	}
	return slices.ContainsFunc(s.o.Hosts, func(known string) bool { return strings.EqualFold(known, name) })
}

// write sends a page, or says what went wrong.
func (s *server) write(w http.ResponseWriter, r *http.Request, p *page, err error) {
	status := http.StatusOK
	if err != nil {
		status = statusOf(err)
		p = &page{Title: "This could not be shown", Name: "error", Body: failure{err.Error(), db.Hint(err)}}
	}
	var text strings.Builder
	p.Style, p.Script, p.Scope = style(), script(), s.o.Scope
	if err := templates().ExecuteTemplate(&text, "page", p); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(text.String())) // the client may be gone
	}
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, db.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, db.ErrInvalid), errors.Is(err, db.ErrCursorExpired):
		return http.StatusBadRequest
	case errors.Is(err, db.ErrConflict):
		return http.StatusConflict
	case errors.Is(err, db.ErrUnsupported):
		return http.StatusNotImplemented
	case errors.Is(err, db.ErrBusy), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// sameOrigin reports whether a form was sent by a page of this server. Browsers say where it came from;
// what says nothing is refused.
func (s *server) sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	from, err := url.Parse(cmp.Or(r.Header.Get("Origin"), r.Header.Get("Referer")))
	return err == nil && from.Host != "" && (from.Host == r.Host || slices.Contains(s.o.Hosts, from.Hostname()))
}

// policy allows a page its own style and script, and what it asks this server for.
var policy = sync.OnceValue(func() string {
	return fmt.Sprintf("default-src 'none'; style-src %s; script-src %s; connect-src 'self'; "+
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		hashOf(string(style())), hashOf(string(script())))
})

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
