package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
)

// A kept is a place for a value: it comes back byte for byte, or was refused.
type kept struct {
	name string
	json bool // a value is a JSON text
	// refuses are the names of the values that can't be kept there.
	refuses []string
	// put stores a value in thing n, and get returns the stored value.
	put func(ctx context.Context, n int, value string) error
	get func(ctx context.Context, n int) (string, error)
}

// keeps returns the places of a scope.
type keeps func(t *testing.T, d *db.DB, scope string) []kept

// values are what an engine may make something else of.
var values = []struct {
	name, value string
	json        bool
}{
	{"nothing", "", false},
	{"blanks", " \t\r\n ", false},
	{"NUL", "a\x00b", false},
	{"invalid UTF-8", "a\xff\xfeb", false},
	{"a byte order mark", "\ufeffa", false},
	{"two ways to write é", "\u00e9 e\u0301", false},
	{"outside the first plane", "\U0001f9f5 \U0010ffff", false},
	{"marks that a terminal obeys", "\x1b[31m \u0085 \u202e", false},
	{"quotes", `' " \ '' $1 ? :name @name %s`, false},
	{"a megabyte", strings.Repeat("0123456789abcdef", 1<<16), false},

	{"an escaped NUL", `{"k":"a\u0000b"}`, true},
	{"half of a surrogate pair", `{"k":"\ud800"}`, true},
	{"invalid UTF-8 in JSON", "{\"k\":\"\xff\"}", true},
	{"keys out of order", `{"b":1,"a":2,"c":{"z":1,"y":2}}`, true},
	{"a key twice", `{"a":1,"a":2}`, true},
	{"blanks in JSON", "{ \"a\" : [ 1 , 2 ] }", true},
	{"a number beyond 64 bits", `{"n":18446744073709551616}`, true},
	{
		"numbers beyond a float's digits", `{"n":[0.1000000000000000055511151231257827,1e23,9007199254740993]}`,
		true,
	},
	{"a number beyond a float", `{"n":1e400}`, true},
	{"ways to write a number", `{"n":[1.0,1e0,-0,1E+2,0.10]}`, true},
	{"escapes that need not be", `{"k":"\u0041\/\u00e9<>&"}`, true},
	{"JSON 100 levels deep", strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100), true},
	{"no JSON", `{"a":`, true},
}

func (open keeps) laws() []law {
	return []law{{"a value comes back byte for byte or is refused", open.exact}}
}

func (open keeps) exact(t *testing.T, at place) {
	writers, readers := open(t, at.d, at.scope), open(t, at.d, at.scope)
	if at.again != nil {
		readers = open(t, at.again, at.scope)
	}
	n := 0
	for i, k := range writers {
		for _, v := range values {
			if v.json != k.json {
				continue
			}
			n++
			err := k.put(t.Context(), n, v.value)
			if slices.Contains(k.refuses, v.name) {
				wants(t, k.name+": "+v.name, err, db.ErrInvalid)
				continue
			}
			got, missing := "", error(nil)
			if err == nil {
				got, missing = readers[i].get(t.Context(), n)
			}
			if err := errors.Join(err, missing); err != nil || got != v.value {
				t.Errorf("%s: %s came back as %.40q, not %.40q: %v", k.name, v.name, got, v.value, err)
			}
		}
	}
}
