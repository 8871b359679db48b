package workers

import (
	"strconv"

	"selvedge/internal/serdejson"
)

// The original's encoding: members in the order of its structs, no blanks, the fewest escapes, nothing for what is absent.

// MarshalJSON writes the intent as the original does.
func (i WorkerIntent) MarshalJSON() ([]byte, error) { return appendIntent(nil, i), nil }

// MarshalJSON writes the profile as the original does.
func (p ProfileSelector) MarshalJSON() ([]byte, error) { return appendProfile(nil, p), nil }

// MarshalJSON writes the object {"kind":…}, as the original does.
func (k RuntimeEventKind) MarshalJSON() ([]byte, error) {
	return append(appendText(nil, `{"kind":`, string(k)), '}'), nil
}

func appendText(dst []byte, before, text string) []byte {
	return serdejson.AppendQuoted(append(dst, before...), text)
}

func appendNumber(dst []byte, before string, n uint64) []byte {
	return strconv.AppendUint(append(dst, before...), n, 10)
}

func appendIntent(dst []byte, i WorkerIntent) []byte {
	dst = appendText(dst, `{"kind":`, string(i.kind()))
	switch i.kind() {
	case IntentTask:
		dst = appendText(dst, `,"objective":`, i.Objective)
	case IntentRole:
		dst = appendText(dst, `,"role":`, i.Role)
	}
	if i.Purpose != nil && i.kind() != IntentTask {
		dst = appendText(dst, `,"purpose":`, *i.Purpose)
	}
	return append(dst, '}')
}

func appendProfile(dst []byte, p ProfileSelector) []byte {
	dst = appendText(dst, `{"kind":`, string(p.kind()))
	if p.kind() != ProfileRuntimeDefault {
		dst = appendText(dst, `,"value":`, p.Value)
	}
	return append(dst, '}')
}

func appendRef(dst []byte, before string, ref WorkerRef) []byte {
	dst = appendText(append(dst, before...), `{"runtime_id":`, string(ref.RuntimeID))
	return append(appendText(dst, `,"worker_id":`, string(ref.WorkerID)), '}')
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

func appendCapability(dst []byte, c CapabilityRequest) []byte {
	dst = appendText(dst, `{"name":`, c.Name)
	if c.Reason != nil {
		dst = appendText(dst, `,"reason":`, *c.Reason)
	}
	return append(dst, '}')
}

func appendNamed(dst []byte, name, reference string) []byte {
	return append(appendText(appendText(dst, `{"name":`, name), `,"reference":`, reference), '}')
}

func appendWorkspace(dst []byte, w WorkspaceRef) []byte { return appendNamed(dst, w.Name, w.Reference) }

func appendMount(dst []byte, m MountRef) []byte { return appendNamed(dst, m.Name, m.Reference) }

func appendRequest(dst []byte, r CreateWorkerRequest) []byte {
	dst = appendIntent(append(dst, `{"intent":`...), r.Intent)
	dst = appendProfile(append(dst, `,"profile":`...), r.Profile)
	if r.ConfigBundle != nil {
		dst = append(appendText(dst, `,"config_bundle":{"id":`, r.ConfigBundle.ID), '}')
	}
	if len(r.RequestedCapabilities) > 0 {
		dst = appendList(append(dst, `,"requested_capabilities":`...), r.RequestedCapabilities, appendCapability)
	}
	if len(r.WorkspaceRefs) > 0 {
		dst = appendList(append(dst, `,"workspace_refs":`...), r.WorkspaceRefs, appendWorkspace)
	}
	if len(r.MountRefs) > 0 {
		dst = appendList(append(dst, `,"mount_refs":`...), r.MountRefs, appendMount)
	}
	return append(dst, '}')
}

// appendEvent writes a line of an event log, without its line feed.
func appendEvent(dst []byte, e RuntimeEvent) []byte {
	dst = appendNumber(dst, `{"id":`, e.ID)
	if e.WorkerRef != nil {
		dst = appendRef(dst, `,"worker_ref":`, *e.WorkerRef)
	}
	dst = append(appendText(dst, `,"kind":{"kind":`, string(e.Kind)), '}')
	return append(appendText(dst, `,"message":`, e.Message), '}')
}

// appendEntry writes a line of a transcript, without its line feed.
func appendEntry(dst []byte, e TranscriptEntry) []byte {
	dst = appendNumber(dst, `{"sequence":`, e.Sequence)
	dst = appendRef(dst, `,"worker_ref":`, e.WorkerRef)
	dst = appendText(dst, `,"role":`, string(e.Role))
	dst = appendText(dst, `,"content":`, e.Content)
	return append(appendNumber(dst, `,"event_id":`, e.EventID), '}')
}

func appendDiagnostic(dst []byte, d RuntimeDiagnostic) []byte {
	dst = appendNumber(dst, `{"id":`, d.ID)
	dst = appendText(dst, `,"severity":`, string(d.Severity))
	dst = appendText(dst, `,"code":`, d.Code)
	dst = appendText(dst, `,"message":`, d.Message)
	if d.WorkerRef != nil {
		dst = appendRef(dst, `,"worker_ref":`, *d.WorkerRef)
	}
	return append(dst, '}')
}
