package checkpoints_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/test/dbtest"
)

// longVariable, set to anything, makes the tests of races and histories as long as they were on the
// originals.
const longVariable = "SELVEDGE_LONG"

func scaled(short, long int) int {
	if os.Getenv(longVariable) != "" {
		return long
	}
	return short
}

// claimer claims the run that each line names, and says whether it got it.
func claimer(args []string) (err error) {
	d, err := db.Open(ctx, args[0], db.Options{Synchronous: db.SyncNormal})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	store := checkpoints.NewStore(d, checkpoints.Options{})
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		claim, ok, err := store.Claim(ctx, in.Text())
		switch {
		case err != nil:
			return err
		case !ok:
			fmt.Println("none")
		default:
			if p, err := claim.Paused(); err != nil || p.RunID != in.Text() {
				return fmt.Errorf("claimed %s as %v, %w", in.Text(), p, err)
			}
			fmt.Println(claim.Epoch())
		}
	}
	return nil
}

// In each round one checkpoint waits and every process claims it at once. The originals lost 13 of
// 20,000 with four processes, and the winner's mark 575 times.
func TestOneClaimerWins(t *testing.T) {
	rounds := scaled(150, 20_000)
	for _, processes := range []int{2, 3, 4} {
		t.Run(strconv.Itoa(processes), func(t *testing.T) {
			path := dbtest.Path(t)
			d := dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal})
			store := checkpoints.NewStore(d, checkpoints.Options{})
			claimers := make([]*dbtest.Process, processes)
			for i := range claimers {
				claimers[i] = dbtest.Start(t, "claimer", path)
				claimers[i].Expect("ready")
			}
			lost, double, unmarked := 0, 0, 0
			for round := range rounds {
				id := fmt.Sprintf("run-%d", round)
				save(t, store, id)
				for _, c := range claimers {
					c.Send(id)
				}
				epoch, winners := "", 0
				for _, c := range claimers {
					line, ok := c.Line()
					if !ok {
						t.Fatalf("a claimer died in round %d", round)
					}
					if line != "none" {
						epoch = line
						winners++
					}
				}
				switch {
				case winners == 0:
					lost++
				case winners > 1:
					double++
				case !marked(t, store, id, epoch):
					unmarked++
				}
			}
			t.Logf("%d rounds of %d processes: %d lost, %d double, %d unmarked", rounds, processes, lost, double,
				unmarked)
			if lost+double+unmarked > 0 {
				t.Fail()
			}
			for _, c := range claimers {
				c.Wait()
			}
			// The winners are gone, and nothing was completed: all of it comes back.
			wantRecovered(t, store, rounds)
		})
	}
}

// marked reports whether the run is claimed, under that epoch and by a living process, and not waiting.
func marked(t testing.TB, s *checkpoints.Store, id, epoch string) bool {
	t.Helper()
	one, err := s.Get(ctx, checkpoints.Ref{RunID: id}) // what waits, if something does
	if err != nil {
		t.Fatal(err)
	}
	return one.State == checkpoints.Claimed && one.Claim.Alive &&
		strings.TrimSpace(epoch) == fmt.Sprint(one.Claim.Epoch)
}
