package machine

// WatchWrites tells of writes to the file at path, or returns an error where the system doesn't
// tell. It is a variable so that a test can be where it doesn't.
var WatchWrites = watchWrites
