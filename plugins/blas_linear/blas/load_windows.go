package blas

import (
	"fmt"
	"syscall"
)

// openLibrary loads a DLL.
func openLibrary(name string) (uintptr, error) {
	handle, err := syscall.LoadLibrary(name)
	if err != nil {
		return 0, fmt.Errorf("load %s: %w", name, err)
	}
	return uintptr(handle), nil
}

// symbol returns the address of the first of the names that the library has, 0 if it has none.
func symbol(handle uintptr, names ...string) uintptr {
	for _, name := range names {
		if at, err := syscall.GetProcAddress(syscall.Handle(handle), name); err == nil && at != 0 {
			return at
		}
	}
	return 0
}

// loads reports whether a library can be loaded.
func loads(name string) bool {
	_, err := openLibrary(name)
	return err == nil
}
