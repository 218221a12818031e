//go:build !windows

package patient

import "os"

// Rename is os.Rename.
func Rename(from, to string) error { return os.Rename(from, to) }

// Remove is os.Remove.
func Remove(path string) error { return os.Remove(path) }
