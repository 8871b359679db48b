package workers

import (
	"strconv"

	"selvedge/internal/serdejson"
)

// The encoding: members in the order of the originals' structs, no blanks, the fewest escapes,
// nothing for what is absent.

// AppendJSON appends the intent.
func (i Intent) AppendJSON(dst []byte) []byte { return appendIntent(dst, i) }

// AppendJSON appends the profile.
func (p Profile) AppendJSON(dst []byte) []byte { return appendProfile(dst, p) }

// AppendJSON appends the request.
func (q Request) AppendJSON(dst []byte) []byte { return appendRequest(dst, q) }

// AppendKind appends the object {"kind":…}.
func AppendKind(dst []byte, kind string) []byte {
	return append(appendText(dst, `{"kind":`, kind), '}')
}

func appendText(dst []byte, before, text string) []byte {
	return serdejson.AppendQuoted(append(dst, before...), text)
}

func appendNumber(dst []byte, before string, n uint64) []byte {
	return strconv.AppendUint(append(dst, before...), n, 10)
}

func appendIntent(dst []byte, i Intent) []byte {
	dst = appendText(dst, `{"kind":`, i.Kind)
	switch i.Kind {
	case IntentTask:
		dst = appendText(dst, `,"objective":`, i.Objective)
	case IntentRole:
		dst = appendText(dst, `,"role":`, i.Role)
	}
	if i.Purpose != nil && i.Kind != IntentTask {
		dst = appendText(dst, `,"purpose":`, *i.Purpose)
	}
	return append(dst, '}')
}

func appendProfile(dst []byte, p Profile) []byte {
	dst = appendText(dst, `{"kind":`, p.Kind)
	if p.Kind != ProfileDefault {
		dst = appendText(dst, `,"value":`, p.Value)
	}
	return append(dst, '}')
}

func appendRef(dst []byte, before string, ref Ref) []byte {
	dst = appendText(append(dst, before...), `{"runtime_id":`, ref.RuntimeID)
	return append(appendText(dst, `,"worker_id":`, ref.WorkerID), '}')
}

func appendList[T any](dst []byte, list []T, one func([]byte, T) []byte) []byte {
	dst = append(dst, '[')
	for i, element := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = one(dst, element)
	}
	return append(dst, ']')
}

func appendCapability(dst []byte, c Capability) []byte {
	dst = appendText(dst, `{"name":`, c.Name)
	if c.Reason != nil {
		dst = appendText(dst, `,"reason":`, *c.Reason)
	}
	return append(dst, '}')
}

func appendNamed(dst []byte, n Named) []byte {
	return append(appendText(appendText(dst, `{"name":`, n.Name), `,"reference":`, n.Reference), '}')
}

func appendRequest(dst []byte, r Request) []byte {
	dst = appendIntent(append(dst, `{"intent":`...), r.Intent)
	dst = appendProfile(append(dst, `,"profile":`...), r.Profile)
	if r.ConfigBundle != nil {
		dst = append(appendText(dst, `,"config_bundle":{"id":`, *r.ConfigBundle), '}')
	}
	if len(r.Capabilities) > 0 {
		dst = appendList(append(dst, `,"requested_capabilities":`...), r.Capabilities, appendCapability)
	}
	if len(r.Workspaces) > 0 {
		dst = appendList(append(dst, `,"workspace_refs":`...), r.Workspaces, appendNamed)
	}
	if len(r.Mounts) > 0 {
		dst = appendList(append(dst, `,"mount_refs":`...), r.Mounts, appendNamed)
	}
	return append(dst, '}')
}

// appendEvent writes a line of an event log, without its line feed.
func appendEvent(dst []byte, e Event) []byte {
	dst = appendNumber(dst, `{"id":`, e.ID)
	if e.Worker != nil {
		dst = appendRef(dst, `,"worker_ref":`, *e.Worker)
	}
	dst = append(appendText(dst, `,"kind":{"kind":`, e.Kind), '}')
	return append(appendText(dst, `,"message":`, e.Message), '}')
}

// appendEntry writes a line of a transcript, without its line feed.
func appendEntry(dst []byte, e Entry) []byte {
	dst = appendNumber(dst, `{"sequence":`, e.Sequence)
	dst = appendRef(dst, `,"worker_ref":`, e.Worker)
	dst = appendText(dst, `,"role":`, e.Role)
	dst = appendText(dst, `,"content":`, e.Content)
	return append(appendNumber(dst, `,"event_id":`, e.EventID), '}')
}

func appendDiagnostic(dst []byte, d Diagnostic) []byte {
	dst = appendNumber(dst, `{"id":`, d.ID)
	dst = appendText(dst, `,"severity":`, d.Severity)
	dst = appendText(dst, `,"code":`, d.Code)
	dst = appendText(dst, `,"message":`, d.Message)
	if d.Worker != nil {
		dst = appendRef(dst, `,"worker_ref":`, *d.Worker)
	}
	return append(dst, '}')
}
