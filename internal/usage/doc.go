// Package usage reads what records say about the use of models: provider, model, tokens and cost. The
// view v_usage reads the same in SQL (migrations/sqlite/views); a test of docs/ compares the two.
//
// Versions of the originals use different names, and count cached tokens within the input tokens or
// beside them. A record may also have a provider's own object with the counts: that of Anthropic, OpenAI
// or Gemini. [Of] reads a record of a trace or of a live run, and [OfAgent] an agent's entry. A
// number that a record does not state is nil, not 0.
package usage
