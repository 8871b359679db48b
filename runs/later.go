package runs

import (
	"bytes"
	"time"

	"selvedge/internal/chrono"
	"selvedge/internal/serdejson"
)

// What a run's summary needs from records that only later versions write. They were seen in the run
// store of car-server-core 0.60.0: an end whose termination is "cancelled", and two records of a
// pending cancellation.
const (
	laterCancelled           = "cancelled"
	laterCancellationPending = "cancellation_pending"
)

// Cancelled returns the record that ends a run as cancelled. why says who cancelled it, or for what
// reason; "" is no reason.
func Cancelled(run RunRef, why string, at time.Time) Record {
	raw := appendText(nil, `{"record":"ended","run_id":`, run.RunID)
	raw = appendText(raw, `,"agent_id":`, run.AgentID)
	raw = append(raw, `,"termination":{"kind":"cancelled"`...)
	if why != "" {
		raw = appendText(raw, `,"reason":`, why)
	}
	raw = append(chrono.AppendText(append(raw, `},"ended_at":"`...), at.UTC(), ""), `"}`...)
	return Unknown{Kind: "ended", Raw: raw}
}

// laterStatus is the status that an Unknown sets on its run.
type laterStatus struct {
	// word is laterCancelled, laterCancellationPending (until an end follows), or "" for a record
	// that does not change the status.
	word string
	// endedAt is set for laterCancelled; endedAtText is the exact text if a time.Time cannot hold
	// it.
	endedAt     time.Time
	endedAtText string
}

// status reads only the status from the record. An end counts as cancelled if its termination is
// that word and its time can be read; everything else in it stays opaque.
func (u Unknown) status() laterStatus {
	switch u.Kind {
	case "cancellation_requested", "cancellation_result":
		return laterStatus{word: laterCancellationPending}
	case "ended":
	default:
		return laterStatus{}
	}
	raw := bytes.Trim(u.Raw, " \t\r\n")
	if len(raw) == 0 || raw[0] != '{' || serdejson.Check(raw, 0) != "" {
		return laterStatus{}
	}
	termination, endedAt := onlyMember(raw, "termination"), onlyMember(raw, "ended_at")
	if termination == nil || termination[0] != '{' || endedAt == nil || endedAt[0] != '"' {
		return laterStatus{}
	}
	kind := onlyMember(termination, "kind")
	if kind == nil || !serdejson.KeyIs(kind, laterCancelled) {
		return laterStatus{}
	}
	t, text, err := parseTime(serdejson.Unquote(endedAt))
	if err != nil {
		return laterStatus{}
	}
	return laterStatus{word: laterCancelled, endedAt: t, endedAtText: text}
}
