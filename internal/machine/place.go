package machine

// WatchPlace tells whether the way to the file at path, or what lies in its folder, may have
// changed, or returns an error where the system doesn't tell of all of it. path has no links in it.
// It is a variable so that a test can be where it doesn't.
var WatchPlace = watchPlace
