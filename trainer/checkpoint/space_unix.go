//go:build linux || darwin || freebsd

package checkpoint

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Free returns the bytes that this user can still write to the file system of a path,
// which need not exist yet. It returns false where the system does not tell.
func Free(path string) (uint64, bool) {
	path, err := filepath.Abs(path)
	if err != nil {
		return 0, false
	}
	for {
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			break
		}
		path = filepath.Dir(path)
	}
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil || s.Blocks == 0 {
		return 0, false
	}
	return uint64(max(int64(s.Bavail), 0)) * uint64(s.Bsize), true
}
