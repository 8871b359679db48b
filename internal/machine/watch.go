package machine

// The system's watches are variables so that a test can run where the system has none.
var (
	// WatchPlace reports whether the way to the file at path, or the content of its folder, may
	// have changed. It returns an error if the system does not report all of that. path has no
	// links in it.
	WatchPlace = watchPlace

	// WatchWrites reports writes to the file at path. It returns an error if the system does not
	// report them.
	WatchWrites = watchWrites
)
