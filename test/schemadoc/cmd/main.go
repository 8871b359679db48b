// Command cmd prints docs/SCHEMA.md.
package main

import (
	"context"
	"fmt"
	"os"

	"selvedge/test/schemadoc"
)

func main() {
	page, err := schemadoc.Page(context.Background())
	if err == nil {
		_, err = os.Stdout.WriteString(page)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "schemadoc:", err)
		os.Exit(1)
	}
}
