package workers

import "selvedge/internal/serdejson"

var (
	requestStructure = structure{"struct CreateWorkerRequest", []string{"intent", "profile", "config_bundle", "requested_capabilities", "workspace_refs", "mount_refs"}, 2, map[string]shape{
		"profile": {of: &profileStructure}, "config_bundle": {of: &bundleStructure},
		"requested_capabilities": {&capabilityStructure, true}, "workspace_refs": {&workspaceStructure, true}, "mount_refs": {&mountStructure, true},
	}}
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
	eventStructure      = structure{"struct RuntimeEvent", []string{"id", "worker_ref", "kind", "message"}, 4, refInside}
	entryStructure      = structure{"struct TranscriptEntry", []string{"sequence", "worker_ref", "role", "content", "event_id"}, 5, refInside}
	diagnosticStructure = structure{"struct RuntimeDiagnostic", []string{"id", "severity", "code", "message", "worker_ref"}, 4, refInside}

	refInside = map[string]shape{"worker_ref": {of: &refStructure}}

	// untold is the structure of what has its kind inside: the original reads it as a whole before it knows what it is.
	untold *structure
)

var (
	intentWords    = []string{string(IntentAssistant), string(IntentTask), string(IntentRole)}
	profileWords   = []string{string(ProfileRuntimeDefault), string(ProfileBuiltin), string(ProfileNamed)}
	inputWords     = []string{string(InputUser), string(InputSystem)}
	eventWords     = []string{string(EventRuntimeStarted), string(EventRuntimeStopped), string(EventWorkerCreated), string(EventWorkerInputAccepted), string(EventWorkerStopped), string(EventWorkerCancelled)}
	severityWords  = []string{string(SeverityInfo), string(SeverityWarning), string(SeverityError)}
	statusWords    = []string{string(WorkerRunning), string(WorkerStopped), string(WorkerCancelled)}
	lifecycleWords = []string{string(RuntimeRunning), string(RuntimeStopped)}
	backendWords   = []string{string(BackendMemory), string(BackendFsStore)}
)

// UnmarshalJSON reads a request as the original does: intent and profile must be there, unknown members are passed over.
// What it can't read is a *DecodeError.
func (request *CreateWorkerRequest) UnmarshalJSON(text []byte) error {
	return unmarshal(&requestStructure, text, request, decodeRequest)
}

// UnmarshalJSON reads an intent, an object with the member kind. What it can't read is a *DecodeError.
func (i *WorkerIntent) UnmarshalJSON(text []byte) error {
	return unmarshal(untold, text, i, decodeIntent)
}

// UnmarshalJSON reads a profile, an object with the members kind and value. What it can't read is a *DecodeError.
func (p *ProfileSelector) UnmarshalJSON(text []byte) error {
	return unmarshal(&profileStructure, text, p, decodeProfile)
}

// UnmarshalJSON reads an input; its kind must be user or system. What it can't read is a *DecodeError.
func (i *WorkerInput) UnmarshalJSON(text []byte) error {
	return unmarshal(&inputStructure, text, i, decodeInput)
}

// UnmarshalJSON reads the object {"kind":…}, with any word.
func (k *RuntimeEventKind) UnmarshalJSON(text []byte) error {
	return unmarshal(untold, text, k, func(text []byte) (RuntimeEventKind, error) {
		kind, _, err := decodeEventKind(text)
		return kind, err
	})
}

func unmarshal[T any](st *structure, text []byte, into *T, decode func([]byte) (T, error)) error {
	if err := st.check(text); err != nil {
		return err
	}
	value, err := decode(trimBlanks(text))
	if err == nil {
		*into = value
	}
	return err
}

// trimBlanks gives the one value of a text that check has accepted.
func trimBlanks(text []byte) []byte { return valueAt(serdejson.NewScanner(text), text) }

func decodeRequest(text []byte) (r CreateWorkerRequest, err error) {
	f := requestStructure.read(text)
	if intent := f.need(0); intent != nil {
		r.Intent, err = decodeIntent(intent)
		f.keep(err)
	}
	if profile := f.need(1); profile != nil {
		r.Profile, err = decodeProfile(profile)
		f.keep(err)
	}
	if bundle := f.given(2); bundle != nil {
		inner := bundleStructure.read(bundle)
		r.ConfigBundle = &ConfigBundleRef{ID: inner.text(0)}
		f.keep(inner.err)
	}
	r.RequestedCapabilities = decodeList(&f, 3, decodeCapability)
	r.WorkspaceRefs = decodeList(&f, 4, decodeWorkspace)
	r.MountRefs = decodeList(&f, 5, decodeMount)
	return r, f.err
}

// decodeList reads a list that may be absent, though not null.
func decodeList[T any](f *fields, i int, decode func([]byte) (T, error)) []T {
	if f.err != nil || f.values[i] == nil {
		return nil
	}
	list, err := decodeArray(f.values[i], decode)
	f.keep(err)
	return list
}

func decodeArray[T any](text []byte, decode func([]byte) (T, error)) (list []T, err error) {
	if text[0] != '[' {
		return nil, decodeErrorf("invalid type: %s, expected a sequence", serdejson.Unexpected(text))
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

func decodeCapability(text []byte) (CapabilityRequest, error) {
	f := capabilityStructure.read(text)
	c := CapabilityRequest{Name: f.text(0), Reason: f.optionalText(1)}
	return c, f.err
}

func decodeWorkspace(text []byte) (WorkspaceRef, error) {
	f := workspaceStructure.read(text)
	w := WorkspaceRef{Name: f.text(0), Reference: f.text(1)}
	return w, f.err
}

func decodeMount(text []byte) (MountRef, error) {
	f := mountStructure.read(text)
	m := MountRef{Name: f.text(0), Reference: f.text(1)}
	return m, f.err
}

func decodeIntent(text []byte) (WorkerIntent, error) {
	word, rest, array, err := tagged(text, "WorkerIntent", intentWords)
	if err != nil {
		return WorkerIntent{}, err
	}
	i := WorkerIntent{Kind: IntentKind(word)}
	var f fields
	switch i.Kind {
	case IntentAssistant:
		f = assistantStructure.take(rest, array)
		i.Purpose = f.optionalText(0)
	case IntentTask:
		f = taskStructure.take(rest, array)
		i.Objective = f.text(0)
	default:
		f = roleStructure.take(rest, array)
		i.Role, i.Purpose = f.text(0), f.optionalText(1)
	}
	return i, f.err
}

func decodeProfile(text []byte) (ProfileSelector, error) {
	f := profileStructure.read(text)
	p := ProfileSelector{Kind: ProfileKind(f.word(0, profileWords))}
	if f.err == nil && p.Kind != ProfileRuntimeDefault {
		p.Value = f.text(1)
	} else if value := f.given(1); value != nil {
		f.fail("invalid type: %s, expected unit", serdejson.Unexpected(value))
	}
	return p, f.err
}

func decodeInput(text []byte) (WorkerInput, error) {
	f := inputStructure.read(text)
	i := WorkerInput{Kind: WorkerInputKind(f.word(0, inputWords)), Content: f.text(1)}
	return i, f.err
}

func decodeRef(text []byte) (WorkerRef, error) {
	f := refStructure.read(text)
	ref := WorkerRef{RuntimeID: RuntimeID(f.text(0)), WorkerID: WorkerID(f.text(1))}
	return ref, f.err
}

func (f *fields) ref(i int) (ref WorkerRef) {
	if text := f.need(i); text != nil {
		var err error
		ref, err = decodeRef(text)
		f.keep(err)
	}
	return ref
}

func (f *fields) optionalRef(i int) *WorkerRef {
	if f.given(i) == nil {
		return nil
	}
	ref := f.ref(i)
	return &ref
}

// decodeEventKind also takes words that the original doesn't know.
func decodeEventKind(text []byte) (kind RuntimeEventKind, known bool, err error) {
	word, rest, array, err := tagged(text, "RuntimeEventKind", eventWords)
	switch {
	case word == "":
		return "", false, err
	case array && len(rest) > 0:
		return "", false, decodeErrorf("invalid length %d, expected 0 elements in sequence", len(rest))
	}
	return RuntimeEventKind(word), err == nil, nil
}

// decodeEvent reads a line of an event log; known is false where only the kind's word is one that the original refuses.
func decodeEvent(line []byte) (e RuntimeEvent, known bool, err error) {
	if err := eventStructure.check(line); err != nil {
		return e, false, err
	}
	f := eventStructure.read(trimBlanks(line))
	e.ID = f.number(0, "u64")
	e.WorkerRef = f.optionalRef(1)
	if kind := f.need(2); kind != nil {
		e.Kind, known, err = decodeEventKind(kind)
		f.keep(err)
	}
	e.Message = f.text(3)
	if f.err != nil {
		return RuntimeEvent{}, false, f.err
	}
	return e, known, nil
}

// decodeEntry reads a line of a transcript.
func decodeEntry(line []byte) (e TranscriptEntry, err error) {
	if err := entryStructure.check(line); err != nil {
		return e, err
	}
	f := entryStructure.read(trimBlanks(line))
	e = TranscriptEntry{
		Sequence: f.number(0, "u64"), WorkerRef: f.ref(1), Role: TranscriptRole(f.word(2, inputWords)),
		Content: f.text(3), EventID: f.number(4, "u64"),
	}
	return e, f.err
}

// decodeDiagnostic reads an element of a runtime's diagnostics, from a text that check has accepted.
func decodeDiagnostic(text []byte) (d RuntimeDiagnostic, err error) {
	f := diagnosticStructure.read(text)
	d = RuntimeDiagnostic{
		ID: f.number(0, "u64"), Severity: DiagnosticSeverity(f.word(1, severityWords)),
		Code: f.text(2), Message: f.text(3), WorkerRef: f.optionalRef(4),
	}
	return d, f.err
}
