package dynlib

import "syscall"

func load(path string) (uintptr, error) {
	handle, err := syscall.LoadLibrary(path)
	return uintptr(handle), err
}

func symbol(handle uintptr, name string) uintptr {
	at, err := syscall.GetProcAddress(syscall.Handle(handle), name)
	if err != nil {
		return 0
	}
	return at
}

// fileOf would return the file that the code at an address was loaded from.
func fileOf(uintptr) string { return "" }

// Provide loads a library. Those after it find it by its name.
func Provide(path string) error {
	_, err := load(path)
	return err
}
