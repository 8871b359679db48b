package workers

// WorkerInputKind is who speaks to a worker.
type WorkerInputKind string

const (
	InputUser   WorkerInputKind = "user"
	InputSystem WorkerInputKind = "system"
)

// A WorkerInput is something said to a worker.
type WorkerInput struct {
	Kind    WorkerInputKind `json:"kind"`
	Content string          `json:"content"` // must not be blank; kept as it is
}

// UserInput is an input by the user.
func UserInput(content string) WorkerInput { return WorkerInput{Kind: InputUser, Content: content} }

// SystemInput is an input by the program around the worker.
func SystemInput(content string) WorkerInput { return WorkerInput{Kind: InputSystem, Content: content} }

// WorkerInteractionAck is the answer to SendInput.
type WorkerInteractionAck struct {
	WorkerRef          WorkerRef    `json:"worker_ref"`
	Status             WorkerStatus `json:"status"`
	TranscriptSequence uint64       `json:"transcript_sequence"` // of the entry, from 1
	EventID            uint64       `json:"event_id"`
}
