package runs

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
)

// The defaults of RetentionConfig.
const (
	DefaultMaxRunsPerAgent = 50
	DefaultMaxAgeDays      = 30
)

// RetentionConfig says which ended runs [Store.GC] keeps. Zero and negative values mean what they
// say: a MaxPerAgent of 0 keeps none, and with a MaxAgeDays of -1 only runs that end more than a
// day from now are young enough.
type RetentionConfig struct {
	MaxPerAgent uint64 // the newest ended runs of each agent, by start
	MaxAgeDays  int64  // since the end, in days of 24 hours
}

// DefaultRetention is 50 runs per agent and 30 days.
func DefaultRetention() RetentionConfig {
	return RetentionConfig{MaxPerAgent: DefaultMaxRunsPerAgent, MaxAgeDays: DefaultMaxAgeDays}
}

// FromCarDir reads carDir/config.toml as parseRetention does. A file that is missing or can't be
// read gives both defaults.
func FromCarDir(carDir string) RetentionConfig {
	text, err := readConfig(joinPath(carDir, "config.toml"))
	if err != nil {
		return DefaultRetention()
	}
	limits, err := parseRetention(text)
	if err != nil {
		return DefaultRetention()
	}
	return limits
}

// parseRetention reads the table [runs] of a config.toml; other tables and keys don't matter, and
// what the table does not say is the default. A text that is no TOML, or has a limit of another
// type, is an error.
func parseRetention(config []byte) (RetentionConfig, error) {
	if !utf8.Valid(config) {
		return RetentionConfig{}, errors.New("it is not UTF-8")
	}
	// Into a map: a struct would also take [Runs], which is another table.
	var tables map[string]any
	if err := toml.Unmarshal([]byte(strings.TrimPrefix(string(config), "\ufeff")), &tables); err != nil {
		return RetentionConfig{}, err
	}
	value, there := tables["runs"]
	if !there {
		return DefaultRetention(), nil
	}
	table, ok := value.(map[string]any)
	if !ok {
		return RetentionConfig{}, errors.New("runs is no table")
	}
	perAgent, okPerAgent := wholeNumber(table, "max_per_agent", DefaultMaxRunsPerAgent)
	days, okDays := wholeNumber(table, "max_age_days", DefaultMaxAgeDays)
	if !okPerAgent || !okDays || perAgent < 0 {
		return RetentionConfig{}, errors.New("a limit is no number that it can be")
	}
	return RetentionConfig{MaxPerAgent: uint64(perAgent), MaxAgeDays: days}, nil
}

// configSize is more than any config.toml has.
const configSize = 16 << 20

// readConfig reads a file, and nothing else that may be at a path: a pipe would keep us waiting, a
// device never ends.
func readConfig(path string) (text []byte, err error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > configSize) {
		err = os.ErrInvalid
	}
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	return io.ReadAll(io.LimitReader(f, info.Size()))
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
