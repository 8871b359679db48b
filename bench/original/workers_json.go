package original

import "selvedge/workers"

// The documents of a runtime, member for member as the original writes them.

func (w *serde) runtime(id workers.RuntimeID, state *runtimeCopy) {
	w.begin("{")
	w.numberMember("schema_version", 1)
	w.stringMember("runtime_id", string(id))
	w.key("display_name")
	w.null()
	w.stringMember("backend", "fs_store")
	w.stringMember("status", string(workers.Running))
	w.key("limits")
	w.begin("{")
	limits := workers.RuntimeLimits{MaxTranscriptProjectionItems: 256, MaxEventBatchItems: 256}
	w.numberMember("max_transcript_projection_items", limits.MaxTranscriptProjectionItems)
	w.numberMember("max_event_batch_items", limits.MaxEventBatchItems)
	w.end("}")
	w.numberMember("next_worker_sequence", uint64(len(state.workers)+1))
	w.numberMember("next_event_id", uint64(len(state.events)+1))
	w.numberMember("next_diagnostic_id", uint64(len(state.diagnostics)+1))
	w.key("diagnostics")
	w.begin("[")
	for i := range state.diagnostics {
		w.element()
		w.diagnostic(&state.diagnostics[i])
	}
	w.end("]")
	w.end("}")
}

func (w *serde) diagnostic(d *workers.RuntimeDiagnostic) {
	w.begin("{")
	w.numberMember("id", d.ID)
	w.stringMember("severity", d.Severity)
	w.stringMember("code", d.Code)
	w.stringMember("message", d.Message)
	w.refMember(d.WorkerRef)
	w.end("}")
}

func (w *serde) worker(of *worker) {
	w.begin("{")
	w.numberMember("schema_version", 1)
	w.refMember(&of.ref)
	w.stringMember("worker_id", string(of.ref.WorkerID))
	w.stringMember("status", string(workers.Running))
	w.key("request")
	w.request(&of.request)
	w.numberMember("next_transcript_sequence", uint64(len(of.transcript)+1))
	w.numberMember("last_event_id", of.lastEventID)
	w.end("}")
}

// request is that of a task: the only ones that are measured.
func (w *serde) request(r *workers.CreateWorkerRequest) {
	w.begin("{")
	w.key("intent")
	w.begin("{")
	w.stringMember("kind", r.Intent.Kind)
	w.stringMember("objective", r.Intent.Objective)
	w.end("}")
	w.key("profile")
	w.begin("{")
	w.stringMember("kind", r.Profile.Kind)
	w.stringMember("value", r.Profile.Value)
	w.end("}")
	if r.ConfigBundle != nil {
		w.key("config_bundle")
		w.begin("{")
		w.stringMember("id", r.ConfigBundle.ID)
		w.end("}")
	}
	if len(r.RequestedCapabilities) > 0 {
		w.key("requested_capabilities")
		w.begin("[")
		for _, c := range r.RequestedCapabilities {
			w.element()
			w.begin("{")
			w.stringMember("name", c.Name)
			w.end("}")
		}
		w.end("]")
	}
	w.end("}")
}

func (w *serde) event(e *workers.RuntimeEvent) {
	w.begin("{")
	w.numberMember("id", e.ID)
	w.refMember(e.WorkerRef)
	w.key("kind")
	w.begin("{")
	w.stringMember("kind", string(e.Kind))
	w.end("}")
	w.stringMember("message", e.Message)
	w.end("}")
}

func (w *serde) entry(e *workers.TranscriptEntry) {
	w.begin("{")
	w.numberMember("sequence", e.Sequence)
	w.refMember(&e.WorkerRef)
	w.stringMember("role", e.Role)
	w.stringMember("content", e.Content)
	w.numberMember("event_id", e.EventID)
	w.end("}")
}

// refMember omits a reference that is nil.
func (w *serde) refMember(ref *workers.WorkerRef) {
	if ref == nil {
		return
	}
	w.key("worker_ref")
	w.begin("{")
	w.stringMember("runtime_id", string(ref.RuntimeID))
	w.stringMember("worker_id", string(ref.WorkerID))
	w.end("}")
}
