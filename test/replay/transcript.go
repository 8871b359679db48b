package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Transcript is one file: calls on a store that starts empty.
type Transcript struct {
	Name  string // the file's path inside its set, as in "runs/transcripts/lifecycle.jsonl"
	Head  Head
	Calls []Call
}

// Head is a transcript's first line.
type Head struct {
	Transcript int    `json:"transcript"`
	Store      string `json:"store"`
	Original   string `json:"original"`
	Seed       int64  `json:"seed"`
	Note       string `json:"note"`
	// runs, checkpoints: some ops touch files of the old layout
	FS           bool   `json:"fs"`
	TouchesFiles bool   `json:"touches_files"` // agents, workers: the same
	Clock        string `json:"clock"`         // agents: where the time of a call comes from
	// live: rules that are answered otherwise on purpose
	DeliberateDifferences []string `json:"deliberate_differences"`
}

// A Call is any other line.
type Call struct {
	Line  int    // in the file, from 1
	Op    string // the function, under its name in the original, or a helper of the harness
	Args  any    // decoded; in the hands of a Player, with aliases replaced
	Now   string // agents: the wall clock during the call
	Binds string // the alias that this call binds; "" for none
	Want  Recorded
}

// Recorded is the answer of the original.
type Recorded struct {
	Outcome
	AnyOf []any // when not empty, any of these is right; OK is one of them
}

// An Outcome is how a call ended: with a value, an error, or a panic.
type Outcome struct {
	OK    any     // decoded JSON, or on our side anything that json.Marshal takes
	Err   *string // the error's text; nil when there was none
	Kind  string  // the error's variant, if it is recorded
	Panic *string // the panic's text; nil when there was none
}

// Fails returns the outcome of a call that ended with err.
func Fails(err error, kind string) Outcome {
	text := err.Error()
	return Outcome{Err: &text, Kind: kind}
}

// Parse reads a transcript.
func Parse(name string, text []byte) (Transcript, error) {
	t := Transcript{Name: name}
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	for i, line := range lines {
		var err error
		if i == 0 {
			err = json.Unmarshal(line, &t.Head)
			if err == nil && t.Head.Transcript != 1 {
				err = fmt.Errorf("is not the head of a transcript of version 1")
			}
		} else {
			var c Call
			c, err = parseCall(line)
			c.Line = i + 1
			t.Calls = append(t.Calls, c)
		}
		if err != nil {
			return Transcript{}, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
	}
	return t, nil
}

func parseCall(line []byte) (Call, error) {
	value, err := Decode(line)
	if err != nil {
		return Call{}, err
	}
	members, ok := value.(map[string]any)
	if !ok {
		return Call{}, fmt.Errorf("is not an object")
	}
	var c Call
	outcomes := 0
	for name, v := range members {
		text, isText := v.(string)
		switch name {
		case "op":
			c.Op = text
		case "args":
			c.Args, isText = v, true
		case "now":
			c.Now = text
		case "binds":
			c.Binds = text
		case "kind":
			c.Want.Kind = text
		case "ok":
			c.Want.OK, isText = v, true
			outcomes++
		case "err":
			c.Want.Err = &text
			outcomes++
		case "panic":
			c.Want.Panic = &text
			outcomes++
		case "any_of":
			c.Want.AnyOf, isText = v.([]any)
		default:
			return Call{}, fmt.Errorf("has an unknown member %q", name)
		}
		if !isText {
			return Call{}, fmt.Errorf("its %q is of the wrong type", name)
		}
	}
	if c.Op == "" || outcomes != 1 {
		return Call{}, fmt.Errorf("needs an op and exactly one of ok, err and panic")
	}
	return c, nil
}

// Has reports whether the call has an argument of that name that is not null.
func (c *Call) Has(name string) bool { return c.arg(name) != nil }

// Text returns a text argument, "" if it is absent or null.
func (c *Call) Text(name string) string {
	text, _ := c.arg(name).(string)
	return text
}

// Unmarshal decodes an argument; an absent one leaves into as it is.
func (c *Call) Unmarshal(name string, into any) error {
	value := c.arg(name)
	if value == nil {
		return nil
	}
	if err := json.Unmarshal(Encode(value), into); err != nil {
		return fmt.Errorf("argument %s: %w", name, err)
	}
	return nil
}

// Raw returns an argument as JSON text; nil if it is absent.
func (c *Call) Raw(name string) json.RawMessage {
	value := c.arg(name)
	if value == nil {
		return nil
	}
	return Encode(value)
}

func (c *Call) arg(name string) any {
	members, _ := c.Args.(map[string]any)
	return members[name]
}

// Ops are the ops of the transcript, each once, in order.
func (t Transcript) Ops() []string {
	var ops []string
	for _, c := range t.Calls {
		ops = append(ops, c.Op)
	}
	slices.Sort(ops)
	return slices.Compact(ops)
}

// Base is the file's name without folder and extension.
func (t Transcript) Base() string {
	name := t.Name[strings.LastIndexByte(t.Name, '/')+1:]
	return strings.TrimSuffix(name, ".jsonl")
}
