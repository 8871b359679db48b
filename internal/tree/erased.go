package tree

import (
	"bytes"
	"regexp"
	"sync"
)

// mark matches what a redaction writes over a text, which keeps its length.
var mark = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\[redacted\]\**|\*+`) })

// IsErased reports whether kept is the text of a file, except for what a redaction has erased. An
// import leaves such a text as it is: the file has nothing new.
func IsErased(kept, file []byte) bool {
	if len(kept) != len(file) {
		return false
	}
	covered := bytes.Clone(file)
	for _, at := range mark().FindAllIndex(kept, -1) {
		copy(covered[at[0]:at[1]], kept[at[0]:])
	}
	return bytes.Equal(covered, kept)
}
