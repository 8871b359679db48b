package workers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A CreateWorkerRequest describes the purpose of a worker and what it needs. Intent and Profile
// have meaningful zero values: an assistant with the runtime's default profile.
type CreateWorkerRequest struct {
	Intent                WorkerIntent        `json:"intent"`
	Profile               ProfileSelector     `json:"profile"`
	ConfigBundle          *ConfigBundleRef    `json:"config_bundle,omitempty"`
	RequestedCapabilities []CapabilityRequest `json:"requested_capabilities,omitempty"`
	WorkspaceRefs         []WorkspaceRef      `json:"workspace_refs,omitempty"`
	MountRefs             []MountRef          `json:"mount_refs,omitempty"`
}

// ToolsLess is a request without a configuration bundle, capabilities or references.
func ToolsLess(intent WorkerIntent, profile ProfileSelector) CreateWorkerRequest {
	return CreateWorkerRequest{Intent: intent, Profile: profile}
}

// UnmarshalJSON reads a request. It requires intent and profile, and ignores unknown members.
func (request *CreateWorkerRequest) UnmarshalJSON(text []byte) error {
	return into(requestJSON(), text, request)
}

// A WorkerIntent is the purpose of a worker. The zero value is an assistant without a purpose.
type WorkerIntent struct {
	Kind      string  `json:"kind"`              // assistant, task or role; "" is assistant
	Objective string  `json:"objective"`         // of a task; must not be blank
	Role      string  `json:"role"`              // of a role
	Purpose   *string `json:"purpose,omitempty"` // of an assistant or a role; nil: not given
}

// The kinds of intents and profiles.
const (
	intentAssistant = "assistant"
	intentTask      = "task"
	intentRole      = "role"

	profileDefault = "runtime_default"
	profileBuiltin = "builtin"
	profileNamed   = "named"
)

// TaskIntent is a task with the given objective.
func TaskIntent(objective string) WorkerIntent {
	return WorkerIntent{Kind: intentTask, Objective: objective}
}

// RoleIntent is a role without a purpose.
func RoleIntent(role string) WorkerIntent { return WorkerIntent{Kind: intentRole, Role: role} }

func (i WorkerIntent) kind() string { return cmp.Or(i.Kind, intentAssistant) }

// MarshalJSON writes the intent as an object with the member kind.
func (i WorkerIntent) MarshalJSON() ([]byte, error) {
	shown := struct {
		Kind      string  `json:"kind"`
		Objective *string `json:"objective,omitempty"`
		Role      *string `json:"role,omitempty"`
		Purpose   *string `json:"purpose,omitempty"`
	}{Kind: i.kind()}
	switch shown.Kind {
	case intentAssistant:
		shown.Purpose = i.Purpose
	case intentTask:
		shown.Objective = &i.Objective
	case intentRole:
		shown.Role, shown.Purpose = &i.Role, i.Purpose
	}
	return encode(shown), nil
}

// UnmarshalJSON reads an intent, an object with the member kind.
func (i *WorkerIntent) UnmarshalJSON(text []byte) error { return into(anyJSON, text, i) }

// A ProfileSelector selects the profile of a worker. The zero value is the runtime's default.
type ProfileSelector struct {
	Kind  string `json:"kind" serde:"runtime_default|builtin|named"` // "" is runtime_default
	Value string `json:"value"`                                      // name of a builtin or named one
}

// BuiltinProfile selects a profile that comes with the program.
func BuiltinProfile(value string) ProfileSelector {
	return ProfileSelector{Kind: profileBuiltin, Value: value}
}

// NamedProfile selects a profile that a user defined.
func NamedProfile(value string) ProfileSelector {
	return ProfileSelector{Kind: profileNamed, Value: value}
}

func (p ProfileSelector) kind() string { return cmp.Or(p.Kind, profileDefault) }

// MarshalJSON writes the profile as an object with the members kind and value.
func (p ProfileSelector) MarshalJSON() ([]byte, error) {
	shown := map[string]string{"kind": p.kind()} // in the order of the keys
	if shown["kind"] != profileDefault {
		shown["value"] = p.Value
	}
	return encode(shown), nil
}

// UnmarshalJSON reads a profile, an object with the members kind and value.
func (p *ProfileSelector) UnmarshalJSON(text []byte) error { return into(profileJSON(), text, p) }

// A ConfigBundleRef names a configuration bundle. The runtime does not read the bundle.
type ConfigBundleRef struct {
	ID string `json:"id"`
}

// A CapabilityRequest names a tool that the worker wants to use. Its name must not be blank.
type CapabilityRequest struct {
	Name   string  `json:"name"`
	Reason *string `json:"reason,omitempty"`
}

// NamedCapability is a request without a reason.
func NamedCapability(name string) CapabilityRequest { return CapabilityRequest{Name: name} }

// A WorkspaceRef is the name under which the worker sees a workspace.
type WorkspaceRef struct {
	Name      string `json:"name"`
	Reference string `json:"reference"`
}

// A MountRef is the name under which the worker sees a mount.
type MountRef struct {
	Name      string `json:"name"`
	Reference string `json:"reference"`
}

func (request *CreateWorkerRequest) check() error {
	intent, profile := &request.Intent, &request.Profile
	if intent.kind() == intentTask && strings.TrimSpace(intent.Objective) == "" {
		return invalidRequest("task objective must not be empty")
	}
	for _, c := range request.RequestedCapabilities {
		if strings.TrimSpace(c.Name) == "" {
			return invalidRequest("capability name must not be empty")
		}
	}
	switch {
	case !slices.Contains(intentKinds, intent.kind()):
		return invalidRequest(fmt.Sprintf("unknown intent %q", intent.Kind))
	case !slices.Contains(profileJSON().fields[0].words, profile.kind()):
		return invalidRequest(fmt.Sprintf("unknown profile %q", profile.Kind))
	case !utf8.Valid(encode(*request)):
		return invalidRequest("a text is not valid UTF-8")
	}
	return nil
}

// A WorkerInput is something said to a worker.
type WorkerInput struct {
	Kind    string `json:"kind" serde:"user|system"` // the role of its entry in the transcript
	Content string `json:"content"`                  // must not be blank; kept as it is
	// Repeat marks the input as the repeat of one with an unknown outcome. It is the number that
	// [db.BatchOf] returns for that call's error. If the first try was kept, SendInput does nothing and
	// returns the answer of the first try; to find out, it reads the whole transcript of the worker. 0
	// means no repeat.
	Repeat int64 `json:"-"`
}

const (
	roleUser   = "user"
	roleSystem = "system"
)

// UserInput is an input by the user.
func UserInput(content string) WorkerInput { return WorkerInput{Kind: roleUser, Content: content} }

// SystemInput is an input by the program around the worker.
func SystemInput(content string) WorkerInput { return WorkerInput{Kind: roleSystem, Content: content} }

// UnmarshalJSON reads an input. Its kind must be user or system.
func (i *WorkerInput) UnmarshalJSON(text []byte) error { return into(inputJSON(), text, i) }

func (i WorkerInput) check() error {
	switch {
	case strings.TrimSpace(i.Content) == "":
		return invalidRequest("worker input content must not be empty")
	case !utf8.ValidString(i.Content):
		return invalidRequest("worker input content is not valid UTF-8")
	case i.Kind != roleUser && i.Kind != roleSystem:
		return invalidRequest(fmt.Sprintf("unknown input kind %q", i.Kind))
	}
	return nil
}
