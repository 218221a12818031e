//go:build unix

package dynlib

import (
	"unsafe"

	"github.com/ebitengine/purego"
)

func load(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func symbol(handle uintptr, name string) uintptr {
	at, err := purego.Dlsym(handle, name)
	if err != nil {
		return 0
	}
	return at
}

// fileOf returns the file that the code at an address was loaded from, "" if the system does not say.
func fileOf(at uintptr) string {
	dladdr, err := purego.Dlsym(purego.RTLD_DEFAULT, "dladdr")
	if err != nil {
		return ""
	}
	var info struct{ file, base, name, address uintptr } // Dl_info
	if found, _, _ := purego.SyscallN(dladdr, at, uintptr(unsafe.Pointer(&info))); int32(found) == 0 {
		return ""
	}
	return Text(info.file)
}

// Provide loads a library, and lets those after it find what it has.
func Provide(path string) error {
	_, err := purego.Dlopen(path, purego.RTLD_LAZY|purego.RTLD_GLOBAL)
	return err
}
