package main

import (
	"bufio"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os/exec"
	"strings"
	"testing"

	"selvedge"
)

// A server that is killed leaves nothing that keeps a writer out.
func TestServe_ShowsPagesUntilItIsKilled(t *testing.T) {
	for _, flags := range [][]string{nil, {"--answer"}} {
		path := waitingRuns(t)
		command := exec.Command("migrate", append([]string{"--db", path, "serve"}, flags...)...)
		said, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(said).ReadString('\n')
		address := strings.TrimSpace(strings.TrimPrefix(line, "open "))
		if err != nil || !strings.HasPrefix(address, "http://127.0.0.1:") {
			t.Fatalf("%q, %v", line, err)
		}
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := (&http.Client{Jar: jar}).Get(address)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || !strings.Contains(string(body), "Deploy this build?") {
			t.Errorf("%s, %v: %s", answer.Status, err, body)
		}
		if asks := strings.Contains(string(body), `action="answer"`); asks != (len(flags) > 0) {
			t.Errorf("with %q, the page has a form: %v", flags, asks)
		}
		if err := command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = command.Wait() // killed
		s, err := selvedge.Open(t.Context(), path, selvedge.Options{Agent: "deployer"})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Answer(t.Context(), selvedge.Ref{RunID: "deploy-42"}, "gate",
			selvedge.Answer{Decision: "approved"}); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestServe_RefusesAddressesItCannotUse(t *testing.T) {
	path := waitingRuns(t)
	for _, flags := range [][]string{
		{"--listen", "nowhere"},
		{"--listen", "192.0.2.1:1"},
		{"--public-url", "example.org"},
		{"--public-url", "ftp://example.org/"},
	} {
		if exit, _, stderr := call(t, append([]string{"--db", path, "serve"},
			flags...)...); exit != kindUsage.exit {
			t.Errorf("%q: exit %d: %s", flags, exit, stderr)
		}
	}
}
