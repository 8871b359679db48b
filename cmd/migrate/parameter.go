package main

import (
	"database/sql"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The spellings that SQLite itself uses for these numbers. "007" and "1e3" stay text, since they
// are more often ids.
var (
	integerText = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)
	realText    = regexp.MustCompile(`^-?(0|[1-9][0-9]*)\.[0-9]+$`)
	nameText    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)
)

// parameters returns the arguments for the variables of a statement, from the -p flags: name=value,
// or name:type=value.
func parameters(s statement, given []string) ([]any, error) {
	values := map[string]any{}
	for _, g := range given {
		name, value, err := parameter(g)
		if err != nil {
			return nil, err
		}
		if _, twice := values[name]; twice {
			return nil, usage("parameter %s is given twice", name)
		}
		values[name] = value
	}
	var args []any
	var wanted []string
	for _, v := range s.variables {
		if v[0] == '?' || v[0] == '$' && s.dialect == ofServers {
			hint := ""
			if v[0] == '?' && s.dialect == ofServers {
				hint = "for the operators ?, ?| and ?& there are the functions jsonb_exists, jsonb_exists_any and " +
					"jsonb_exists_all"
			}
			return nil, fail(kindUsage, hint,
				"the SQL has the parameter %s; give it a name, as :id, and a value, as -p id=7", v)
		}
		name := v[1:]
		value, ok := values[name]
		if !ok {
			return nil, usage("the SQL has the parameter %s; give it a value: -p %s=VALUE", v, name)
		}
		if !slices.Contains(wanted, name) {
			wanted = append(wanted, name)
			if s.dialect == ofServers { // servers number their parameters
				args = append(args, value)
			} else {
				args = append(args, sql.Named(name, value))
			}
		}
	}
	for name := range values {
		if !slices.Contains(wanted, name) {
			return nil, usage("the SQL has no parameter :%s", name)
		}
	}
	return args, nil
}

func parameter(given string) (name string, value any, err error) {
	name, text, ok := strings.Cut(given, "=")
	if !ok {
		return "", nil, usage("-p %s: write name=value", given)
	}
	name, as, typed := strings.Cut(strings.TrimLeft(name, ":@$"), ":")
	if !nameText.MatchString(name) {
		return "", nil, usage("-p %s: a name is a letter, then letters, digits and _", given)
	}
	if !typed {
		return name, guess(text), nil
	}
	switch as {
	case "text":
		return name, text, nil
	case "int":
		value, err = strconv.ParseInt(text, 10, 64)
	case "real":
		value, err = strconv.ParseFloat(text, 64)
	case "blob":
		value, err = hex.DecodeString(text)
	case "null":
		if text != "" {
			return "", nil, usage("-p %s: null has no value", given)
		}
		return name, nil, nil
	default:
		return "", nil, usage("-p %s: the type is none of text, int, real, blob, null", given)
	}
	if err != nil {
		return "", nil, usage("-p %s: %q is no %s", given, text, as)
	}
	return name, value, nil
}

// guess returns a number for text that is spelled as one, and other text as it is.
func guess(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && integerText.MatchString(text) {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && realText.MatchString(text) {
		return f
	}
	return text
}
