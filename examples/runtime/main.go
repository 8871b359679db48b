package main

import (
	"context"
	"errors"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: runtime FILE TASK...")
		os.Exit(2)
	}
	if err := work(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// work submits the tasks and works until there is nothing to do. It says each step once it can't be
// lost any more.
func work(ctx context.Context, path string, tasks []string) (err error) {
	r, err := Open(ctx, path, func(task string, step int) { fmt.Println(task, step) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for _, task := range tasks {
		if err := r.Submit(ctx, task); err != nil {
			return err
		}
	}
	return r.Work(ctx)
}
