package plugin

import (
	"os"

	"golang.org/x/sys/windows"
)

// takeStdout returns standard output, for the handshake, and has all else that is printed there go to standard error:
// in Go, and in libraries that are loaded from now on.
func takeStdout() *os.File {
	kept := os.Stdout
	os.Stdout = os.Stderr
	_ = windows.SetStdHandle(windows.STD_OUTPUT_HANDLE, windows.Handle(os.Stderr.Fd())) // else they print what is dropped
	return kept
}
