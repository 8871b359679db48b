package selvedge

import (
	"encoding/json"
	"fmt"
	"strconv"

	"selvedge/db"
)

// Usage is the token usage and cost of one request to a model.
type Usage = db.Usage

// AnthropicUsage reads the usage of a response of Anthropic's Messages API, or the usage object alone.
// The input tokens are the sum of input_tokens, cache_read_input_tokens and cache_creation_input_tokens,
// which the API counts apart. The output tokens include those of thinking. Of a stream, give it the usage
// of the last message_delta, whose counts are cumulative, with the input counts of message_start if it
// has none.
//
// In this and the two functions below, ResponseModel is the model that the response names. Provider,
// RequestModel and CostUSD are nil: the response does not state them. A detail that is absent or null is
// nil. db.ErrInvalid: there is no usage object, a count is missing, or a count is no whole number from 0
// to 2^53-1 or more than the count that it is part of.
//
// Sources: https://github.com/anthropics/anthropic-sdk-python/blob/main/src/anthropic/types/usage.py,
// https://rubydoc.info/github/anthropics/anthropic-sdk-ruby/Anthropic/Models/MessageDeltaUsage,
// https://github.com/anthropics/anthropic-sdk-python/issues/1017 (output_tokens_details) and
// https://github.com/crewAIInc/crewAI/pull/6770/files (what the counts include).
func AnthropicUsage(response []byte) (Usage, error) {
	r := newUsageReader("Anthropic", response, "usage", "model", "")
	r.refuse("input_tokens_details") // OpenAI's
	thinking := r.detail("output_tokens_details", "thinking_tokens")
	if r.detail("output_tokens_details", "reasoning_tokens") != nil {
		r.fail("output_tokens_details is of another API")
	}
	input, output := r.count("input_tokens"), r.count("output_tokens")
	read, write := r.detail("cache_read_input_tokens"), r.detail("cache_creation_input_tokens")
	return r.usage(Usage{
		InputTokens: sumCounts(input, read, write), CacheReadInputTokens: read, CacheWriteInputTokens: write,
		OutputTokens: output, ReasoningOutputTokens: thinking,
	})
}

// OpenAIUsage reads the usage of a response of OpenAI's Chat Completions or Responses API, or the usage
// object alone. Input tokens include the cached ones, and output tokens those for reasoning, as the API
// counts them. Of a stream, give it the last chunk of a chat completion that was asked for with
// stream_options.include_usage, or the event response.completed.
//
// Sources: https://github.com/openai/openai-ruby/blob/main/lib/openai/models/responses/response_usage.rb,
// https://github.com/dotnet/extensions/issues/7635 and https://github.com/laravel/ai/pull/846
// (cache_write_tokens, which input tokens include),
// https://docs.stigg.io/documentation/ai-agents/llm-wrappers/providers/openai (what the counts
// include), https://developer.4d.com/docs/21-R3/aikit/Classes/openaichatcompletionsresult and
// https://docs.rs/crate/nanocodex-oai-api/latest/source/src/responses/event.rs (the members).
func OpenAIUsage(response []byte) (Usage, error) {
	r := newUsageReader("OpenAI", response, "usage", "model", "response")
	r.refuse("cache_read_input_tokens", "cache_creation_input_tokens") // Anthropic's
	if r.detail("output_tokens_details", "thinking_tokens") != nil {
		r.fail("output_tokens_details is of another API")
	}
	in, out := "prompt_tokens", "completion_tokens"
	if r.counts["input_tokens"] != nil {
		in, out = "input_tokens", "output_tokens"
	}
	return r.usage(Usage{
		InputTokens: r.count(in), CacheReadInputTokens: r.detail(in+"_details", "cached_tokens"),
		CacheWriteInputTokens: r.detail(in+"_details", "cache_write_tokens"),
		OutputTokens:          r.count(out), ReasoningOutputTokens: r.detail(out+"_details", "reasoning_tokens"),
	})
}

// GeminiUsage reads the usage of a response of Gemini's generateContent, or the usageMetadata object
// alone. Input tokens are those of the prompt, which include the cached ones, and of the results of tools
// that ran on the server. Output tokens are those of the candidates and the thoughts, of which the API
// leaves out what is 0. Of a stream, give it the last chunk, whose counts are those of the whole response.
//
// Sources: GenerateContentResponseUsageMetadata in https://googleapis.github.io/js-genai/release_docs/
// and https://firebase.google.com/docs/reference/js/ai.usagemetadata
func GeminiUsage(response []byte) (Usage, error) {
	r := newUsageReader("Gemini", response, "usageMetadata", "modelVersion", "")
	prompt, tools := r.count("promptTokenCount"), r.detail("toolUsePromptTokenCount")
	candidates, thoughts := r.detail("candidatesTokenCount"), r.detail("thoughtsTokenCount")
	if thoughts == nil {
		candidates = r.count("candidatesTokenCount")
	}
	return r.usage(Usage{
		InputTokens: sumCounts(prompt, tools), CacheReadInputTokens: r.detail("cachedContentTokenCount"),
		OutputTokens: sumCounts(candidates, thoughts), ReasoningOutputTokens: thoughts,
	})
}

// A usageReader reads the counts of a response. err is what was wrong first.
type usageReader struct {
	of     string
	model  *string
	counts map[string]json.RawMessage
	err    error
}

// newUsageReader finds the object with the counts. Events of streams may have the response in a member.
func newUsageReader(of string, text []byte, counts, model, inside string) *usageReader {
	r := &usageReader{of: of}
	r.counts = r.object("the response", text)
	if inner := r.counts[inside]; inner != nil && r.counts[counts] == nil {
		r.counts = r.object(inside, inner)
	}
	if name := r.counts[model]; name != nil && json.Unmarshal(name, &r.model) != nil {
		r.fail("%s is no text", model)
	}
	if usage := r.counts[counts]; usage != nil {
		r.counts = r.object(counts, usage)
	}
	return r
}

// object reads an object, which must be there.
func (r *usageReader) object(name string, text []byte) (o map[string]json.RawMessage) {
	if err := json.Unmarshal(text, &o); err != nil || o == nil {
		r.fail("%s is no object", name)
	}
	return o
}

func (r *usageReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = &db.Error{
			Op: "read usage", Entity: "response of", ID: r.of,
			Err:  fmt.Errorf("%w: "+format, append([]any{db.ErrInvalid}, args...)...),
			Hint: "give it a whole response of this API, or the end of its stream, with the usage in it",
		}
	}
}

// refuse fails for members that another provider's counts have.
func (r *usageReader) refuse(names ...string) {
	for _, name := range names {
		if r.counts[name] != nil {
			r.fail("%s is of another API", name)
		}
	}
}

// count reads a count that must be there.
func (r *usageReader) count(name string) *uint64 {
	n := r.detail(name)
	if n == nil {
		r.fail("there is no %s", name)
	}
	return n
}

// detail reads a count that may be absent or null. The path leads through objects.
func (r *usageReader) detail(path ...string) *uint64 {
	o := r.counts
	for ; len(path) > 1; path = path[1:] {
		if text := o[path[0]]; text == nil || string(text) == "null" {
			return nil
		} else if o = r.object(path[0], text); o == nil {
			return nil
		}
	}
	text := o[path[0]]
	if text == nil || string(text) == "null" {
		return nil
	}
	n, err := strconv.ParseUint(string(text), 10, 53) // what v_usage counts
	if err != nil {
		r.fail("%s is no whole number from 0 to 2^53-1: %.40s", path[0], text)
		return nil
	}
	return &n
}

// usage returns what was read, if nothing was wrong.
func (r *usageReader) usage(u Usage) (Usage, error) {
	if exceeds(sumCounts(u.CacheReadInputTokens, u.CacheWriteInputTokens), u.InputTokens) {
		r.fail("more input tokens are cached than there are")
	}
	if exceeds(u.ReasoningOutputTokens, u.OutputTokens) {
		r.fail("more output tokens are for reasoning than there are")
	}
	if r.err != nil {
		return Usage{}, r.err
	}
	u.ResponseModel = r.model
	return u, nil
}

func exceeds(part, whole *uint64) bool { return part != nil && whole != nil && *part > *whole }

// sumCounts adds the counts that are there; nil: none is.
func sumCounts(counts ...*uint64) (total *uint64) {
	for _, n := range counts {
		switch {
		case n == nil:
		case total == nil:
			total = new(*n)
		default:
			*total += *n
		}
	}
	return total
}
