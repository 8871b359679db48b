package agents

import (
	"encoding/json"
	"errors"
)

// SetMember sets one field by its name in documents, null clearing it, as the harness that recorded the original did.
func SetMember(e *Entry, name string, raw json.RawMessage) error {
	for _, f := range e.fields() {
		if f.name == name {
			return setFromJSON(f, raw, e.keepExact)
		}
	}
	return errors.New("an entry has no member " + name)
}

// SetIDs replaces the generator of ids.
func SetIDs(r *Registry, next func() string) { r.newID = next }
