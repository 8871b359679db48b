package replay

import (
	"fmt"
	"runtime/debug"
	"testing"
)

// EachTree runs a test on every tree of a store. In a tree recorded elsewhere, answers that the
// test does not know are a failure of that tree, and the others are tested all the same.
func EachTree(t *testing.T, store string, test func(*testing.T, Tree)) {
	t.Helper()
	trees, err := Trees(store)
	if err != nil {
		t.Fatal(err)
	}
	for _, tree := range trees {
		t.Run(tree.Name, func(t *testing.T) {
			if err := guarded(func() { test(t, tree) }); err != nil {
				t.Error(err)
			}
		})
	}
}

// guarded makes an error of a panic.
func guarded(test func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the test does not know this tree, or what it is expected to answer: %v\n%s", p,
				debug.Stack())
		}
	}()
	test()
	return nil
}
