//go:build unix

package blas

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// openLibrary loads a shared library. Its symbols stay its own, so that another library of the same
// names does not meet them.
func openLibrary(name string) (uintptr, error) {
	handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return 0, fmt.Errorf("load %s: %w", name, err)
	}
	return handle, nil
}

// symbol returns the address of the first of the names that the library has, 0 if it has none.
func symbol(handle uintptr, names ...string) uintptr {
	for _, name := range names {
		if at, err := purego.Dlsym(handle, name); err == nil && at != 0 {
			return at
		}
	}
	return 0
}

// loads reports whether a library can be loaded, and lets those after it find what it has.
func loads(name string) bool {
	_, err := purego.Dlopen(name, purego.RTLD_LAZY|purego.RTLD_GLOBAL)
	return err == nil
}
