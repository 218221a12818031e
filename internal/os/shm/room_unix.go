//go:build linux || darwin || freebsd

package shm

import (
	"math"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// freeSpace returns the bytes that this user can still write to the file system of a file.
func freeSpace(path string) (int64, bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(path), &s); err != nil || s.Blocks == 0 {
		return 0, false
	}
	return max(int64(s.Bavail), 0) * int64(s.Bsize), true
}

// addressLimit returns the most bytes of address space that this process can have; 0 if
// only its addresses limit it.
func addressLimit() int64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &limit) != nil || uint64(limit.Cur) > math.MaxInt64/2 {
		return 0
	}
	return int64(limit.Cur)
}
