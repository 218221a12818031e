//go:build unix

package checkpoint

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapFile maps the first size bytes of f read-only. Some network and user-space
// file systems cannot map; from those the file is read.
func mapFile(f *os.File, size int) ([]byte, bool, func() error, error) {
	if size == 0 { // nothing to map, and mmap refuses to
		return nil, false, func() error { return nil }, nil
	}
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return readFile(f, size)
	}
	return b, true, func() error { return unix.Munmap(b) }, nil
}

// forget takes the whole pages of a part of a mapped file out of the process's memory; who
// reads them again gets them from the file. What it cannot take it leaves.
func forget(mapped []byte) {
	page := os.Getpagesize()
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(mapped)))) & (page - 1)
	if n := (len(mapped) - skip) &^ (page - 1); n > 0 {
		_ = unix.Madvise(mapped[skip:skip+n], unix.MADV_DONTNEED) // advice
	}
}
