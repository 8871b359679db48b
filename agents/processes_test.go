package agents_test

import (
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
)

func TestClaim_EightProcessesHaveOneWinner(t *testing.T) {
	const processes, rounds = 8, 200
	r := startRacers(t, processes)
	for round := range rounds {
		verb := []string{"reserve", "lease"}[round%2]
		answers := make([]string, processes)
		var all sync.WaitGroup
		for i := range processes {
			all.Go(func() { answers[i] = r.tell(i, fmt.Sprintf("%s agent-%d-%d t/%d", verb, round, i, round)) })
		}
		all.Wait()
		winner := slices.IndexFunc(answers, func(a string) bool { return len(a) > 4 && a[:4] == "won " })
		if winner < 0 {
			t.Fatalf("round %d has no winner: %q", round, answers)
		}
		id := fmt.Sprintf("agent-%d-%d", round, winner)
		for i, answer := range answers {
			if want := "owner " + id; i == winner && answer != "won "+id || i != winner && answer != want {
				t.Fatalf("round %d: process %d was told %q; the winner is %s", round, i, answer, id)
			}
		}
	}
	for _, one := range r.all {
		one.Wait()
	}
}

func TestAProcessKilledWhileItReservesLeavesNothing(t *testing.T) {
	r := startRacers(t, 2)
	r.all[0].Send("die agent-dead main")
	r.all[0].Expect("building")
	r.all[0].Kill()
	if got := r.tell(1, "reserve agent-next main"); got != "won agent-next" {
		t.Errorf("the next process was told %q", got)
	}
	r.all[1].Wait()
}

func TestAKilledWinnersThreadIsFreeAtOnce(t *testing.T) {
	for _, verb := range []string{"reserve", "lease"} {
		t.Run(verb, func(t *testing.T) {
			r := startRacers(t, 2)
			for round := range 10 {
				first, next := fmt.Sprintf("agent-%d-first", round), fmt.Sprintf("agent-%d-next", round)
				thread := fmt.Sprintf("t/%d", round)
				if got := r.tell(0, verb+" "+first+" "+thread); got != "won "+first {
					t.Fatalf("the first was told %q", got)
				}
				if got := r.tell(1, verb+" "+next+" "+thread); got != "owner "+first {
					t.Fatalf("while the first lives the next was told %q", got)
				}
				r.all[0].Kill()
				if got := r.tell(1, verb+" "+next+" "+thread); got != "won "+next {
					t.Fatalf("after the first was killed the next was told %q", got)
				}
				r.start(0)
			}
		})
	}
}

func TestLease_StoppedHolderKeepsItOnlyUntilExpiry(t *testing.T) {
	r := startRacers(t, 2)
	if got := r.tell(0, "lease agent-stopped main"); got != "won agent-stopped" {
		t.Fatal(got)
	}
	r.all[0].Signal(syscall.SIGSTOP)
	if got := r.tell(1, "lease agent-next main"); got != "owner agent-stopped" {
		t.Errorf("within its time the other was told %q", got)
	}
	r.expire()
	if got := r.tell(1, "lease agent-next main"); got != "won agent-next" {
		t.Errorf("after its time the other was told %q", got)
	}
	r.all[0].Signal(syscall.SIGCONT)
	for _, call := range []string{"beat", "write", "release"} {
		if got := r.tell(0, call+" agent-stopped"); got != "lost" {
			t.Errorf("the stopped one's %s: %q", call, got)
		}
	}
	for _, call := range []string{"beat", "write", "release"} {
		if got := r.tell(1, call+" agent-next"); got != "ok" {
			t.Errorf("the holder's %s: %q", call, got)
		}
	}
}
