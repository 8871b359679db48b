package runs

import (
	"fmt"
	"testing"
)

func TestTheCacheOfKeysIsBounded(t *testing.T) {
	var c keyCache
	for i := range 3 * keyCacheSize {
		c.keep(RunRef{RunID: fmt.Sprint(i)}, int64(i+1))
		if _, known := c.find(RunRef{RunID: fmt.Sprint(i)}); !known || len(c.byRef) > keyCacheSize {
			t.Fatalf("after %d runs it holds %d", i+1, len(c.byRef))
		}
	}
}
