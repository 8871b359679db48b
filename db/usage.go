package db

// Usage is the token usage and cost of one record, in the terms of OpenTelemetry's semantic
// conventions for generative AI (2026). Nil means not counted; 0 means none.
//
// It is as reported by the record itself. Some records are totals of others: an agent_end of its
// turn_ends, an agent of its runs. To add up without counting twice, use the rows of the view
// v_usage, which have the same names. v_usage and the calls that sum up count numbers up to 2^53-1: a
// larger one is unknown to them. The views of records have it as the record states it, up to 2^63-1.
type Usage struct {
	Provider      *string // of the model
	RequestModel  *string // model that was asked for
	ResponseModel *string // model that answered

	InputTokens           *uint64 // tokens read, including those read from or written to a cache
	CacheReadInputTokens  *uint64 // of these, read from a cache
	CacheWriteInputTokens *uint64 // of these, written to a cache
	OutputTokens          *uint64 // tokens answered
	ReasoningOutputTokens *uint64 // of these, for reasoning

	CostUSD *float64 // US dollars
	// "reported" if the record states a cost; "" if CostUSD is nil. Prices are never computed
	CostSource string
}
