// Package query answers what people ask of the runs in a database: what needs me, what is running,
// what failed and why, what did it cost; and it shows one run as a timeline. The commands of migrate
// and the pages of package web show its answers.
//
//	q := query.On(d, "")
//	night, err := q.Overview(ctx, time.Now().Add(-12*time.Hour))
//	page, err := q.Runs(ctx, query.Filter{Failed: true}, db.At{})
//	items, err := q.Timeline(ctx, run, db.At{})
//
// Lists are pages, and read no body of a record. Each call is one or more short reads; a page is from one
// snapshot, an Overview from several.
package query
