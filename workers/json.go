package workers

import "selvedge/internal/workers"

// A DecodeError says why a text is not what it should be.
type DecodeError = workers.DecodeError

// MarshalJSON writes the intent as an object with the member kind.
func (i WorkerIntent) MarshalJSON() ([]byte, error) { return i.stored().AppendJSON(nil), nil }

// UnmarshalJSON reads an intent, an object with the member kind. What it can't read is a *DecodeError.
func (i *WorkerIntent) UnmarshalJSON(text []byte) error {
	stored, err := workers.DecodeIntent(text)
	if err == nil {
		*i = intentOf(stored)
	}
	return err
}

// MarshalJSON writes the profile as an object with the members kind and value.
func (p ProfileSelector) MarshalJSON() ([]byte, error) { return p.stored().AppendJSON(nil), nil }

// UnmarshalJSON reads a profile, an object with the members kind and value. What it can't read is a
// *DecodeError.
func (p *ProfileSelector) UnmarshalJSON(text []byte) error {
	stored, err := workers.DecodeProfile(text)
	if err == nil {
		*p = profileOf(stored)
	}
	return err
}

// UnmarshalJSON reads a request: intent and profile must be there, unknown members are passed over.
// What it can't read is a *DecodeError.
func (request *CreateWorkerRequest) UnmarshalJSON(text []byte) error {
	stored, err := workers.DecodeRequest(text)
	if err == nil {
		*request = requestOf(stored)
	}
	return err
}

// UnmarshalJSON reads an input; its kind must be user or system. What it can't read is a *DecodeError.
func (i *WorkerInput) UnmarshalJSON(text []byte) error {
	stored, err := workers.DecodeInput(text)
	if err == nil {
		*i = WorkerInput{Kind: WorkerInputKind(stored.Kind), Content: stored.Content}
	}
	return err
}

// MarshalJSON writes the object {"kind":…}.
func (k RuntimeEventKind) MarshalJSON() ([]byte, error) {
	return workers.AppendKind(nil, string(k)), nil
}

// UnmarshalJSON reads the object {"kind":…}, with any word. What it can't read is a *DecodeError.
func (k *RuntimeEventKind) UnmarshalJSON(text []byte) error {
	word, err := workers.DecodeKind(text)
	if err == nil {
		*k = RuntimeEventKind(word)
	}
	return err
}

// What follows turns what stands in rows and files into what callers see, and back.

func refOf(ref workers.Ref) WorkerRef {
	return WorkerRef{RuntimeID: RuntimeID(ref.RuntimeID), WorkerID: WorkerID(ref.WorkerID)}
}

func maybeRefOf(ref *workers.Ref) *WorkerRef {
	if ref == nil {
		return nil
	}
	seen := refOf(*ref)
	return &seen
}

func intentOf(i workers.Intent) WorkerIntent {
	return WorkerIntent{Kind: IntentKind(i.Kind), Objective: i.Objective, Role: i.Role, Purpose: i.Purpose}
}

func (i WorkerIntent) stored() workers.Intent {
	return workers.Intent{Kind: string(i.kind()), Objective: i.Objective, Role: i.Role, Purpose: i.Purpose}
}

func profileOf(p workers.Profile) ProfileSelector {
	return ProfileSelector{Kind: ProfileKind(p.Kind), Value: p.Value}
}

func (p ProfileSelector) stored() workers.Profile {
	return workers.Profile{Kind: string(p.kind()), Value: p.Value}
}

func requestOf(q workers.Request) CreateWorkerRequest {
	request := CreateWorkerRequest{Intent: intentOf(q.Intent), Profile: profileOf(q.Profile)}
	if q.ConfigBundle != nil {
		request.ConfigBundle = &ConfigBundleRef{ID: *q.ConfigBundle}
	}
	for _, c := range q.Capabilities {
		request.RequestedCapabilities = append(request.RequestedCapabilities, CapabilityRequest(c))
	}
	for _, w := range q.Workspaces {
		request.WorkspaceRefs = append(request.WorkspaceRefs, WorkspaceRef(w))
	}
	for _, m := range q.Mounts {
		request.MountRefs = append(request.MountRefs, MountRef(m))
	}
	return request
}

func (request *CreateWorkerRequest) stored() workers.Request {
	q := workers.Request{Intent: request.Intent.stored(), Profile: request.Profile.stored()}
	if request.ConfigBundle != nil {
		q.ConfigBundle = &request.ConfigBundle.ID
	}
	for _, c := range request.RequestedCapabilities {
		q.Capabilities = append(q.Capabilities, workers.Capability(c))
	}
	for _, w := range request.WorkspaceRefs {
		q.Workspaces = append(q.Workspaces, workers.Named(w))
	}
	for _, m := range request.MountRefs {
		q.Mounts = append(q.Mounts, workers.Named(m))
	}
	return q
}

func eventOf(e workers.Event) RuntimeEvent {
	return RuntimeEvent{
		ID: e.ID, WorkerRef: maybeRefOf(e.Worker), Kind: RuntimeEventKind(e.Kind),
		Message: e.Message,
	}
}

func entryOf(e workers.Entry) TranscriptEntry {
	return TranscriptEntry{
		Sequence: e.Sequence, WorkerRef: refOf(e.Worker), Role: TranscriptRole(e.Role),
		Content: e.Content, EventID: e.EventID,
	}
}

func diagnosticOf(d workers.Diagnostic) RuntimeDiagnostic {
	return RuntimeDiagnostic{
		ID: d.ID, Severity: DiagnosticSeverity(d.Severity), Code: d.Code, Message: d.Message,
		WorkerRef: maybeRefOf(d.Worker),
	}
}
