// Package web shows the runs of a database to people, as HTML: what needs them, what runs, what failed
// and why, what it cost, and each run as a timeline. Its answers are those of package query.
//
//	token := web.NewToken()
//	pages := web.Handler(d, web.Options{Token: token})
//	err := http.ListenAndServe("127.0.0.1:8420", pages) // open http://127.0.0.1:8420/?token=…
//
// The pages need no JavaScript, and follow the runs with it. They take nothing from elsewhere: a page
// is one response. Every request must name a known host and carry the token, as a parameter once and as a
// cookie from then on. Nothing is written unless Options.Answer is set.
package web
