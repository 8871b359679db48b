package tree

import (
	"bytes"
	"regexp"
	"sync"
)

// mark is what a redaction writes over as many bytes.
var mark = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\[redacted\]\**|\*+`) })

// IsErased reports whether kept is the text of a file but for what a redaction has erased. An import
// leaves such a text as it is: the file is no news.
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
