//go:build !linux

package checksum

import "os"

// Hold does nothing here.
func Hold(*os.File) {}

// StateOf does not know the state of a file here.
func StateOf(*os.File) (s State, known bool) { return s, false }
