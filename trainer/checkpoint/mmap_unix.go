//go:build unix

package checkpoint

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps the first size bytes of f read-only. Some network and user-space
// file systems cannot map; from those the file is read.
func mapFile(f *os.File, size int) ([]byte, func() error, error) {
	if size == 0 { // nothing to map, and mmap refuses to
		return nil, func() error { return nil }, nil
	}
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return readFile(f, size)
	}
	return b, func() error { return unix.Munmap(b) }, nil
}
