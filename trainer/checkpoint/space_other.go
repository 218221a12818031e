//go:build !(linux || darwin || freebsd)

package checkpoint

// Free returns the bytes that this user can still write to the file system of a path. It
// returns false where the system does not tell, as here.
func Free(path string) (uint64, bool) { return 0, false }
