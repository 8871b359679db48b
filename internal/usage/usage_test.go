package usage_test

import (
	"encoding/json"
	"testing"

	"selvedge/internal/usage"
)

// A record may have a provider's own object with the counts.
func TestOf_ObjectsOfProviders(t *testing.T) {
	// Input, read from and written to a cache, output, reasoning; -1: nil.
	for record, want := range map[string][5]int{
		`{"usage":{"input_tokens":12,"cache_creation_input_tokens":2048,"cache_read_input_tokens":18432,
			"output_tokens":503}}`: {20492, 18432, 2048, 503, -1},
		`{"usage":{"input_tokens":12,"output_tokens":503}}`: {12, -1, -1, 503, -1},
		`{"usage":{"input_tokens":12,"cache_read_input_tokens":4,"cache_write_input_tokens":3,
			"output_tokens":5}}`: {12, 4, 3, 5, -1},
		`{"usage":{"input_tokens":12,"cache_creation_input_tokens":3,"output_tokens":5,"total_tokens":17}}`: {
			12, -1, 3, 5, -1,
		},
		`{"usage":{"prompt_tokens":2006,"completion_tokens":300,"total_tokens":2306,
			"prompt_tokens_details":{"cached_tokens":1920},
			"completion_tokens_details":{"reasoning_tokens":192}}}`: {2006, 1920, -1, 300, 192},
		`{"usage":{"input_tokens":33,"input_tokens_details":{"cached_tokens":4},"output_tokens":44,
			"output_tokens_details":{"reasoning_tokens":0},"total_tokens":77}}`: {33, 4, -1, 44, 0},
		`{"usage":{"input_tokens":12,"cache_creation_input_tokens":0,"output_tokens":503,
			"output_tokens_details":{"thinking_tokens":100}}}`: {12, -1, 0, 503, 100},
		`{"usage":{"prompt_tokens":9657,"completion_tokens":78,"total_tokens":9735,
			"prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":9654}}}`: {9657, 0, 9654, 78, -1},
		`{"usage":{"input_tokens":9658,"input_tokens_details":{"cached_tokens":1,"cache_write_tokens":9655},
			"output_tokens":42,"total_tokens":9700}}`: {9658, 1, 9655, 42, -1},
		`{"usageMetadata":{"promptTokenCount":4096,"cachedContentTokenCount":2048,"candidatesTokenCount":359,
			"toolUsePromptTokenCount":100,"thoughtsTokenCount":661}}`: {4196, 2048, -1, 1020, 661},
		`{"usage":{"promptTokenCount":15,"thoughtsTokenCount":65}}`: {15, -1, -1, 65, 65},
		`{"usageMetadata":{"toolUsePromptTokenCount":15}}`:          {-1, -1, -1, -1, -1},
	} {
		u, got := usage.Of([]byte(record)), [5]int{}
		for i, n := range []*uint64{
			u.InputTokens, u.CacheReadInputTokens, u.CacheWriteInputTokens, u.OutputTokens, u.ReasoningOutputTokens,
		} {
			got[i] = -1
			if n != nil {
				got[i] = int(*n)
			}
		}
		if got != want {
			t.Errorf("%s: %v, want %v", record, got, want)
		}
	}
}

func TestOf_ModelIsTheOneThatAnswered(t *testing.T) {
	for record, want := range map[string]string{
		`{"model":"large-2","request_model":"large"}`: `"large-2"`, `{"model":"a","model_id":"b"}`: `"b"`,
		`{"model":"a","meta":{"response_model":"c"}}`: `"c"`, `{"model":7}`: `null`,
	} {
		if got, err := json.Marshal(usage.Of([]byte(record)).ResponseModel); err != nil || string(got) != want {
			t.Errorf("%s: %s, want %s, %v", record, got, want, err)
		}
	}
}
