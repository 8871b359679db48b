// Package selvedge runs agents that survive crashes. A run is what an agent was asked to do; it is
// recorded in a database, with each answer of the model, each change that the agent made outside,
// and each question to a person. A process that takes the run up after a crash gets what was
// recorded, and continues where the work stopped.
//
//	store, err := selvedge.Open(ctx, "agents.db", selvedge.Options{Agent: "deployer"})
//	run, err := store.Take(ctx, "deploy-42", selvedge.Start{Intent: "deploy"}) // begins it, or goes on
//	defer run.Leave()
//	reply, err := run.Reply("plan", model)              // the recorded answer, if there is one
//	out, err := run.Do("push", effect, push)            // at most once, unless the policy is Retry
//	answer, err := run.Ask("gate", question)            // the run waits; any process answers
//	err = run.End(selvedge.Succeeded("deployed"))
//
// Calls are named by keys that the program chooses, unique within the run. A program that is run
// again must make the same calls under the same keys in the same order.
//
// The package promises that
//
//   - one process at a time has a run, and a process that lost it can write nothing more to it;
//   - a reply of a model is recorded, with its usage, before Reply returns it;
//   - the intent of an effect is recorded before it is attempted, and its outcome before Do returns
//     it. An effect whose outcome is unknown, because the process died or the call failed, is never
//     attempted again without its [Policy];
//   - a question is answered once;
//   - a run that is not held, and does not wait for a person, is found by Next.
//
// A run is a trace of package runs and a live run of package runs/live, under one lease. Both
// stores, and SQL, can read it.
package selvedge
