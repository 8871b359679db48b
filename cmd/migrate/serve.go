package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/web"
)

// serveAnswer is the shape of serve --json, which prints it when the pages can be opened.
type serveAnswer struct {
	URL string `json:"url"` // address to open, with the token
}

var _ = register("Look:", 11, func(a *app) *cobra.Command {
	var listen, public string
	var answer bool
	c := &cobra.Command{
		Use:   "serve [--listen ADDRESS] [--public-url URL] [--answer]",
		Short: "Show the runs as pages in a browser",
		Long: `serve shows what needs a person, what runs, what failed and what it cost, and each run as a timeline
that grows. It prints the address to open, which has a token: nobody without it sees anything. It opens the
database read-only unless --answer lets the pages answer questions and settle effects. It ends when it is
interrupted.

It listens on this machine only. To reach it from elsewhere, let ssh or a proxy forward the address, and name
the address that a browser sees with --public-url: other host names are refused.`,
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:0",
		"the `ADDRESS` to listen on; port 0 is any that is free")
	c.Flags().StringVar(&public, "public-url", "", "the `URL` under which a browser reaches the pages")
	c.Flags().BoolVar(&answer, "answer", false, "let the pages answer questions and settle effects")
	c.RunE = func(c *cobra.Command, _ []string) error {
		o := web.Options{Scope: a.scope, Token: web.NewToken(), Answer: answer}
		at, err := url.Parse(public)
		if err != nil || public != "" && (at.Host == "" || at.Scheme != "http" && at.Scheme != "https") {
			return usage("--public-url %s: write an address, as https://example.org/selvedge/", public)
		}
		if public != "" {
			o.Hosts = []string{at.Hostname()}
		}
		how := toRead
		if answer {
			how = toWrite
		}
		return a.with(c.Context(), how, func(d *db.DB) error { return a.serve(c.Context(), d, listen, at, o) })
	}
	return a.answering(c, serveAnswer{})
})

func (a *app) serve(ctx context.Context, d *db.DB, listen string, public *url.URL, o web.Options) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return usage("--listen %s: %w", listen, err)
	}
	if public.Host == "" {
		public = &url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/"}
	}
	if ip, _, _ := net.SplitHostPort(listen); ip != "" {
		o.Hosts = append(o.Hosts, ip)
	}
	public.RawQuery = url.Values{"token": {o.Token}}.Encode()
	if err := a.answerLine(serveAnswer{public.String()}, "open %s\n", public); err != nil {
		return err
	}
	server := &http.Server{
		Handler: web.Handler(d, o), BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
