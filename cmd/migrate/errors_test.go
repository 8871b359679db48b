package main

import (
	"bytes"
	"fmt"
	"testing"

	"selvedge/db"
)

func TestBusyError_NamesTheHolder(t *testing.T) {
	busy := &db.Error{Op: "write", HeldBy: []int{17, 23}, Err: db.ErrBusy}
	for want, err := range map[string]error{
		`{"error":{"kind":"busy","op":"migrate","message":"prune: write: busy","hint":"","held_by":[17,23]}}`: fmt.Errorf("prune: %w", busy),
		`{"error":{"kind":"busy","op":"migrate","message":"busy","hint":""}}`:                                 db.ErrBusy,
	} {
		var out bytes.Buffer
		a := &app{json: true, stderr: &out}
		if code := a.report(err); code != 5 || out.String() != want+"\n" {
			t.Errorf("exit %d: %s", code, out.String())
		}
	}
}
