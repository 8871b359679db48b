package serdejson

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestPlainPrefix_EndsAtFirstSpecialByte(t *testing.T) {
	naive := func(b []byte) int {
		for i, c := range b {
			if c == '"' || c == '\\' || c < 0x20 {
				return i
			}
		}
		return len(b)
	}
	random := rand.New(rand.NewPCG(3, 4))
	alphabet := []byte{
		'a', ' ', 0x1f, 0x20, 0x21, '"', '#', '[', '\\', ']', 0x7f, 0x80, 0x9f, 0xa2, 0xdc, 0xff,
		0,
	}
	for range 200_000 {
		b := bytes.Repeat([]byte{'a'}, random.IntN(24))
		for i := range b {
			if random.IntN(4) == 0 {
				b[i] = alphabet[random.IntN(len(alphabet))]
			}
		}
		if got, want := plainPrefix(b), naive(b); got != want {
			t.Fatalf("%q: %d, want %d", b, got, want)
		}
	}
}
