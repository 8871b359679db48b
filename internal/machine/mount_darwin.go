package machine

// MountRoot: macOS mounts no single files.
func MountRoot(string) bool { return false }
