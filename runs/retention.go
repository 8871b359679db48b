package runs

import (
	"os"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
)

// What is kept when nobody says otherwise.
const (
	DefaultMaxRunsPerAgent = 50
	DefaultMaxAgeDays      = 30
)

// RetentionConfig says which ended runs [Store.GC] keeps. Zero and negative values mean what they say: a MaxPerAgent of 0
// keeps none, and with a MaxAgeDays of -1 only runs that end more than a day from now are young enough.
type RetentionConfig struct {
	MaxPerAgent uint64 // the newest ended runs of each agent, by start
	MaxAgeDays  int64  // since the end, in days of 24 hours
}

// DefaultRetention is 50 runs per agent and 30 days.
func DefaultRetention() RetentionConfig {
	return RetentionConfig{MaxPerAgent: DefaultMaxRunsPerAgent, MaxAgeDays: DefaultMaxAgeDays}
}

// FromCarDir reads the table [runs] of carDir/config.toml. A file that is missing, unreadable, no
// TOML, or has a limit of another type gives both defaults; other tables and keys don't matter.
func FromCarDir(carDir string) RetentionConfig {
	limits := DefaultRetention()
	text, err := readConfig(joinPath(carDir, "config.toml"))
	if err != nil || !utf8.Valid(text) {
		return limits
	}
	// Into a map: a struct would also take [Runs], which is another table.
	var tables map[string]any
	if err := toml.Unmarshal([]byte(strings.TrimPrefix(string(text), "\ufeff")), &tables); err != nil {
		return limits
	}
	value, there := tables["runs"]
	if !there {
		return limits
	}
	table, ok := value.(map[string]any)
	if !ok {
		return limits
	}
	perAgent, okPerAgent := wholeNumber(table, "max_per_agent", DefaultMaxRunsPerAgent)
	days, okDays := wholeNumber(table, "max_age_days", DefaultMaxAgeDays)
	if !okPerAgent || !okDays || perAgent < 0 {
		return limits
	}
	return RetentionConfig{MaxPerAgent: uint64(perAgent), MaxAgeDays: days}
}

// configSize is more than any config.toml has.
const configSize = 16 << 20

// readConfig reads a file, and nothing else that may be at a path: a pipe would keep us waiting, a device never ends.
func readConfig(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > configSize) {
		err = os.ErrInvalid
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// wholeNumber is the integer of that name; ok is false when something else is there.
func wholeNumber(table map[string]any, name string, missing int64) (n int64, ok bool) {
	value, there := table[name]
	if !there {
		return missing, true
	}
	n, ok = value.(int64)
	return n, ok
}

// parentFolder cuts the last component off a path without looking at the disk, ".."
// is a component like any other, and "." counts only in front. What has no parent gives ".".
func parentFolder(path string) string {
	path = trimPath(path)
	if path == "" || path == "/" {
		return "."
	}
	cut := strings.LastIndexByte(path, '/')
	if cut < 0 {
		return ""
	}
	if parent := trimPath(path[:cut]); parent != "" {
		return parent
	}
	return "/"
}

// trimPath cuts off what is no component: slashes and "." at the end.
func trimPath(path string) string {
	for {
		switch {
		case len(path) > 1 && strings.HasSuffix(path, "/"):
			path = path[:len(path)-1]
		case strings.HasSuffix(path, "/."):
			path = path[:len(path)-1]
		default:
			return path
		}
	}
}

// joinPath joins without cleaning, so that "a/.." stays what it is.
func joinPath(folder, name string) string {
	if folder == "" || strings.HasSuffix(folder, "/") {
		return folder + name
	}
	return folder + "/" + name
}
