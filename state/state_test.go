package state_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"selvedge/db"
	"selvedge/state"
	"selvedge/test/dbtest"
)

var theme = state.Ref{Owner: "ada", Key: "theme"}

func open(t *testing.T) *state.Store {
	t.Helper()
	return state.NewStore(dbtest.Open(t, db.Options{Synchronous: db.SyncNormal}), state.Options{})
}

// countUp has writers add to one number, each from the value that it read.
func countUp(t *testing.T, stores ...*state.Store) {
	t.Helper()
	const each = 10
	var wait sync.WaitGroup
	for _, s := range stores {
		wait.Go(func() {
			for done := 0; done < each; {
				item, err := s.Get(t.Context(), theme)
				n := 0
				if err == nil {
					err = json.Unmarshal(item.Value, &n)
				}
				if err == nil || errors.Is(err, db.ErrNotFound) {
					_, err = s.SetIf(t.Context(), theme, fmt.Append(nil, n+1), item.Version)
				}
				switch {
				case err == nil:
					done++
				case !errors.Is(err, db.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	item, err := stores[0].Get(t.Context(), theme)
	if want := fmt.Sprint(each * len(stores)); err != nil || string(item.Value) != want {
		t.Errorf("%s was counted, not %s: %v", item.Value, want, err)
	}
}

func TestSetIf_RacingWritersLoseNothing(t *testing.T) {
	s := open(t)
	countUp(t, s, s, s, s)
}

func TestSetIf_ReplacedValueIsAConflict(t *testing.T) {
	s := open(t)
	first, err := s.SetIf(t.Context(), theme, []byte(`1`), "")
	if err == nil {
		err = s.Delete(t.Context(), theme)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetIf(t.Context(), theme, []byte(`2`), first); !errors.Is(err, db.ErrConflict) {
		t.Errorf("a removed value: %v", err)
	}
	again, err := s.Set(t.Context(), theme, []byte(`1`))
	if err != nil || again == first {
		t.Errorf("the value that was set again has the version %q as before: %v", again, err)
	}
	if _, err := s.SetIf(t.Context(), theme, []byte(`2`), first); !errors.Is(err, db.ErrConflict) {
		t.Errorf("a replaced value: %v", err)
	}
}

func TestBadInput_IsInvalidWithAHint(t *testing.T) {
	s := open(t)
	long := strings.Repeat("k", 1025)
	for name, call := range map[string]func() error{
		"an empty key": func() error { _, err := s.Get(t.Context(), state.Ref{}); return err },
		"a long key": func() error {
			_, err := s.Set(t.Context(), state.Ref{Key: long}, []byte(`1`))
			return err
		},
		"a NUL":          func() error { return s.Delete(t.Context(), state.Ref{Key: "a\x00"}) },
		"a long owner":   func() error { return s.Pin(t.Context(), state.Ref{Owner: long, Key: "k"}) },
		"no JSON":        func() error { _, err := s.Set(t.Context(), theme, []byte(`dark`)); return err },
		"no value":       func() error { _, err := s.Set(t.Context(), theme, nil); return err },
		"no version":     func() error { _, err := s.SetIf(t.Context(), theme, []byte(`1`), "x"); return err },
		"a long version": func() error { _, err := s.SetIf(t.Context(), theme, []byte(`1`), "1.1 "); return err },
	} {
		if err := call(); !errors.Is(err, db.ErrInvalid) || db.Hint(err) == "" {
			t.Errorf("%s: %v (%q)", name, err, db.Hint(err))
		}
	}
}

func TestPage_CursorOfAnotherOwnerIsInvalid(t *testing.T) {
	s := open(t)
	for _, owner := range []string{"ada", "bob"} {
		for _, key := range []string{"a", "b"} {
			if _, err := s.Set(t.Context(), state.Ref{Owner: owner, Key: key}, []byte(`1`)); err != nil {
				t.Fatal(err)
			}
		}
	}
	page, err := s.Page(t.Context(), state.Filter{Owner: new("ada")}, db.At{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	rest, err := s.Page(t.Context(), state.Filter{Owner: new("ada")}, db.At{After: page.Next})
	if err != nil || len(rest.Items) != 1 || rest.Items[0].Key != "b" || rest.Next != "" {
		t.Errorf("the second page is %+v: %v", rest, err)
	}
	_, err = s.Page(t.Context(), state.Filter{Owner: new("bob")}, db.At{After: page.Next})
	if !errors.Is(err, db.ErrInvalid) {
		t.Errorf("the cursor of another owner: %v", err)
	}
}

func TestView_ShowsValues(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	s := state.NewStore(d, state.Options{})
	version, err := s.Set(t.Context(), theme, []byte(`{"name": "dark"}`))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sqlite3", "-readonly", d.Path(), `SELECT owner, state_key,
		json_extract(value, '$.name'), version, length(updated_at) FROM v_state`).CombinedOutput()
	if want := "ada|theme|dark|" + version + "|30\n"; err != nil || string(out) != want {
		t.Errorf("%q, not %q: %v", out, want, err)
	}
}
