//go:build unix

package hugepage

import (
	"os"

	"golang.org/x/sys/unix"
)

func mapPages(n int) ([]byte, error) {
	data, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|noReserve)
	return data, os.NewSyscallError("mmap", err)
}

// unmapPages cannot fail on what mapPages returned.
func unmapPages(data []byte) { _ = unix.Munmap(data) }
