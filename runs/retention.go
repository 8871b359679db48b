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

// RetentionConfig sets which ended runs [Store.GC] keeps. Zero and negative values are taken
// literally: a MaxPerAgent of 0 keeps none, and with a MaxAgeDays of -1 only runs that end more
// than a day from now are young enough.
type RetentionConfig struct {
	MaxPerAgent uint64 // the newest ended runs of each agent, by start
	MaxAgeDays  int64  // since the end, in days of 24 hours
}

// DefaultRetention returns 50 runs per agent and 30 days.
func DefaultRetention() RetentionConfig {
	return RetentionConfig{MaxPerAgent: DefaultMaxRunsPerAgent, MaxAgeDays: DefaultMaxAgeDays}
}

// FromCarDir reads carDir/config.toml as parseRetention does. It returns both defaults if the file
// is missing or cannot be read.
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

// parseRetention reads the table [runs] of a config.toml. Other tables and keys are ignored, and a
// missing limit is the default. It returns an error if the text is not TOML, or has a limit of
// another type.
func parseRetention(config []byte) (RetentionConfig, error) {
	if !utf8.Valid(config) {
		return RetentionConfig{}, errors.New("it is not UTF-8")
	}
	// Into a map: a struct would also match [Runs], which is another table.
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

// configSize is more than the size of any config.toml.
const configSize = 16 << 20

// readConfig reads a regular file, and nothing else that may be at a path: a pipe would block, and
// a device never ends.
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
	defer f.Close() //nolint:errcheck // opened for reading only
	return io.ReadAll(io.LimitReader(f, info.Size()))
}

// wholeNumber returns the integer of that name, or missing if there is none; ok is false if the
// value is not an integer.
func wholeNumber(table map[string]any, name string, missing int64) (n int64, ok bool) {
	value, there := table[name]
	if !there {
		return missing, true
	}
	n, ok = value.(int64)
	return n, ok
}

// parentFolder removes the last component of a path without reading the disk: ".." is a component
// like any other, and "." counts only at the front. A path without a parent yields ".".
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

// trimPath removes what is no component: slashes and "." at the end.
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
