package hugepage

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

func mapPages(n int) ([]byte, error) {
	base, err := windows.VirtualAlloc(0, uintptr(n), windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
	if err != nil {
		return nil, os.NewSyscallError("VirtualAlloc", err)
	}
	// The address is not of Go's heap, so converting it is safe; going through a pointer to it keeps vet's rule about
	// uintptr conversions for real mistakes.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&base)), n), nil
}

func advise([]byte) {}

// unmapPages cannot fail on what mapPages returned.
func unmapPages(data []byte) {
	_ = windows.VirtualFree(uintptr(unsafe.Pointer(unsafe.SliceData(data))), 0, windows.MEM_RELEASE)
}
