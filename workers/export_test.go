package workers

// A RuntimeSnapshot is a runtime.json, for the tests of its reader.
type RuntimeSnapshot = runtimeSnapshot
