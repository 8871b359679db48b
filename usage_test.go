package selvedge_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"selvedge"
	"selvedge/db"
)

func tokens(count uint64) *uint64 { return &count }

// The responses are shortened to what matters, and have the members of the real ones.
const (
	anthropicMessage = `{"id":"msg_013Zva2CMHLNnjNjJJKqJ2EF","type":"message","role":"assistant",
		"model":"claude-sonnet-4-5-20250929","content":[{"type":"text","text":"Hi!"}],"stop_reason":"end_turn",
		"usage":{"input_tokens":12,"cache_creation_input_tokens":2048,"cache_read_input_tokens":18432,
		"cache_creation":{"ephemeral_5m_input_tokens":2048,"ephemeral_1h_input_tokens":0},
		"output_tokens":503,"output_tokens_details":{"thinking_tokens":400},"service_tier":"standard"}}`
	anthropicDelta = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},
		"usage":{"input_tokens":472,"cache_creation_input_tokens":0,"cache_read_input_tokens":null,
		"output_tokens":89,"server_tool_use":{"web_search_requests":1}}}`
	openAIChat = `{"id":"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT","object":"chat.completion","created":1741569952,
		"model":"gpt-5-2025-08-07","choices":[{"index":0,"message":{"role":"assistant","content":"Hi!"}}],
		"usage":{"prompt_tokens":2006,"completion_tokens":300,"total_tokens":2306,
		"prompt_tokens_details":{"cached_tokens":1920,"audio_tokens":0},
		"completion_tokens_details":{"reasoning_tokens":192,"audio_tokens":0,"accepted_prediction_tokens":0}}}`
	openAIChunk = `{"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,
		"model":"gpt-4o-mini","system_fingerprint":"fp_44709d6fcb","choices":[],
		"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":null}}`
	openAIResponse = `{"id":"resp_67ccd2bed1ec8190","object":"response","created_at":1741476542,
		"status":"completed","model":"gpt-4.1-2025-04-14","output":[],"usage":{"input_tokens":12033,
		"input_tokens_details":{"cached_tokens":11904,"cache_write_tokens":64},"output_tokens":44,
		"output_tokens_details":{"reasoning_tokens":0},"total_tokens":12077}}`
	geminiContent = `{"candidates":[{"content":{"parts":[{"text":"Hi!"}],"role":"model"},"finishReason":"STOP"}],
		"usageMetadata":{"promptTokenCount":4096,"cachedContentTokenCount":2048,"candidatesTokenCount":359,
		"toolUsePromptTokenCount":100,"thoughtsTokenCount":661,"totalTokenCount":5216,
		"promptTokensDetails":[{"modality":"TEXT","tokenCount":4096}]},
		"modelVersion":"gemini-2.5-pro","responseId":"abc"}`
	geminiChunk = `{"candidates":[{"content":{"role":"model"},"finishReason":"MAX_TOKENS","index":0}],
		"usageMetadata":{"promptTokenCount":15,"totalTokenCount":80,"thoughtsTokenCount":65},
		"modelVersion":"gemini-2.5-flash"}`
)

func TestUsage_OfAResponse(t *testing.T) {
	for name, c := range map[string]struct {
		read     func([]byte) (selvedge.Usage, error)
		response string
		want     selvedge.Usage
	}{
		"Anthropic": {selvedge.AnthropicUsage, anthropicMessage, selvedge.Usage{
			ResponseModel: new("claude-sonnet-4-5-20250929"), InputTokens: tokens(20492),
			CacheReadInputTokens:  tokens(18432),
			CacheWriteInputTokens: tokens(2048), OutputTokens: tokens(503), ReasoningOutputTokens: tokens(400),
		}},
		"Anthropic, end of a stream": {selvedge.AnthropicUsage, anthropicDelta, selvedge.Usage{
			InputTokens: tokens(472), CacheWriteInputTokens: tokens(0), OutputTokens: tokens(89),
		}},
		"Anthropic, usage alone": {
			selvedge.AnthropicUsage, `{"input_tokens":1,"output_tokens":0}`,
			selvedge.Usage{InputTokens: tokens(1), OutputTokens: tokens(0)},
		},
		"OpenAI chat": {selvedge.OpenAIUsage, openAIChat, selvedge.Usage{
			ResponseModel: new("gpt-5-2025-08-07"), InputTokens: tokens(2006), CacheReadInputTokens: tokens(1920),
			OutputTokens: tokens(300), ReasoningOutputTokens: tokens(192),
		}},
		"OpenAI chat, end of a stream": {selvedge.OpenAIUsage, openAIChunk, selvedge.Usage{
			ResponseModel: new("gpt-4o-mini"), InputTokens: tokens(19), OutputTokens: tokens(10),
		}},
		"OpenAI response": {selvedge.OpenAIUsage, openAIResponse, selvedge.Usage{
			ResponseModel: new("gpt-4.1-2025-04-14"), InputTokens: tokens(12033), CacheReadInputTokens: tokens(11904),
			CacheWriteInputTokens: tokens(64),
			OutputTokens:          tokens(44), ReasoningOutputTokens: tokens(0),
		}},
		"OpenAI response, end of a stream": {
			selvedge.OpenAIUsage,
			`{"type":"response.completed","sequence_number":9,"response":` + openAIResponse + `}`,
			selvedge.Usage{
				ResponseModel: new("gpt-4.1-2025-04-14"), InputTokens: tokens(12033), CacheReadInputTokens: tokens(11904),
				CacheWriteInputTokens: tokens(64),
				OutputTokens:          tokens(44), ReasoningOutputTokens: tokens(0),
			},
		},
		"OpenAI, usage alone": {
			selvedge.OpenAIUsage, `{"prompt_tokens":3,"completion_tokens":4}`,
			selvedge.Usage{InputTokens: tokens(3), OutputTokens: tokens(4)},
		},
		"Gemini": {selvedge.GeminiUsage, geminiContent, selvedge.Usage{
			ResponseModel: new("gemini-2.5-pro"), InputTokens: tokens(4196), CacheReadInputTokens: tokens(2048),
			OutputTokens: tokens(1020), ReasoningOutputTokens: tokens(661),
		}},
		"Gemini, end of a stream": {selvedge.GeminiUsage, geminiChunk, selvedge.Usage{
			ResponseModel: new("gemini-2.5-flash"), InputTokens: tokens(15), OutputTokens: tokens(65),
			ReasoningOutputTokens: tokens(65),
		}},
		"Gemini, usage alone": {
			selvedge.GeminiUsage, `{"promptTokenCount":3,"candidatesTokenCount":4,"totalTokenCount":7}`,
			selvedge.Usage{InputTokens: tokens(3), OutputTokens: tokens(4)},
		},
	} {
		if got, err := c.read([]byte(c.response)); err != nil || !reflect.DeepEqual(got, c.want) {
			said, _ := json.Marshal(got)
			t.Errorf("%s: %s, %v", name, said, err)
		}
	}
}

func TestUsage_UnknownShapeIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		read      func([]byte) (selvedge.Usage, error)
		responses []string
	}{
		"Anthropic": {selvedge.AnthropicUsage, []string{
			openAIChat, openAIResponse, geminiContent,
			`{"type":"message_start","message":` + anthropicMessage + `}`,
			`{"type":"message_delta","usage":{"output_tokens":15}}`,
			`{"usage":{"input_tokens":1}}`, `{"usage":{"input_tokens":null,"output_tokens":1}}`,
			`{"usage":{"input_tokens":1,"output_tokens":1,"cache_read_input_tokens":-1}}`,
			`{"usage":{"input_tokens":1,"output_tokens":1},"model":1}`,
			`{"usage":{"input_tokens":9007199254740992,"output_tokens":1}}`,
			`{"usage":{"input_tokens":1,"output_tokens":1,"output_tokens_details":{"reasoning_tokens":1}}}`,
			`{"usage":{"input_tokens":1,"output_tokens":1,"output_tokens_details":{"thinking_tokens":2}}}`,
		}},
		"OpenAI": {selvedge.OpenAIUsage, []string{
			anthropicMessage, geminiContent, `{"choices":[],"usage":null}`,
			`{"usage":{"input_tokens":9,"output_tokens":9,"output_tokens_details":{"thinking_tokens":2}}}`,
			`{"type":"response.created","response":{"usage":null}}`,
			`{"usage":{"prompt_tokens":1}}`, `{"usage":{"input_tokens":1,"completion_tokens":1}}`,
			`{"usage":{"prompt_tokens":1,"completion_tokens":1,"prompt_tokens_details":3}}`,
			`{"usage":{"prompt_tokens":1,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":"1"}}}`,
			`{"usage":{"prompt_tokens":1,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":2}}}`,
			`{"usage":{"prompt_tokens":1,"completion_tokens":1,"completion_tokens_details":{"reasoning_tokens":2}}}`,
		}},
		"Gemini": {selvedge.GeminiUsage, []string{
			anthropicMessage, openAIResponse, `{"candidates":[]}`, `{"usageMetadata":{"promptTokenCount":1}}`,
			`{"usageMetadata":{"candidatesTokenCount":1}}`,
			`{"usageMetadata":{"promptTokenCount":1.5,"candidatesTokenCount":1}}`,
		}},
	} {
		for _, response := range append(c.responses, ``, `null`, `[]`, `7`, `{}`, `{"usage":{}}`, `{"usage":7}`,
			`{"usageMetadata":[]}`, `{"usage":`) {
			u, err := c.read([]byte(response))
			e, ok := errors.AsType[*db.Error](err)
			if !errors.Is(err, db.ErrInvalid) || !ok || e.Hint == "" || u != (selvedge.Usage{}) {
				t.Errorf("%s: %s: %+v, %v", name, response, u, err)
			}
		}
	}
}
