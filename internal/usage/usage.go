package usage

import (
	"cmp"
	"encoding/json"
	"math"
	"math/bits"
	"strconv"

	"selvedge/db"
)

// reported is the source of a cost that a record states itself.
const reported = "reported"

type object map[string]json.RawMessage

// Of reads a record: a model_turn or turn of a trace, a turn_end or agent_end of a live run. Their
// counts have the names of several versions or of a provider.
func Of(record []byte) (u db.Usage) {
	var said object
	if json.Unmarshal(record, &said) != nil {
		return u
	}
	meta, counts := said.object("meta"), said.object("token_usage")
	for _, name := range []string{"usage", "usageMetadata"} {
		if counts == nil {
			counts = said.object(name)
		}
	}
	u.Provider = cmp.Or(said.text("provider"), meta.text("provider"))
	u.RequestModel = cmp.Or(said.text("request_model"), meta.text("request_model"))
	u.ResponseModel = cmp.Or(said.text("response_model"), said.text("model_id"), meta.text("response_model"),
		said.text("model"))
	u.InputTokens = cmp.Or(counts.count("input_tokens"), counts.count("prompt_tokens"))
	if u.InputTokens == nil {
		u.InputTokens = plus(counts.count("promptTokenCount"), counts.count("toolUsePromptTokenCount"))
	}
	u.CacheReadInputTokens = cmp.Or(counts.count("cache_read_input_tokens"), counts.count("cache_read_tokens"),
		counts.object("prompt_tokens_details").count("cached_tokens"),
		counts.object("input_tokens_details").count("cached_tokens"), counts.count("cachedContentTokenCount"))
	u.CacheWriteInputTokens = cmp.Or(counts.count("cache_write_input_tokens"),
		counts.count("cache_creation_input_tokens"), counts.count("cache_write_tokens"),
		counts.object("prompt_tokens_details").count("cache_write_tokens"),
		counts.object("input_tokens_details").count("cache_write_tokens"))
	u.ReasoningOutputTokens = cmp.Or(counts.count("reasoning_output_tokens"), counts.count("reasoning_tokens"),
		counts.object("completion_tokens_details").count("reasoning_tokens"),
		counts.object("output_tokens_details").count("reasoning_tokens"),
		counts.object("output_tokens_details").count("thinking_tokens"), counts.count("thoughtsTokenCount"))
	u.OutputTokens = cmp.Or(counts.count("output_tokens"), counts.count("completion_tokens"),
		plus(counts.count("candidatesTokenCount"), counts.count("thoughtsTokenCount")),
		counts.count("thoughtsTokenCount"))
	u.InputTokens = withCached(u, counts)
	if u.CostUSD = cmp.Or(said.number("cost_usd"), counts.number("cost_usd")); u.CostUSD != nil {
		u.CostSource = reported
	}
	return u
}

// OfAgent is the usage in an agent's entry. micros is the cost in millionths of a dollar.
func OfAgent(provider, model *string, input, output, reasoning, micros *uint64) db.Usage {
	u := db.Usage{
		Provider: provider, RequestModel: model, InputTokens: input, OutputTokens: output,
		ReasoningOutputTokens: reasoning,
	}
	if micros != nil {
		dollars := float64(*micros) / 1e6
		u.CostUSD, u.CostSource = &dollars, reported
	}
	return u
}

// withCached is the number of input tokens, with those of caches. Some records count these separately
// and some include them: the total shows which. Anthropic's counts have no total, and are separate.
func withCached(u db.Usage, counts object) *uint64 {
	if u.InputTokens == nil {
		return nil
	}
	cached := new(uint64)
	for _, n := range []*uint64{u.CacheReadInputTokens, u.CacheWriteInputTokens} {
		cached = plus(cached, n)
	}
	separate := counts.count("input_tokens") != nil && counts.count("cache_creation_input_tokens") != nil
	if total := counts.count("total_tokens"); total != nil {
		separate = u.OutputTokens != nil && *total-*u.InputTokens-*u.OutputTokens == *cached
	}
	if !separate {
		return u.InputTokens
	}
	return plus(u.InputTokens, cached)
}

// plus adds a count that may be absent to one that must be there, up to the largest number.
func plus(n, more *uint64) *uint64 {
	if n == nil || more == nil {
		return n
	}
	sum, carry := bits.Add64(*n, *more, 0)
	if carry != 0 {
		sum = math.MaxUint64
	}
	return &sum
}

// has is asked first: most members are absent, and to make an error takes as long as to read a number.
func (o object) has(name string) bool { return o[name] != nil }

func (o object) object(name string) (inner object) {
	if !o.has(name) || json.Unmarshal(o[name], &inner) != nil {
		return nil
	}
	return inner
}

func (o object) text(name string) (text *string) {
	if !o.has(name) || json.Unmarshal(o[name], &text) != nil {
		return nil
	}
	return text
}

func (o object) number(name string) *float64 {
	if !o.has(name) {
		return nil
	}
	if n, err := strconv.ParseFloat(string(o[name]), 64); err == nil {
		return &n
	}
	return nil
}

// count reads a whole number that is not negative.
func (o object) count(name string) *uint64 {
	if !o.has(name) {
		return nil
	}
	if n, err := strconv.ParseUint(string(o[name]), 10, 64); err == nil {
		return &n
	}
	if f := o.number(name); f != nil && *f >= 0 && *f < math.MaxInt64 && *f == math.Trunc(*f) {
		n := uint64(*f)
		return &n
	}
	return nil
}
