//go:build !(linux && amd64)

package main

import (
	"errors"
	"time"
)

type tracer struct {
	folder string
	pid    int
	enter  func(*call) (fault, bool)
	leave  func(*call)
	line   func(string)
}

const linesFd = 3

var (
	errHung      = errors.New("the process hung and was killed")
	errElsewhere = errors.New("this tool traces processes and reads registers as Linux on amd64 has them; " +
		"run it there")
)

func (*tracer) run(time.Duration, ...string) (string, error) { return "", errElsewhere }

func askToBeStopped() error { return errElsewhere }

func inode(string) (uint64, error) { return 0, errElsewhere }
