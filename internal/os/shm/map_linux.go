package shm

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// largePage is the size of what an entry of a processor's page tables can stand for in place of 512
// pages, on most machines.
const largePage = 2 << 20

// mapFile maps the file. Nothing is reserved for it: a shared mapping costs what is touched. It starts at a
// multiple of largePage, as large pages of the file can then be mapped as such.
func mapFile(f *os.File, size int64, writable bool) ([]byte, error) {
	prot := unix.PROT_READ
	if writable {
		prot |= unix.PROT_WRITE
	}
	if size < largePage {
		p, err := unix.MmapPtr(int(f.Fd()), 0, nil, uintptr(size), prot, unix.MAP_SHARED)
		if err != nil {
			return nil, err
		}
		return unsafe.Slice((*byte)(p), size), nil
	}
	n, room := uintptr(size), uintptr(size)+largePage
	free, err := unix.MmapPtr(-1, 0, nil, room, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	before := -uintptr(free) % largePage
	start := unsafe.Add(free, before)
	if _, err := unix.MmapPtr(int(f.Fd()), 0, start, n, prot, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		return nil, errors.Join(err, unix.MunmapPtr(free, room))
	}
	if before > 0 {
		_ = unix.MunmapPtr(free, before)
	}
	n = (n + pageSize - 1) &^ (pageSize - 1)
	_ = unix.MunmapPtr(unsafe.Add(start, n), room-before-n)
	return unsafe.Slice((*byte)(start), size), nil
}

var pageSize = uintptr(os.Getpagesize())

func unmap(data []byte) error {
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(data)), uintptr(len(data)))
}
