package machine

// The system's watches are variables so that a test can run where the system has none.
var (
	// WatchPlace tells whether the way to the file at path, or what lies in its folder, may have
	// changed, or returns an error where the system doesn't tell of all of it. path has no links in it.
	WatchPlace = watchPlace

	// WatchWrites tells of writes to the file at path, or returns an error where the system doesn't
	// tell.
	WatchWrites = watchWrites
)
