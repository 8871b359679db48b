package workers

// DiagnosticSeverity is how bad a diagnostic is.
type DiagnosticSeverity string

const (
	SeverityInfo    DiagnosticSeverity = "info"
	SeverityWarning DiagnosticSeverity = "warning"
	SeverityError   DiagnosticSeverity = "error"
)

// A RuntimeDiagnostic is something worth knowing about a runtime or one of its workers.
type RuntimeDiagnostic struct {
	ID        uint64             `json:"id"` // from 1
	Severity  DiagnosticSeverity `json:"severity"`
	Code      string             `json:"code"` // a stable word, such as worker.tools_less
	Message   string             `json:"message"`
	WorkerRef *WorkerRef         `json:"worker_ref,omitempty"`
}
