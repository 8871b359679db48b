package query_test

import (
	"fmt"
	"log"
	"time"

	"selvedge/db"
	"selvedge/query"
	made "selvedge/test/night"
)

func ExampleStore_Overview() {
	d, err := db.Open(ctx, ":memory:", db.Options{}) // or the name of a file
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // an example
	if _, err := made.Few(ctx, d); err != nil {
		log.Fatal(err)
	}
	q := query.On(d, "")

	night, err := q.Overview(ctx, time.Now().Add(-12*time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	for _, step := range night.Needs.Items {
		fmt.Println(step.RunID, step.Kind, step.Prompt+step.Tool)
	}
	page, err := q.Runs(ctx, query.Filter{Failed: true, Words: "tests"}, db.At{})
	if err != nil {
		log.Fatal(err)
	}
	for _, run := range page.Items {
		fmt.Println(run.RunID, run.Why, *run.Usage.CostUSD)
	}
	// Output:
	// nightly-unknown effect mail
	// nightly-waits question Deploy on a Friday?
	// nightly-child two tests are red 0.25
}
