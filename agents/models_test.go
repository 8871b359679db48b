package agents_test

import (
	"testing"

	"selvedge/test/replay"
)

// What the original answers where a folder is named like an entry, where an entry is a link to one,
// and where a match asks for null: by its source, which reads a path that exists with
// read_to_string and compares members as JSON.
const oddFolder = `{"transcript":1,"store":"agents","original":"by its source","seed":0,"touches_files":true}
{"op":"save","now":"2026-05-20T12:00:00Z","args":{"entry":{"session_id":"agent-a","thread":"t","base_state":"b","started_at":"2026-05-20T11:00:00Z","status":"active"}},"ok":null}
{"op":"fs_mkdir","now":"2026-05-20T12:00:01Z","args":{"path":".heddle/agents/agent-folder.toml"},"ok":null}
{"op":"load","now":"2026-05-20T12:00:02Z","args":{"session_id":"agent-folder"},"err":"io error: Is a directory (os error 21)"}
{"op":"delete","now":"2026-05-20T12:00:02Z","args":{"session_id":"agent-folder"},"err":"io error: Is a directory (os error 21)"}
{"op":"reap_dead","now":"2026-05-20T12:00:02Z","args":{},"err":"io error: Is a directory (os error 21)"}
{"op":"load","now":"2026-05-20T12:00:02Z","args":{"session_id":"agent-a"},"ok":{"session_id":"agent-a","thread":"t","base_state":"b","started_at":"2026-05-20T11:00:00Z","status":"active","usage_summary":{},"attach_precedence":[],"context_queries":[]}}
{"op":"fs_remove","now":"2026-05-20T12:00:03Z","args":{"path":".heddle/agents/agent-folder.toml"},"ok":null}
{"op":"fs_write","now":"2026-05-20T12:00:04Z","args":{"path":".heddle/agents/linked.data","text":"session_id = \"agent-linked\"\nthread = \"l\"\nbase_state = \"b\"\nstarted_at = \"2026-05-20T10:00:00Z\"\nstatus = \"active\"\n"},"ok":null}
{"op":"fs_symlink","now":"2026-05-20T12:00:05Z","args":{"path":".heddle/agents/agent-linked.toml","target":"$root/.heddle/agents/linked.data"},"ok":null}
{"op":"fs_symlink","now":"2026-05-20T12:00:05Z","args":{"path":".heddle/agents/agent-nowhere.toml","target":"$root/nowhere.toml"},"ok":null}
{"op":"load","now":"2026-05-20T12:00:06Z","args":{"session_id":"agent-linked"},"ok":{"session_id":"agent-linked","thread":"l","base_state":"b","started_at":"2026-05-20T10:00:00Z","status":"active","usage_summary":{},"attach_precedence":[],"context_queries":[]}}
{"op":"load","now":"2026-05-20T12:00:06Z","args":{"session_id":"agent-nowhere"},"ok":null}
{"op":"find_or_create_active_entry","now":"2026-05-20T12:00:07Z","args":{"match":{"field":"model","equals":null},"update":{"model":"m"},"build":{}},"ok":{"created":false,"entry":{"session_id":"agent-a","thread":"t","base_state":"b","started_at":"2026-05-20T11:00:00Z","model":"m","status":"active","usage_summary":{},"attach_precedence":[],"context_queries":[]}}}
`

func TestTheModelKnowsFoldersLinksAndNulls(t *testing.T) {
	transcript, err := replay.Parse("agents/odd-folder.jsonl", []byte(oddFolder))
	if err != nil {
		t.Fatal(err)
	}
	tally, err := replay.Play(transcript, newPlayer(t), sameValues)
	if err != nil {
		t.Error(err)
	}
	t.Log(tally)
}
