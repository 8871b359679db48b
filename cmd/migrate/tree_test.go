package main

import (
	"context"
	"errors"
	"io"
	"testing"

	"selvedge/db"
	"selvedge/legacy"
)

func TestImport_SeveralTreesCountedBeforeFailure(t *testing.T) {
	a := &app{stdout: io.Discard, stderr: io.Discard}
	failure := errors.New("no more")
	trees := []legacy.Found{
		{Kind: legacy.Runs, Dir: "a"},
		{Kind: legacy.Agents, Dir: "b"},
		{Kind: legacy.Live, Dir: "c"},
	}
	answer, err := a.workTrees(context.Background(), nil, trees, "dir", legacy.Options{},
		func(_ context.Context, _ *db.DB, k legacy.Kind, dir string, _ legacy.Options) (legacy.Report, error) {
			report := legacy.Report{
				Source: dir, Kind: string(k),
				Counts: map[string]legacy.Count{"turn": {Read: 2, New: 2}},
			}
			if k == legacy.Agents {
				return report, failure
			}
			return report, nil
		})
	if !errors.Is(err, failure) || len(answer.Parts) != 2 || answer.Counts["turn"].Read != 4 {
		t.Errorf("%+v, %v", answer, err)
	}
}
