//go:build unix && !linux

package shm

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps the file. Nothing is reserved for it: a shared mapping costs what is touched.
func mapFile(f *os.File, size int64, writable bool) ([]byte, error) {
	prot := unix.PROT_READ
	if writable {
		prot |= unix.PROT_WRITE
	}
	return unix.Mmap(int(f.Fd()), 0, int(size), prot, unix.MAP_SHARED)
}

func unmap(data []byte) error { return unix.Munmap(data) }
