package workers

// IntentKind is the sort of work that a worker is for.
type IntentKind string

const (
	IntentAssistant IntentKind = "assistant"
	IntentTask      IntentKind = "task"
	IntentRole      IntentKind = "role"
)

// A WorkerIntent says what a worker is for. The zero value is an assistant without a purpose.
type WorkerIntent struct {
	Kind      IntentKind // "" is IntentAssistant
	Objective string     // of a task; must not be blank
	Role      string     // of a role
	Purpose   *string    // of an assistant or a role; nil: not given
}

// AssistantIntent is an assistant without a purpose.
func AssistantIntent() WorkerIntent { return WorkerIntent{Kind: IntentAssistant} }

// TaskIntent is a task with that objective.
func TaskIntent(objective string) WorkerIntent {
	return WorkerIntent{Kind: IntentTask, Objective: objective}
}

// RoleIntent is a role without a purpose.
func RoleIntent(role string) WorkerIntent { return WorkerIntent{Kind: IntentRole, Role: role} }

// For gives the intent a purpose.
func (i WorkerIntent) For(purpose string) WorkerIntent {
	i.Purpose = &purpose
	return i
}

func (i WorkerIntent) kind() IntentKind {
	if i.Kind == "" {
		return IntentAssistant
	}
	return i.Kind
}

// ProfileKind is how a profile is selected.
type ProfileKind string

const (
	ProfileRuntimeDefault ProfileKind = "runtime_default"
	ProfileBuiltin        ProfileKind = "builtin"
	ProfileNamed          ProfileKind = "named"
)

// A ProfileSelector selects the profile of a worker. The zero value is the runtime's default.
type ProfileSelector struct {
	Kind  ProfileKind // "" is ProfileRuntimeDefault
	Value string      // of the other two
}

// RuntimeDefaultProfile selects the runtime's default.
func RuntimeDefaultProfile() ProfileSelector { return ProfileSelector{Kind: ProfileRuntimeDefault} }

// BuiltinProfile selects a profile that comes with the program.
func BuiltinProfile(value string) ProfileSelector {
	return ProfileSelector{Kind: ProfileBuiltin, Value: value}
}

// NamedProfile selects a profile that somebody made.
func NamedProfile(value string) ProfileSelector {
	return ProfileSelector{Kind: ProfileNamed, Value: value}
}

func (p ProfileSelector) kind() ProfileKind {
	if p.Kind == "" {
		return ProfileRuntimeDefault
	}
	return p.Kind
}
