package main

import (
	"reflect"

	"selvedge/workers"
)

func init() {
	common := []documented{
		{"worker_ref", "object", "the worker, as it names itself elsewhere"},
		{"worker_ref.runtime_id", "text", "as below"},
		{"worker_ref.worker_id", "text", "as below"},
		{"runtime_id", "text", "the runtime that the worker belongs to"},
		{"worker_id", "text", "unique in its runtime"},
		{"status", "text", "running, stopped or cancelled"},
		{"intent", "object", "what the worker is for"},
		{"intent.kind", "text", "assistant, task or role"},
		{"intent.objective", "text", "of a task"},
		{"intent.role", "text", "of a role"},
		{"intent.purpose", "text", "of an assistant or a role, where one was given"},
		{"profile", "object", "what it runs with"},
		{"profile.kind", "text", "runtime_default, builtin or named"},
		{"profile.value", "text", "of the last two"},
	}
	last := []documented{
		{"transcript_len", "number", "entries in the transcript"},
		{"last_event_id", "number", "the last event that it caused"},
	}
	join := func(parts ...[]documented) (all []documented) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	written[reflect.TypeFor[workers.WorkerSummary]()] = join(common, []documented{
		{"requested_capability_count", "number", "capabilities that it asked for"},
		{"has_config_bundle", "bool", "whether it has a configuration bundle"},
	}, last)
	written[reflect.TypeFor[workers.WorkerDetail]()] = join(common, []documented{
		{"config_bundle", "object", "configuration bundle; left out where it has none"},
		{"config_bundle.id", "text", "its id"},
		{"requested_capabilities", "array", "each with its name, and the reason where one was given; left out " +
			"where it is empty"},
		{"workspace_refs", "array", "each with name and reference; left out where it is empty"},
		{"mount_refs", "array", "each with name and reference; left out where it is empty"},
	}, last)
	written[reflect.TypeFor[workers.TranscriptEntry]()] = []documented{
		{"sequence", "number", "from 1; imported transcripts may have gaps"},
		{"worker_ref", "object", "the worker"},
		{"worker_ref.runtime_id", "text", "its runtime"},
		{"worker_ref.worker_id", "text", "its id"},
		{"role", "text", "user or system"},
		{"content", "text", "what was said"},
		{"event_id", "number", "the event that accepted it"},
	}
	written[reflect.TypeFor[workers.RuntimeEvent]()] = []documented{
		{"id", "number", "from 1; imported logs may have gaps"},
		{"worker_ref", "object", "the worker; left out for events of the runtime"},
		{"worker_ref.runtime_id", "text", "its runtime"},
		{"worker_ref.worker_id", "text", "its id"},
		{"kind", "object", "what happened"},
		{"kind.kind", "text", "runtime_started, runtime_stopped, worker_created, worker_input_accepted, " +
			"worker_stopped or worker_cancelled; other words come from imports"},
		{"message", "text", "for people"},
	}
}
