package workers

import (
	"math"

	"selvedge/internal/serdejson"
)

var (
	requestStructure = structure{
		"struct CreateWorkerRequest",
		[]string{"intent", "profile", "config_bundle", "requested_capabilities", "workspace_refs", "mount_refs"},
		2,
		map[string]shape{
			"profile": {of: &profileStructure}, "config_bundle": {of: &bundleStructure},
			"requested_capabilities": {&capabilityStructure, true}, "workspace_refs": {&workspaceStructure, true},
			"mount_refs": {&mountStructure, true},
		},
	}
	bundleStructure     = structure{"struct ConfigBundleRef", []string{"id"}, 1, nil}
	capabilityStructure = structure{"struct CapabilityRequest", []string{"name", "reason"}, 1, nil}
	workspaceStructure  = structure{"struct WorkspaceRef", []string{"name", "reference"}, 2, nil}
	mountStructure      = structure{"struct MountRef", []string{"name", "reference"}, 2, nil}
	assistantStructure  = structure{"struct variant WorkerIntent::Assistant", []string{"purpose"}, 0, nil}
	taskStructure       = structure{"struct variant WorkerIntent::Task", []string{"objective"}, 1, nil}
	roleStructure       = structure{"struct variant WorkerIntent::Role", []string{"role", "purpose"}, 1, nil}
	profileStructure    = structure{"adjacently tagged enum ProfileSelector", []string{"kind", "value"}, 2, nil}
	inputStructure      = structure{"struct WorkerInput", []string{"kind", "content"}, 2, nil}
	refStructure        = structure{"struct WorkerRef", []string{"runtime_id", "worker_id"}, 2, nil}
	eventStructure      = structure{
		"struct RuntimeEvent",
		[]string{"id", "worker_ref", "kind", "message"},
		4,
		refInside,
	}
	entryStructure = structure{
		"struct TranscriptEntry",
		[]string{"sequence", "worker_ref", "role", "content", "event_id"},
		5, refInside,
	}
	diagnosticStructure = structure{
		"struct RuntimeDiagnostic",
		[]string{"id", "severity", "code", "message", "worker_ref"},
		4, refInside,
	}

	refInside = map[string]shape{"worker_ref": {of: &refStructure}}

	// untold is the structure of what has its kind inside: the original reads it as a whole before it
	// knows what it is.
	untold *structure
)

var (
	intentWords  = []string{IntentAssistant, IntentTask, IntentRole}
	profileWords = []string{ProfileDefault, ProfileBuiltin, ProfileNamed}
	inputWords   = []string{RoleUser, RoleSystem}
	eventWords   = []string{
		RuntimeStarted, RuntimeStopped, WorkerCreated, InputAccepted, WorkerStopped,
		WorkerCancelled,
	}
	severityWords  = []string{SeverityInfo, SeverityWarning, SeverityError}
	statusWords    = []string{Running, Stopped, Cancelled}
	lifecycleWords = []string{Running, Stopped}
	backendWords   = []string{backendMemory, backendFolder}
)

// DecodeRequest reads a request: intent and profile must be there, unknown members are passed over.
// What it can't read is a *DecodeError, as for all that follow.
func DecodeRequest(text []byte) (Request, error) {
	return decode(&requestStructure, text, decodeRequest)
}

// DecodeIntent reads an intent, an object with the member kind.
func DecodeIntent(text []byte) (Intent, error) { return decode(untold, text, decodeIntent) }

// DecodeProfile reads a profile, an object with the members kind and value.
func DecodeProfile(text []byte) (Profile, error) {
	return decode(&profileStructure, text, decodeProfile)
}

// DecodeInput reads an input; its kind must be user or system.
func DecodeInput(text []byte) (Input, error) { return decode(&inputStructure, text, decodeInput) }

// DecodeKind reads the object {"kind":…}, with any word.
func DecodeKind(text []byte) (string, error) {
	return decode(untold, text, func(text []byte) (string, error) {
		kind, _, err := decodeEventKind(text)
		return kind, err
	})
}

func decode[T any](st *structure, text []byte, read func([]byte) (T, error)) (value T, err error) {
	if err := st.check(text); err != nil {
		return value, err
	}
	return read(trimBlanks(text))
}

// trimBlanks gives the one value of a text that check has accepted.
func trimBlanks(text []byte) []byte { return valueAt(serdejson.NewScanner(text), text) }

func decodeRequest(text []byte) (r Request, err error) {
	f := requestStructure.read(text)
	if intent := f.Need(0); intent != nil {
		r.Intent, err = decodeIntent(intent)
		f.Keep(err)
	}
	if profile := f.Need(1); profile != nil {
		r.Profile, err = decodeProfile(profile)
		f.Keep(err)
	}
	if bundle := f.Given(2); bundle != nil {
		inner := bundleStructure.read(bundle)
		id := inner.Text(0)
		r.ConfigBundle = &id
		f.Keep(inner.Err)
	}
	r.Capabilities = decodeList(&f, 3, decodeCapability)
	r.Workspaces = decodeList(&f, 4, decodeWorkspace)
	r.Mounts = decodeList(&f, 5, decodeMount)
	return r, f.Err
}

// decodeList reads a list that may be absent, though not null.
func decodeList[T any](f *fields, i int, decode func([]byte) (T, error)) []T {
	if f.Err != nil || f.Values[i] == nil {
		return nil
	}
	list, err := decodeArray(f.Values[i], decode)
	f.Keep(err)
	return list
}

func decodeArray[T any](text []byte, decode func([]byte) (T, error)) (list []T, err error) {
	if text[0] != '[' {
		return nil, serdejson.Errorf("invalid type: %s, expected a sequence", serdejson.Unexpected(text))
	}
	elements, _ := membersOf(text)
	for _, m := range elements {
		value, err := decode(m.value)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}

func decodeCapability(text []byte) (Capability, error) {
	f := capabilityStructure.read(text)
	c := Capability{Name: f.Text(0), Reason: f.OptionalText(1)}
	return c, f.Err
}

func decodeWorkspace(text []byte) (Named, error) {
	f := workspaceStructure.read(text)
	w := Named{Name: f.Text(0), Reference: f.Text(1)}
	return w, f.Err
}

func decodeMount(text []byte) (Named, error) {
	f := mountStructure.read(text)
	m := Named{Name: f.Text(0), Reference: f.Text(1)}
	return m, f.Err
}

func decodeIntent(text []byte) (Intent, error) {
	word, rest, array, err := tagged(text, "WorkerIntent", intentWords)
	if err != nil {
		return Intent{}, err
	}
	i := Intent{Kind: word}
	var f fields
	switch i.Kind {
	case IntentAssistant:
		f = assistantStructure.take(rest, array)
		i.Purpose = f.OptionalText(0)
	case IntentTask:
		f = taskStructure.take(rest, array)
		i.Objective = f.Text(0)
	default:
		f = roleStructure.take(rest, array)
		i.Role, i.Purpose = f.Text(0), f.OptionalText(1)
	}
	return i, f.Err
}

func decodeProfile(text []byte) (Profile, error) {
	f := profileStructure.read(text)
	p := Profile{Kind: f.word(0, profileWords)}
	if f.Err == nil && p.Kind != ProfileDefault {
		p.Value = f.Text(1)
	} else if value := f.Given(1); value != nil {
		f.Fail("invalid type: %s, expected unit", serdejson.Unexpected(value))
	}
	return p, f.Err
}

func decodeInput(text []byte) (Input, error) {
	f := inputStructure.read(text)
	i := Input{Kind: f.word(0, inputWords), Content: f.Text(1)}
	return i, f.Err
}

func decodeRef(text []byte) (Ref, error) {
	f := refStructure.read(text)
	ref := Ref{RuntimeID: f.Text(0), WorkerID: f.Text(1)}
	return ref, f.Err
}

func (f *fields) ref(i int) (ref Ref) {
	if text := f.Need(i); text != nil {
		var err error
		ref, err = decodeRef(text)
		f.Keep(err)
	}
	return ref
}

func (f *fields) optionalRef(i int) *Ref {
	if f.Given(i) == nil {
		return nil
	}
	ref := f.ref(i)
	return &ref
}

// decodeEventKind also takes words that the original doesn't know.
func decodeEventKind(text []byte) (kind string, known bool, err error) {
	word, rest, array, err := tagged(text, "RuntimeEventKind", eventWords)
	switch {
	case word == "":
		return "", false, err
	case array && len(rest) > 0:
		return "", false, serdejson.Errorf("invalid length %d, expected 0 elements in sequence", len(rest))
	}
	return word, err == nil, nil
}

// decodeEvent reads a line of an event log; known is false where only the kind's word is one that
// the original refuses.
func decodeEvent(line []byte) (e Event, known bool, err error) {
	if err := eventStructure.check(line); err != nil {
		return e, false, err
	}
	f := eventStructure.read(trimBlanks(line))
	e.ID = f.Uint(0, math.MaxUint64, "u64")
	e.Worker = f.optionalRef(1)
	if kind := f.Need(2); kind != nil {
		e.Kind, known, err = decodeEventKind(kind)
		f.Keep(err)
	}
	e.Message = f.Text(3)
	if f.Err != nil {
		return Event{}, false, f.Err
	}
	return e, known, nil
}

// decodeEntry reads a line of a transcript.
func decodeEntry(line []byte) (e Entry, err error) {
	if err := entryStructure.check(line); err != nil {
		return e, err
	}
	f := entryStructure.read(trimBlanks(line))
	e = Entry{
		Sequence: f.Uint(0, math.MaxUint64, "u64"), Worker: f.ref(1), Role: f.word(2, inputWords),
		Content: f.Text(3), EventID: f.Uint(4, math.MaxUint64, "u64"),
	}
	return e, f.Err
}

// decodeDiagnostic reads an element of a runtime's diagnostics, from a text that check has accepted.
func decodeDiagnostic(text []byte) (d Diagnostic, err error) {
	f := diagnosticStructure.read(text)
	d = Diagnostic{
		ID: f.Uint(0, math.MaxUint64, "u64"), Severity: f.word(1, severityWords),
		Code: f.Text(2), Message: f.Text(3), Worker: f.optionalRef(4),
	}
	return d, f.Err
}
