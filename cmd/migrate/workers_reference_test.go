package main

import (
	"reflect"

	"selvedge/workers"
)

func init() {
	answers["workers list"] = listOf[workers.WorkerSummary]{}
	answers["workers show"] = workerAnswer{}
	common := []documented{
		{"worker_ref", "object", "runtime_id and worker_id, as below"},
		{"runtime_id", "text", "the runtime that the worker belongs to"},
		{"worker_id", "text", "unique in its runtime"},
		{"status", "text", "running, stopped or cancelled"},
		{"intent", "object", "kind is assistant, task or role; a task has its objective, a role its role, an assistant and a role may have a purpose"},
		{"profile", "object", "kind is runtime_default, builtin or named; the last two have a value"},
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
		{"config_bundle", "object", "id of the configuration bundle; left out where it has none"},
		{"requested_capabilities", "array", "each with its name, and the reason where one was given; left out where it is empty"},
		{"workspace_refs", "array", "each with name and reference; left out where it is empty"},
		{"mount_refs", "array", "each with name and reference; left out where it is empty"},
	}, last)
	written[reflect.TypeFor[workers.TranscriptEntry]()] = []documented{
		{"sequence", "number", "from 1; imported transcripts may have gaps"},
		{"worker_ref", "object", "runtime_id and worker_id"},
		{"role", "text", "user or system"},
		{"content", "text", "what was said"},
		{"event_id", "number", "the event that accepted it"},
	}
	written[reflect.TypeFor[workers.RuntimeEvent]()] = []documented{
		{"id", "number", "from 1; imported logs may have gaps"},
		{"worker_ref", "object", "runtime_id and worker_id; left out for events of the runtime"},
		{"kind", "object", "its kind is runtime_started, runtime_stopped, worker_created, worker_input_accepted, worker_stopped or worker_cancelled; other words come from imports"},
		{"message", "text", "for people"},
	}
}
