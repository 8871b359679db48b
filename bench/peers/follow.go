package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

var followed = options{full: true, callers: 1}

// follow measures how long after Append returned another process has the record.
func follow(ctx context.Context, out *strings.Builder, n int, dir string) error {
	fmt.Fprintln(out, "an event to a follower in another process, FULL\tp50\tp99\t\t\t")
	for i, p := range peers {
		late, err := follows(ctx, p, n, fmt.Sprint(dir, i))
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if len(late) > 0 {
			fmt.Fprintf(out, "%s\t%s\t%s\t\t\t\n", p.name, micros(late[len(late)/2]), micros(late[len(late)*99/100]))
		}
	}
	return nil
}

// follows returns the sorted delays of a peer whose records another process can follow.
func follows(ctx context.Context, p peer, n int, dir string) (late []float64, err error) {
	s, err := p.start(ctx, dir, followed)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, ok := s.(follower); !ok {
		return nil, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "follow", p.name, dir)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	heard := bufio.NewReader(pipe)
	for i := range n {
		// At any moment between two looks of one that polls.
		<-time.After(pollEvery + time.Duration(i*7%50)*time.Millisecond)
		if err := s.Append(ctx, 0, i, []byte(`"event"`)); err != nil {
			return nil, err
		}
		sent := time.Now().UnixNano()
		line, err := heard.ReadString('\n')
		if err != nil {
			return nil, err
		}
		at, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			return nil, err
		}
		late = append(late, float64(max(at-sent, 0)))
	}
	slices.Sort(late)
	return late, nil
}

// childFollow prints when it has each record.
func childFollow(ctx context.Context, name, dir string) error {
	i := slices.IndexFunc(peers, func(p peer) bool { return p.name == name })
	s, err := peers[i].start(ctx, dir, followed)
	if err != nil {
		return err
	}
	return s.(follower).Follow(ctx, func() error {
		_, err := fmt.Fprintln(os.Stdout, time.Now().UnixNano())
		return err
	})
}
