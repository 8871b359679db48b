// Survive is an agent that can be killed at any moment. It deploys a build in eight turns: a model
// decides each, a service outside carries it out, and a person approves the middle one.
//
//	survive FILE submit ID    makes a run
//	survive FILE work URL     does what is ready, until it is stopped; POLICY in the environment
//
// docs/survive.md explains it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"

	"selvedge"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: survive FILE submit ID | survive FILE work URL")
	}
	if err := do(os.Args[1], os.Args[2], os.Args[3]); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func do(file, command, argument string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := selvedge.Open(ctx, file, selvedge.Options{Agent: "deployer"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if command == "submit" {
		_, err := s.Submit(ctx, argument, selvedge.Start{Intent: "deploy " + argument})
		return err
	}
	for {
		run, err := s.Next(ctx)
		if err != nil {
			return err
		}
		if err := work(run, argument); err != nil {
			log.Print(err) // the run waits for a person, or Next finds it again
		}
	}
}

// work begins a run, or goes on where it stopped.
func work(run *selvedge.Run, url string) error {
	defer run.Leave()
	for n := run.TurnNumber(); n < 8; n++ {
		if n == 4 {
			answer, err := run.Ask("gate", selvedge.Question{Prompt: "Deploy this build?"})
			if err != nil {
				return err // ErrWaiting: the run is released, and a person is asked
			}
			if answer.Decision != "approved" {
				return run.End(selvedge.GaveUp("the person said " + answer.Decision))
			}
		}
		reply, err := run.Reply(fmt.Sprint("turn-", n), model) // after a crash, the recorded one
		if err != nil {
			return err
		}
		if err := run.Say(reply.Text); err != nil {
			return err
		}
		effect := selvedge.Effect{Tool: reply.Tool, Args: reply.Args, Unknown: selvedge.Policy(os.Getenv("POLICY"))}
		post := func(ctx context.Context, key string) (json.RawMessage, error) {
			return post(ctx, url, key, reply.Args)
		}
		_, err = run.DoTurn(fmt.Sprint("post-", n), effect, selvedge.Turn{Reply: reply}, post)
		if errors.Is(err, selvedge.ErrGivenUp) {
			err = run.Turn(selvedge.Turn{Reply: reply, Output: json.RawMessage(`"given up"`)})
		}
		if err != nil {
			return err // ErrUnknown: it may have happened, and a person is asked
		}
	}
	return run.End(selvedge.Succeeded("deployed"))
}

// model stands for a model: it answers differently each time.
func model(context.Context) (selvedge.Reply, error) {
	tokens := rand.Uint64N(1000)
	return selvedge.Reply{
		Text: fmt.Sprint("word ", rand.Int()), Tool: "http",
		Args:  json.RawMessage(fmt.Sprintf(`{"build": %d}`, rand.Int())),
		Usage: selvedge.Usage{InputTokens: &tokens},
	}, nil
}

// post sends a request to the service outside.
func post(ctx context.Context, url, key string, body []byte) (json.RawMessage, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, selvedge.NotDone(err)
	}
	request.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err // it may have arrived
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the service answered %s", response.Status)
	}
	return answer, err
}
