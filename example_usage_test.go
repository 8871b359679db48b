package selvedge_test

import (
	"fmt"
	"log"

	"selvedge"
	"selvedge/runs/live"
)

// The usage of a model's answer becomes that of the turn.
func ExampleAnthropicUsage() {
	usage, err := selvedge.AnthropicUsage([]byte(`{"model":"claude-sonnet-4-5","usage":{"input_tokens":12,
		"cache_creation_input_tokens":0,"cache_read_input_tokens":400,"output_tokens":30}}`))
	if err != nil {
		log.Fatal(err)
	}
	usage.Provider = new("anthropic")
	event := live.TurnEnd(1, usage)
	fmt.Println(event.Type(), *event.Usage().InputTokens, *event.Usage().ResponseModel)
	// Output: turn_end 412 claude-sonnet-4-5
}
