//go:build !unix

package checkpoint

import "os"

// mapFile reads the first size bytes of f: this system gets no mapping.
func mapFile(f *os.File, size int) ([]byte, bool, func() error, error) { return readFile(f, size) }

// forget does nothing: no file is mapped.
func forget([]byte) {}
