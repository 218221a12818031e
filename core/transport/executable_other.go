//go:build !linux

package transport

import "os"

// openHeld opens a file for reading.
func openHeld(path string) (*os.File, error) { return os.Open(path) }

// runnable returns the path: only Linux starts an open file.
func runnable(_ *os.File, path string) string { return path }
