package maintenance_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/maintenance"
)

// flips is how many bits are flipped: SELVEDGE_FLIPS says another number.
func flips(t *testing.T) int {
	text := os.Getenv("SELVEDGE_FLIPS")
	if text == "" {
		return 60
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// freePages are the pages of a file in no use: what is on them is nobody's.
func freePages(t *testing.T, content []byte, pageSize int) map[int]bool {
	t.Helper()
	free := map[int]bool{}
	for trunk := int(binary.BigEndian.Uint32(content[32:])); trunk != 0; {
		free[trunk] = true
		page := content[(trunk-1)*pageSize : trunk*pageSize]
		for i := range int(binary.BigEndian.Uint32(page[4:])) {
			free[int(binary.BigEndian.Uint32(page[8+4*i:]))] = true
		}
		trunk = int(binary.BigEndian.Uint32(page))
	}
	return free
}

// noticed says how the damage of a file shows: by Check, by ErrCorrupt of a read, or not at all.
// silent tells that the stores give other answers and nobody says so; raw is an error that is none
// of damage.
func noticed(ctx context.Context, t *testing.T, path string, whole []string) (verdict, detail string) {
	t.Helper()
	d, err := db.Open(ctx, path, db.Options{ReadOnly: true, MustExist: true})
	if err != nil {
		if errors.Is(err, db.ErrCorrupt) || errors.Is(err, db.ErrNotADatabase) ||
			errors.Is(err, db.ErrSchemaTooNew) {
			return "refused", err.Error()
		}
		return "raw", err.Error()
	}
	problems, err := d.Check(ctx)
	if closing := d.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return "raw", "check: " + err.Error()
	}
	now, err := answers(ctx, path)
	raw := err != nil && !errors.Is(err, db.ErrCorrupt) && !errors.Is(err, db.ErrNotADatabase) &&
		!errors.Is(err, db.ErrSchemaTooNew)
	switch {
	case raw && len(problems) == 0:
		return "raw", err.Error()
	case raw:
		return "found, and raw", err.Error()
	case err != nil && len(problems) == 0:
		return "corrupt", err.Error()
	case err == nil && slices.Equal(now, whole) && len(problems) > 0:
		return "found, same answers", ""
	case err == nil && slices.Equal(now, whole):
		return "same answers", ""
	case len(problems) > 0:
		return "found", problems[0].Check + ": " + problems[0].Detail
	}
	return "silent", difference(whole, now)
}

func difference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%.300s\n\tinstead of %.300s", b[i], a[i])
		}
	}
	return fmt.Sprintf("%d lines instead of %d", len(b), len(a))
}

// A bit of a used page is another. Where that changes any answer, at least 99 of 100 such bits are noticed.
func TestAFlippedBitIsNoticed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "whole.db")
	filled(t, path, 1)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := answers(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	free := freePages(t, content, pageSize)
	seed := seedOf(t)
	r := rand.New(rand.NewPCG(seed, 0))
	verdicts := map[string]int{}
	damaged := filepath.Join(dir, "damaged.db")
	n := flips(t)
	for range n {
		at := r.IntN(len(content))
		for free[at/pageSize+1] {
			at = r.IntN(len(content))
		}
		bit := r.IntN(8)
		if text := os.Getenv("SELVEDGE_FLIP"); text != "" {
			_, _ = fmt.Sscanf(text, "%d:%d", &at, &bit)
		}
		content[at] ^= 1 << bit
		for _, suffix := range []string{"", "-wal", "-shm", "-lock", "-queue", "-owners"} {
			_ = os.Remove(damaged + suffix)
		}
		if err := os.WriteFile(damaged, content, 0o600); err != nil {
			t.Fatal(err)
		}
		verdict, detail := noticed(t.Context(), t, damaged, whole)
		content[at] ^= 1 << bit
		verdicts[verdict]++
		if strings.Contains(verdict, "raw") || verdict == "silent" {
			t.Logf("byte %d (page %d, offset %d), bit %d: %s: %s", at, at/pageSize+1, at%pageSize, bit, verdict,
				detail)
		}
	}
	changing := n - verdicts["same answers"] - verdicts["found, same answers"]
	unnoticed := verdicts["silent"] + verdicts["raw"]
	t.Logf("seed %d: %d pages, %d bits: %v: %.2f %% of those that change an answer are noticed", seed,
		len(content)/pageSize, n, verdicts,
		100*float64(changing-unnoticed)/float64(changing))
	allowed := changing / 100
	if n < 1000 {
		allowed++ // one in so few says nothing
	}
	if unnoticed > allowed {
		t.Errorf("%d of %d went unnoticed", unnoticed, changing)
	}
}

func TestEveryRowThatIsWrittenHasAChecksum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "whole.db")
	filled(t, path, 1)
	d, err := db.Open(t.Context(), path, db.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // opened for reading only
	x, err := maintenance.Examine(t.Context(), d)
	if err != nil || len(x.Problems) > 0 {
		t.Fatal(x.Problems, err)
	}
	if len(x.Checksums) < 15 {
		t.Errorf("%d tables with checksums have rows", len(x.Checksums))
	}
	for _, c := range x.Checksums {
		if c.Without > 0 {
			t.Errorf("%d of %d rows of %s have none", c.Without, c.Rows, c.Table)
		}
	}
}
