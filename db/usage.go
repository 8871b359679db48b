package db

// Usage is what a model used for one record, and what that cost, in the words of OpenTelemetry's
// semantic conventions for generative AI (2026). Nil is "not counted"; 0 is none.
//
// It is what the record itself says. Records sum each other up: an agent_end its turn_ends, an
// agent its runs. Who adds up counts twice, unless it is the rows of the view v_usage, which have
// the same names.
type Usage struct {
	Provider      *string // of the model
	RequestModel  *string // model that was asked for
	ResponseModel *string // model that answered

	InputTokens           *uint64 // tokens read, those from a cache and those written to one included
	CacheReadInputTokens  *uint64 // of these, read from a cache
	CacheWriteInputTokens *uint64 // of these, written to a cache
	OutputTokens          *uint64 // tokens answered
	ReasoningOutputTokens *uint64 // of these, for reasoning

	CostUSD *float64 // US dollars
	// "reported": the record says it; "" where CostUSD is nil. Nothing is reckoned from price lists
	CostSource string
}

// Counted reports whether there is a count of tokens or money.
func (u Usage) Counted() bool {
	return u.InputTokens != nil || u.CacheReadInputTokens != nil || u.CacheWriteInputTokens != nil ||
		u.OutputTokens != nil ||
		u.ReasoningOutputTokens != nil || u.CostUSD != nil
}
