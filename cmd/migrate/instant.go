package main

import (
	"fmt"
	"time"
)

// instant formats a time for scripts and for grids: to the second, in UTC, in one width, so that it
// sorts as text. The zero time is "".
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// when formats a time for a fact: an instant, and for people how long ago that is.
func (a *app) when(t time.Time) string {
	text := instant(t)
	if age := ago(text, time.Now()); a.screen.terminal && age != text {
		return text + " (" + age + ")"
	}
	return text
}

// longAgo is the age from which a time is shown as a date, not as an age.
const longAgo = 100 * 24 * time.Hour

// ago returns how long ago an instant was. It returns other text as it is, made printable.
func ago(text string, now time.Time) string {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return printable(text)
	}
	passed := now.Sub(t)
	switch {
	case passed <= -time.Second && passed > -longAgo:
		return "in " + roughly(-passed)
	case passed < 0 || passed >= longAgo:
		return t.UTC().Format(time.DateOnly)
	}
	return roughly(passed) + " ago"
}

// roughly formats a duration in its largest unit.
func roughly(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d >= unit.of {
			return fmt.Sprintf("%d%s", d/unit.of, unit.name)
		}
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
