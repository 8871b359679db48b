package original

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"selvedge/agents"
)

// entries are the documents that the original wrote into a recorded tree.
func entries(t *testing.T) (list [][]byte) {
	t.Helper()
	file, err := os.Open("../../testdata/legacy/agents/typical.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for in := tar.NewReader(unpacked); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(head.Name, ".toml") {
			text, err := io.ReadAll(in)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, text)
		}
	}
}

// The reader loses nothing of an entry: writing it again reproduces the original byte for byte.
func TestEntriesComeBackByteForByte(t *testing.T) {
	list := entries(t)
	for _, document := range list {
		e, err := DecodeEntry(document)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if got := e.TOML(); !bytes.Equal(got, document) {
			t.Fatalf("came back as\n%s\nof\n%s", got, document)
		}
	}
	if len(list) != 400 {
		t.Errorf("%d entries", len(list))
	}
}

// A baseline may not be slower than the original's own code. Rust's toml takes 7.1 µs for an entry
// where our codec, which keeps what it does not know, takes 27: this reader must not take more than
// that share.
func TestDecode_EntriesAsFastAsOriginal(t *testing.T) {
	const share = 7.1 / 27
	list := entries(t)
	codec, baseline := sideBySide(t, list,
		func(document []byte) error { _, err := agents.DecodeTOML(document); return err },
		func(document []byte) error { _, err := DecodeEntry(document); return err })
	t.Logf("our codec %v an entry, the baseline %v", codec, baseline)
	if float64(baseline) > share*float64(codec) {
		t.Errorf("the baseline takes %v an entry, our codec %v: it must take at most %.2f of that", baseline,
			codec, share)
	}
}

// sideBySide returns the time that each of two readers takes for a document, in the fastest of
// several rounds in turns: others use the machine too.
func sideBySide(t *testing.T, list [][]byte, one, other func([]byte) error) (first, second time.Duration) {
	t.Helper()
	round := func(decode func([]byte) error) time.Duration {
		began := time.Now()
		for _, document := range list {
			if err := decode(document); err != nil {
				t.Fatal(err)
			}
		}
		return time.Since(began) / time.Duration(len(list))
	}
	first, second = time.Hour, time.Hour
	for range 20 {
		first, second = min(first, round(one)), min(second, round(other))
	}
	return first, second
}

func TestRegistryWritesAndFindsAsTheOriginal(t *testing.T) {
	r := NewRegistry(t.TempDir(), WithSync)
	e := Entry{
		SessionID: "agent-1", Thread: `a "thread"`, BaseState: "b", Status: "active",
		StartedAt: time.Unix(1, 5).UTC(),
	}
	if err := r.Reserve(e); err != nil {
		t.Fatal(err)
	}
	other := e
	other.SessionID = "agent-2"
	if err := r.Reserve(other); err == nil {
		t.Error("a thread was reserved twice")
	}
	if err := r.Update("agent-1", func(e *Entry) { e.Status = "complete" }); err != nil {
		t.Fatal(err)
	}
	if err := r.Reserve(other); err != nil {
		t.Errorf("the thread is free: %v", err)
	}
}
