// Package usage reads what records say about the use of models: provider, model, tokens and cost. The
// views of records read the same in SQL (migrations/sqlite/views); a test of docs/ compares the two. Each
// record that counts has a row (usage_records). [OfRun] returns the rows of a run that add up, as the view
// v_usage does, and [Settle] adds those of a removed run to its days (usage_days).
//
// Versions of the originals use different names, and count cached tokens within the input tokens or
// beside them. A record may also have a provider's own object with the counts: that of Anthropic, OpenAI
// or Gemini. [Of] reads a record of a trace or of a live run, and [OfAgent] an agent's entry. A
// number that a record does not state is nil, not 0.
package usage
